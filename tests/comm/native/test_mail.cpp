#include <barrier>
#include <thread>

#include "mail.h"
#include "ranks.h"
#include "samples.h"

using namespace nbdist;
using namespace nbdist::test;

namespace {

const std::vector<Hosts> pairs = {{0, 0}, {0, 1}};

void send(Group& group, int to, std::int64_t tag, const Bytes& data) {
    group.mail().wait(group.mail().post_send(to, {tag, data.size()}, data.data()), {Kind::send, to});
}

// Returns whom it came from.
int recv(Group& group, int from, std::int64_t tag, Bytes& data) {
    const auto ticket = group.mail().post_recv(from, {tag, data.size()}, data.data());
    group.mail().wait(ticket, {Kind::recv, from});
    return ticket->source;
}

std::shared_ptr<Ticket> entrust(Group& group, std::shared_ptr<Ticket> ticket, Kind kind, int peer) {
    group.mail().entrust({ticket, [] {}}, {kind, peer});
    return ticket;
}

const std::vector<std::size_t> lengths = {
    0, 1, mail_payload - 1, mail_payload, mail_payload + 1, 3 * mail_payload, 10 * mail_payload + 7};

}  // namespace

TEST(messages_of_every_length_arrive) {
    for (const Hosts& hosts : pairs)
        spawn(hosts, [](Group& group) {
            for (std::size_t length : lengths)
                for (int from : {0, 1}) {
                    Bytes data = sample(DType::u8, length, group.rank());
                    if (group.rank() == from)
                        send(group, 1 - from, 5, data);
                    else
                        CHECK_EQUAL(recv(group, from, 5, data), from);
                    CHECK(data == sample(DType::u8, length, from));
                }
        });
}

TEST(two_that_send_to_each_other_first_both_get_on) {
    for (const Hosts& hosts : pairs)
        spawn(hosts, [](Group& group) {
            const int peer = 1 - group.rank();
            for (std::size_t length : lengths) {
                const Bytes out = sample(DType::u8, length, group.rank());
                Bytes in(length);
                const auto receiving = group.mail().post_recv(peer, {0, length}, in.data());
                send(group, peer, 0, out);
                group.mail().wait(receiving, {Kind::recv, peer});
                CHECK(in == sample(DType::u8, length, peer));
            }
        });
}

TEST(tags_are_kept_apart_and_one_tag_in_order) {
    for (const Hosts& hosts : pairs)
        spawn(hosts, [](Group& group) {
            constexpr int number = 30;
            if (group.rank() == 0) {
                for (int i = 0; i < number; ++i)
                    entrust(group, group.mail().post_send(1, {i % 2, 0}, nullptr), Kind::send, 1);
                std::vector<Bytes> data;
                for (int i = 0; i < number; ++i) data.push_back(sample(DType::u8, 1000 + i, i));
                std::vector<std::shared_ptr<Ticket>> tickets;
                for (int i = 0; i < number; ++i)
                    tickets.push_back(entrust(
                        group, group.mail().post_send(1, {10 + i % 2, data[i].size()}, data[i].data()),
                        Kind::send, 1));
                for (const auto& ticket : tickets) ticket->wait(group.vigil());
            } else {
                for (int odd : {1, 0})  // the later tag first
                    for (int i = odd; i < number; i += 2) {
                        Bytes data(1000 + i);
                        recv(group, 0, 10 + odd, data);
                        CHECK(data == sample(DType::u8, 1000 + i, i));
                    }
                Bytes nothing;
                for (int i = 0; i < number; ++i) recv(group, 0, i % 2, nothing);
            }
        });
}

