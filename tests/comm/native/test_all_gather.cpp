#include "ranks.h"
#include "samples.h"

using namespace nbdist;
using namespace nbdist::test;

namespace {

void gather_all(Group& group, const void* in, std::vector<Bytes>& out, std::size_t count) {
    std::vector<void*> places;
    for (Bytes& part : out) places.push_back(part.data());
    run(group, Kind::all_gather,
        [&](World& world) { all_gather(world, in, places.data(), count, DType::u8); });
}

}  // namespace

TEST(every_rank_gets_what_all_have) {
    for (const Hosts& hosts : some_hosts())
        spawn(hosts, [](Group& group) {
            for (std::size_t count : {std::size_t{0}, std::size_t{1}, slot_bytes - 1, slot_bytes,
                                      slot_bytes + 1, 4 * slot_bytes + 1, 7 * slot_bytes + 13}) {
                std::vector<Bytes> out(group.size(), Bytes(count));
                const Bytes mine = sample(DType::u8, count, group.rank());
                gather_all(group, mine.data(), out, count);
                for (int rank = 0; rank < group.size(); ++rank)
                    CHECK(out[rank] == sample(DType::u8, count, rank));
            }
        });
}

TEST(the_input_may_be_its_own_place_in_the_output) {
    spawn(3, [](Group& group) {
        const std::size_t count = 2 * slot_bytes + 5;
        std::vector<Bytes> out(group.size(), Bytes(count));
        out[group.rank()] = sample(DType::u8, count, group.rank());
        gather_all(group, out[group.rank()].data(), out, count);
        for (int rank = 0; rank < group.size(); ++rank) CHECK(out[rank] == sample(DType::u8, count, rank));
    });
}
