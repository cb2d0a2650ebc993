#include <barrier>

#include "errands.h"
#include "ranks.h"
#include "samples.h"

using namespace nbdist;
using namespace nbdist::test;

namespace {

const std::vector<Hosts> pairs = {{0, 0}, {0, 1}};

// What says why a collective was released.
std::string released(Group& group, const Group::Collective& collective) {
    try {
        run(group, Kind::gather, collective);
    } catch (const std::exception& error) {  // whichever: the other rank waits for us
        return error.what();
    }
    return "";
}

const std::string reason = "rank 1 left the group while rank 0 waits";

}  // namespace

TEST(a_message_that_nobody_wants_keeps_no_rank_that_left) {
    for (const Hosts& hosts : pairs) {
        std::barrier done(2);
        spawn(hosts, [&](Group& group) {
            Bytes small(10), large(50'000'000);
            if (group.rank() == 1) {
                group.mail().wait(group.mail().post_send(0, {7, small.size()}, small.data()),
                                  {Kind::send, 0});
                group.close();
                done.arrive_and_wait();
                return;
            }
            auto send_in_vain = [&](World& world) {
                Errands errands(world, group.mail(), exchange_tag);
                errands.send(1, large.data(), large.size());
                errands.await_all();
            };
            const std::string said = released(group, send_in_vain);
            done.arrive_and_wait();
            CHECK(said.find(reason) != std::string::npos);
        });
    }
}

TEST(what_a_rank_that_left_had_only_begun_to_send_is_not_waited_for) {
    for (const Hosts& hosts : pairs) {
        std::barrier done(2);
        spawn(hosts, [&](Group& group) {
            Bytes small(10), large(50'000'000);
            if (group.rank() == 1) {
                group.mail().post_send(0, {7, large.size()}, large.data());
                group.close();
                done.arrive_and_wait();
                return;
            }
            auto receive_in_vain = [&](World& world) {
                Errands errands(world, group.mail(), exchange_tag);
                errands.receive(1, small.data(), small.size());
                errands.await_all();
            };
            const std::string said = released(group, receive_in_vain);
            done.arrive_and_wait();
            CHECK(said.find(reason) != std::string::npos);
        });
    }
}

TEST(what_a_rank_sent_before_it_left_arrives) {
    for (const Hosts& hosts : pairs)
        spawn(hosts, [](Group& group) {
            const Bytes data = sample(DType::u8, 60'000, 1);
            run(group, Kind::gather, [&](World& world) {
                Errands errands(world, group.mail(), exchange_tag);
                Bytes in(data.size());
                if (group.rank() == 1)
                    errands.send(0, data.data(), data.size());
                else
                    errands.receive(1, in.data(), in.size());
                errands.await_all();
                CHECK(group.rank() == 1 || in == data);
            });
        });
}
