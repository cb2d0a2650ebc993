#include <barrier>
#include <thread>

#include "queue.h"
#include "ranks.h"
#include "samples.h"

using namespace nbdist;
using namespace nbdist::test;
using namespace std::chrono_literals;

namespace {

Signature sum_of(std::size_t count) {
    return {.kind = Kind::all_reduce, .op = Op::sum, .type = DType::i32, .count = count};
}

// Queue a sum; `log` tells which came to run when.
std::shared_ptr<Ticket> submit_sum(Group& group, Bytes& data, int number, std::vector<int>& log) {
    const std::size_t count = data.size() / 4;
    return submit(group, sum_of(count), [&data, &log, number, count](World& world) {
        log.push_back(number);
        all_reduce(world, data.data(), count, DType::i32, Op::sum);
    });
}

void check_order(const Hosts& hosts, Limits limits) {
    spawn(
        hosts,
        [](Group& group) {
            constexpr int number = 60;
            std::vector<Bytes> data;
            std::vector<int> log;
            for (int i = 0; i < number; ++i)
                data.push_back(sample(DType::i32, i % 5 == 0 ? 50'000 : 10, group.rank() + i));
            std::vector<std::shared_ptr<Ticket>> tickets;
            for (int i = 0; i < number; ++i) {
                if (i % 7 != 6) {
                    tickets.push_back(submit_sum(group, data[i], i, log));
                    continue;
                }
                // Called synchronously, it overtakes nothing.
                run(group, Kind::all_reduce, [&](World& world) {
                    log.push_back(i);
                    all_reduce(world, data[i].data(), data[i].size() / 4, DType::i32, Op::sum);
                });
            }
            for (const auto& ticket : tickets) ticket->wait(group.vigil());
            for (int i = 0; i < number; ++i) {
                CHECK_EQUAL(log[i], i);
                std::vector<Bytes> inputs;
                for (int rank = 0; rank < 3; ++rank)
                    inputs.push_back(sample(DType::i32, data[i].size() / 4, rank + i));
                CHECK(data[i] == expected(DType::i32, Op::sum, inputs));
            }
        },
        limits);
}

}  // namespace

TEST(what_is_queued_runs_in_order_on_the_progress_thread) {
    for (const Hosts& hosts : {one_host(3), Hosts{0, 1, 2}, Hosts{0, 0, 1}}) check_order(hosts, {});
}

TEST(what_is_queued_runs_in_order_where_it_may_run_inline) {
    check_order(one_host(3), {.patience = 1ms});
}

TEST(whoever_asked_is_told_once) {
    for (std::chrono::milliseconds patience : {0ms, 5ms})
        spawn(2,
              [](Group& group) {
                  std::atomic<int> told{0};
                  int inline_ = 0;
                  for (int i = 0; i < 50; ++i) {
                      auto ticket = std::make_shared<Ticket>(Kind::barrier);
                      inline_ += group.submit({.kind = Kind::barrier}, [](World& world) { barrier(world); },
                                              {ticket, [&told] { ++told; }});
                  }
                  run(group, Kind::barrier, [](World& world) { barrier(world); });
                  group.close();
                  CHECK_EQUAL(told.load() + inline_, 50);
              },
              {.patience = patience});
}

TEST(an_error_goes_to_the_ticket) {
    for (const Hosts& hosts : {one_host(2), Hosts{0, 1}}) {
        std::barrier all_formed(2);
        spawn(hosts, [&](Group& group) {
            std::vector<int> log;
            Bytes data(40);
            all_formed.arrive_and_wait();
            if (group.rank() == 1) group.abort("on purpose");
            const auto ticket = submit_sum(group, data, 0, log);
            CHECK_THROWS(Aborted, ticket->wait(group.vigil()), "on purpose");
            CHECK_THROWS(Aborted, ticket->rethrow(), "all_reduce was released: rank 1 ended the group");
        });
    }
}

TEST(a_late_rank_is_left_to_the_progress_thread) {
    // Its caller may be what the late rank waits for: here rank 1 waits for a message of rank 0's.
    spawn(2,
          [](Group& group) {
              char byte = 'a';
              auto meet = [](World& world) { barrier(world); };
              if (group.rank() == 1)
                  group.mail().wait(group.mail().post_recv(0, {1, 1}, &byte), {Kind::recv, 0});
              const auto ticket = submit(group, {.kind = Kind::barrier}, meet);
              if (group.rank() == 0)
                  group.mail().wait(group.mail().post_send(1, {1, 1}, &byte), {Kind::send, 1});
              ticket->wait(group.vigil());
          },
          {.patience = 2ms});
}

TEST(threads_of_one_rank_take_turns) {
    // Two threads call; which one is first is nobody's promise, but all ranks issue the same.
    for (const Hosts& hosts : {one_host(2), Hosts{0, 1}})
        spawn(hosts, [](Group& group) {
            auto some = [&] {
                for (int i = 0; i < 200; ++i) run(group, Kind::barrier, [](World& world) { barrier(world); });
            };
            std::thread other(some);
            some();
            other.join();
        });
}

TEST(closing_with_work_on_its_way_ends_it) {
    for (const Hosts& hosts : {one_host(2), Hosts{0, 1}})
        spawn(hosts, [](Group& group) {
            if (group.rank() == 1) return;
            Bytes data(400'000);
            std::vector<int> log;
            std::vector<std::shared_ptr<Ticket>> tickets;
            for (int i = 0; i < 5; ++i) tickets.push_back(submit_sum(group, data, i, log));
            group.close();
            for (const auto& ticket : tickets) {
                CHECK(ticket->done());
                CHECK_THROWS(Aborted, ticket->rethrow(), "all_reduce was released");
            }
        });
}

TEST(what_fails_on_one_rank_ends_the_group_on_all) {
    struct Odd {};
    const std::vector<std::pair<std::function<void()>, std::string>> failures = {
        {[] { throw std::bad_alloc(); }, "rank 1 failed in all_reduce: std::bad_alloc"},
        {[] { throw Odd(); }, "rank 1 failed in all_reduce: an unknown error"},
    };
    for (const Hosts& hosts : {one_host(2), Hosts{0, 1}})
        for (const auto& [fail, reason] : failures)
            for (bool queued : {false, true})
                spawn(hosts, [&](Group& group) {
                    const Signature signature = sum_of(50'000);
                    auto work = [&](World& world) {
                        Bytes data(200'000);
                        agree(world, signature);
                        if (group.rank() == 1) fail();
                        all_reduce(world, data.data(), 50'000, DType::i32, Op::sum);
                    };
                    auto call = [&] {
                        if (queued)
                            submit(group, signature, work)->wait(group.vigil());
                        else
                            group.run(signature, work);
                    };
                    if (group.rank() == 0)
                        CHECK_THROWS(Aborted, call(), reason);
                    else
                        try {
                            call();
                            CHECK(false);
                        } catch (const std::bad_alloc&) {
                        } catch (const Odd&) {
                        }
                    CHECK(group.vigil().aborted());
                });
}