TEST(any_source_takes_from_all_and_says_from_whom) {
    for (const Hosts& hosts : {one_host(4), Hosts{0, 1, 2, 3}, Hosts{0, 0, 1, 1}})
        spawn(hosts, [](Group& group) {
            constexpr int number = 20;
            if (group.rank() != 0) {
                for (int i = 0; i < number; ++i)
                    send(group, 0, 3, sample(DType::u8, 70'000, group.rank() + 10 * i));
                return;
            }
            std::vector<int> seen(4);
            for (int i = 0; i < 3 * number; ++i) {
                Bytes data(70'000);
                const int source = recv(group, any_source, 3, data);
                CHECK(data == sample(DType::u8, 70'000, source + 10 * seen[source]++));
            }
            CHECK(seen == (std::vector{0, number, number, number}));
        });
}

TEST(a_message_to_oneself_arrives) {
    spawn(1, [](Group& group) {
        for (std::size_t length : lengths) {
            const Bytes out = sample(DType::u8, length, 1);
            Bytes in(length);
            const auto sending = group.mail().post_send(0, {0, length}, out.data());
            CHECK_EQUAL(recv(group, 0, 0, in), 0);
            group.mail().wait(sending, {Kind::send, 0});
            CHECK(in == out);
        }
    });
}

TEST(the_courier_moves_what_nobody_waits_for) {
    for (const Hosts& hosts : {one_host(3), Hosts{0, 1, 2}, Hosts{0, 0, 1}})
        spawn(hosts, [](Group& group) {
            const int size = group.size();
            std::vector<Bytes> out, in;
            std::vector<std::shared_ptr<Ticket>> tickets;
            for (int peer = 0; peer < size; ++peer) {
                out.push_back(sample(DType::u8, 300'000, 10 * group.rank() + peer));
                in.emplace_back(300'000);
            }
            for (int peer = 0; peer < size; ++peer) {
                tickets.push_back(entrust(group,
                                          group.mail().post_recv(peer, {1, in[peer].size()}, in[peer].data()),
                                          Kind::recv, peer));
                tickets.push_back(
                    entrust(group, group.mail().post_send(peer, {1, out[peer].size()}, out[peer].data()),
                            Kind::send, peer));
            }
            // Collectives go on beside them.
            for (int i = 0; i < 20; ++i) run(group, Kind::barrier, [](World& world) { barrier(world); });
            for (const auto& ticket : tickets) ticket->wait(group.vigil());
            for (int peer = 0; peer < size; ++peer)
                CHECK(in[peer] == sample(DType::u8, 300'000, 10 * peer + group.rank()));
        });
}

TEST(another_length_is_a_mismatch_on_both) {
    for (const Hosts& hosts : pairs)
        spawn(hosts, [](Group& group) {
            Bytes data(group.rank() == 0 ? 200'000 : 7);
            const std::string reason = "rank 0 sent 200000 bytes to rank 1, which receives 7 bytes";
            if (group.rank() == 1) {
                CHECK_THROWS(Mismatch, recv(group, 0, 0, data), reason);
                return;
            }
            // A send may be through before anybody looks at it.
            CHECK_THROWS(Mismatch, while (true) send(group, 1, 0, data), reason);
        });
}

TEST(what_a_rank_sent_before_it_left_still_arrives) {
    for (const Hosts& hosts : pairs)
        spawn(hosts, [](Group& group) {
            Bytes data = sample(DType::u8, 1000, group.rank());
            if (group.rank() == 0) {
                send(group, 1, 0, data);
                return;  // and leaves
            }
            while (!group.vigil().aborted() && recv(group, 0, 0, data) == 0) {
                CHECK(data == sample(DType::u8, 1000, 0));
                CHECK_THROWS(Aborted, recv(group, 0, 0, data),
                             "rank 0 left the group while rank 1 waits in recv");
            }
        });
}

TEST(nothing_follows_half_a_message_that_was_taken_back) {
    for (const Hosts& hosts : pairs) {
        std::barrier step(2);
        spawn(hosts, [&](Group& group) {
            Mail& mail = group.mail();
            const Bytes large(20'000'000, std::byte{1}), small(10, std::byte{2});
            // Moves what can move, once at least, even when the group is over.
            auto look = [&] {
                const auto own = mail.post_recv(group.rank(), {8, 0}, nullptr);
                mail.post_send(group.rank(), {8, 0}, nullptr);
                mail.wait(own, {Kind::recv, group.rank()});
            };
            if (group.rank() == 0) {
                const auto half = mail.post_send(1, {1, large.size()}, large.data());
                step.arrive_and_wait();  // begun
                step.arrive_and_wait();  // received in part, and taken back there
                CHECK(!half->done());
                look();
                step.arrive_and_wait();  // more has come
                step.arrive_and_wait();
                group.abort("on purpose");
                mail.forget(half);
                const auto after = mail.post_send(1, {2, small.size()}, small.data());
                look();
                CHECK(!after->done());
                mail.forget(after);
                step.arrive_and_wait();
                return;
            }
            step.arrive_and_wait();
            Bytes first(large.size()), second(large.size()), third(small.size());
            const auto half = mail.post_recv(0, {1, first.size()}, first.data());
            while (first == Bytes(first.size())) look();  // between hosts it may be on its way
            mail.forget(half);
            step.arrive_and_wait();
            step.arrive_and_wait();
            const auto again = mail.post_recv(0, {1, second.size()}, second.data());
            const auto other = mail.post_recv(0, {2, third.size()}, third.data());
            look();
            CHECK(second == Bytes(second.size()));
            step.arrive_and_wait();
            step.arrive_and_wait();
            look();
            CHECK(!again->done() && !other->done() && third == Bytes(third.size()));
        });
    }
}
