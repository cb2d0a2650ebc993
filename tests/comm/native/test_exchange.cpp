#include "exchange.h"
#include "ranks.h"
#include "samples.h"

using namespace nbdist;
using namespace nbdist::test;

namespace {

// Uneven, and nothing at all for some pairs.
std::size_t length(int from, int to) {
    return static_cast<std::size_t>((from + 2 * to) % 4) * 50'021;
}

Bytes text(int from, int to) {
    return sample(DType::u8, length(from, to), 10 * from + to);
}

}  // namespace

TEST(every_pair_moves_something_of_its_own) {
    for (const Hosts& hosts : some_hosts())
        spawn(hosts, [](Group& group) {
            for (int round = 0; round < 5; ++round) {
                std::vector<Bytes> out, in;
                std::vector<Parcel> sends, receives;
                for (int peer = 0; peer < group.size(); ++peer) {
                    out.push_back(text(group.rank(), peer));
                    in.emplace_back(length(peer, group.rank()));
                }
                for (int peer = 0; peer < group.size(); ++peer) {
                    sends.push_back({peer, out[peer].data(), out[peer].size()});
                    receives.push_back({peer, in[peer].data(), in[peer].size()});
                }
                run(group, Kind::all_to_all, [&](World& world) {
                    exchange(world, group.mail(), {.kind = Kind::all_to_all}, sends, receives);
                });
                for (int peer = 0; peer < group.size(); ++peer) CHECK(in[peer] == text(peer, group.rank()));
            }
        });
}

TEST(a_pair_that_expects_another_size_is_a_mismatch_for_all) {
    spawn(2, [](Group& group) {
        Bytes out(100), in(group.rank() == 0 ? 100 : 99);
        const int peer = 1 - group.rank();
        CHECK_THROWS(Mismatch, run(group, Kind::all_to_all,
                                   [&](World& world) {
                                       exchange(world, group.mail(), {.kind = Kind::all_to_all},
                                                {{peer, out.data(), out.size()}},
                                                {{peer, in.data(), in.size()}});
                                   });
                     run(group, Kind::barrier, [](World& world) { barrier(world); }),
                     "rank 0 sent 100 bytes to rank 1, which receives 99 bytes; use tensors of one size");
    });
}
