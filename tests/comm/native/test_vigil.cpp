// What releases a rank that waits: all the causes there are within one host, but a death (tests/comm has
// that). Between hosts the news of an end may overtake an operation's last data and release it, so all have
// done what they shall do before one of them ends the group: a std::barrier sees to that.
#include <barrier>
#include <thread>

#include "ranks.h"
#include "vigil.h"

using namespace nbdist;
using namespace nbdist::test;
using namespace std::chrono_literals;

namespace {

const std::vector<Hosts> pairs = {{0, 0}, {0, 1}};
const std::vector<Hosts> triples = {{0, 0, 0}, {0, 1, 2}, {0, 0, 1}, {0, 1, 1}};
const std::vector<Hosts> fours = {{0, 0, 0, 0}, {0, 0, 1, 1}, {0, 1, 2, 3}, {0, 1, 0, 1}};

std::vector<Hosts> pairs_and_fours() {
    std::vector<Hosts> all = pairs;
    all.insert(all.end(), fours.begin(), fours.end());
    return all;
}

void meet(Group& group) {
    run(group, Kind::barrier, [](World& world) { barrier(world); });
}

void add(Group& group, std::vector<float>& data, Op op = Op::sum, DType type = DType::f32) {
    run(group, Kind::all_reduce,
        [&](World& world) { all_reduce(world, data.data(), data.size() * 4 / size_of(type), type, op); });
}

}  // namespace

TEST(an_abort_releases_all_and_the_first_reason_stays) {
    for (const Hosts& hosts : pairs_and_fours()) {
        std::barrier all_met(hosts.size());
        spawn(hosts, [&](Group& group) {
            meet(group);
            all_met.arrive_and_wait();
            if (group.rank() == group.size() - 1) {
                std::thread([&] { group.abort("ValueError: bad shard"); }).join();
                group.abort("something later");
            }
            const std::string reason = "barrier was released: rank " + std::to_string(group.size() - 1) +
                                       " ended the group: ValueError: bad shard; this group is over";
            CHECK_THROWS(Aborted, meet(group), reason);
            CHECK_THROWS(Aborted, meet(group), reason);
            CHECK(group.vigil().aborted());
        });
    }
}

TEST(a_reason_of_any_length_is_cut_not_lost) {
    for (const Hosts& hosts : pairs) {
        std::barrier all_formed(2);
        spawn(hosts, [&](Group& group) {
            all_formed.arrive_and_wait();
            if (group.rank() == 0) group.abort(std::string(5000, 'x'));
            CHECK_THROWS(Aborted, meet(group), std::string(400, 'x'));
        });
    }
}

TEST(ranks_that_abort_at_once_agree_on_one_reason) {
    for (int round = 0; round < 30; ++round) {
        std::vector<std::string> said(4);
        spawn(4, [&](Group& group) {
            meet(group);
            group.abort("on purpose");
            try {
                meet(group);
            } catch (const Aborted& error) {
                said[group.rank()] = error.what();
            }
        });
        for (const std::string& what : said) CHECK(!what.empty() && what == said[0]);
    }
}

TEST(different_calls_are_told_alike_and_nothing_is_written) {
    const std::string start = "ranks issued different collectives: rank ";
    for (const Hosts& hosts : pairs_and_fours())
        for (int what = 0; what < 5; ++what) {
            std::vector<std::string> said(hosts.size());
            spawn(hosts, [&](Group& group) {
                const bool odd = group.rank() == group.size() - 1;
                std::vector<float> data(odd && what == 0 ? 7 : 6, 1.0f);
                try {
                    if (what == 4)
                        odd ? meet(group) : add(group, data);
                    else if (what == 3)
                        run(group, Kind::broadcast,
                            [&](World& world) { broadcast(world, data.data(), 6, DType::f32, odd ? 0 : 1); });
                    else
                        add(group, data, odd && what == 1 ? Op::max : Op::sum,
                            odd && what == 2 ? DType::i32 : DType::f32);
                } catch (const Mismatch& error) {
                    said[group.rank()] = error.what();
                }
                for (float value : data) CHECK(value == 1.0f);
            });
            for (const std::string& text : said) {
                CHECK(text == said[0]);
                CHECK(text.starts_with(start));
                CHECK(text.ends_with("; call the same ones in the same order on every rank"));
            }
        }
}

TEST(a_rank_that_left_the_cell_is_not_waited_for) {
    for (const Hosts& hosts : triples)
        spawn(hosts, [](Group& group) {
            group.vigil().enter_cell(3);
            meet(group);
            if (group.rank() == 2) {
                // Nobody of the others gets so far, so this ends when they are released.
                group.vigil().leave_cell(3);
                while (!group.vigil().aborted()) std::this_thread::yield();
                return;
            }
            CHECK_THROWS(Aborted, meet(group), "rank 2 left the cell while rank");
        });
}

TEST(what_a_leaving_rank_has_queued_is_still_done) {
    for (const Hosts& hosts : triples)
        for (int round = 0; round < 10; ++round)
            spawn(hosts, [](Group& group) {
                const std::shared_ptr<Group> alias(&group, [](Group*) {});
                group.vigil().enter_cell(1);
                std::vector<std::vector<float>> data(4, std::vector<float>(100'000, 1.0f));
                std::vector<std::shared_ptr<Ticket>> tickets;
                for (auto& tensor : data)
                    tickets.push_back(submit(
                        group,
                        {.kind = Kind::all_reduce, .op = Op::sum, .type = DType::f32, .count = tensor.size()},
                        [&tensor](World& world) {
                            all_reduce(world, tensor.data(), tensor.size(), DType::f32, Op::sum);
                        }));
                leave_cell({alias}, 1);
                for (const auto& ticket : tickets) {
                    CHECK(ticket->done());
                    ticket->rethrow();
                }
                for (const auto& tensor : data)
                    for (float value : tensor) CHECK(value == 3.0f);
            });
}

TEST(a_rank_that_skips_the_cell_is_named) {
    for (const Hosts& hosts : pairs)
        spawn(hosts, [](Group& group) {
            if (group.rank() == 1) {
                std::thread([&] { group.vigil().skip_cell(1); }).join();
                while (!group.vigil().aborted()) std::this_thread::yield();
                return;
            }
            group.vigil().enter_cell(1);
            CHECK_THROWS(Aborted, meet(group), "rank 1 does not run this cell; leave --ranks out");
        });
}

TEST(the_cell_after_a_skipped_one_runs) {
    for (const Hosts& hosts : pairs)
        spawn(hosts, [](Group& group) {
            const std::shared_ptr<Group> alias(&group, [](Group*) {});
            if (group.rank() == 1)
                group.vigil().skip_cell(1);
            else
                group.vigil().enter_cell(1);
            if (group.rank() == 0) leave_cell({alias}, 1);
            group.vigil().enter_cell(2);
            meet(group);
            leave_cell({alias}, 2);
        });
}

TEST(a_limit_ends_a_wait) {
    for (const Hosts& hosts : pairs)
        spawn(hosts,
              [](Group& group) {
                  if (group.rank() == 1) {
                      while (!group.vigil().aborted()) std::this_thread::yield();
                      return;
                  }
                  CHECK_THROWS(Aborted, meet(group), "rank 0 gave up waiting for rank 1 in barrier after");
              },
              {.limit = 100ms});
}

TEST(the_end_of_the_parent_is_the_end_of_its_children) {
    for (const Hosts& hosts : {Hosts{0, 0}, Hosts{0, 1}, Hosts{0, 0, 1}})
        for (int round = 0; round < 40; ++round) {
            Plan above(hosts), below(hosts);
            std::barrier all_met(hosts.size());
            on_threads(above.size(), [&](int rank) {
                const auto parent = above.form(rank);
                const auto child = below.form(rank, parent);
                meet(*child);
                meet(*parent);
                all_met.arrive_and_wait();
                // That it leaves the child next is not why the others are released.
                if (rank == 0)
                    parent->abort("on purpose");
                else
                    CHECK_THROWS(Aborted, meet(*child), "rank 0 ended the group: on purpose");
            });
        }
}

TEST(the_end_of_a_child_is_not_that_of_its_parent) {
    for (const Hosts& hosts : pairs) {
        Plan above(hosts), below(hosts);
        std::barrier all_formed(2);
        on_threads(2, [&](int rank) {
            const auto parent = above.form(rank);
            const auto child = below.form(rank, parent);
            all_formed.arrive_and_wait();
            if (rank == 0) child->abort("on purpose");
            CHECK_THROWS(Aborted, meet(*child), "on purpose");
            meet(*parent);
            CHECK(!parent->vigil().aborted());
        });
    }
}

TEST(the_next_generation_works) {
    for (const Hosts& hosts : triples)
        for (int generation = 0; generation < 10; ++generation) {
            std::barrier all_done(3);
            spawn(hosts, [&](Group& group) {
                std::vector<float> data(5000, 1.0f);
                add(group, data);
                for (float value : data) CHECK(value == 3.0f);
                all_done.arrive_and_wait();
                if (group.rank() == generation % 3) group.abort("on purpose");
                CHECK_THROWS(Aborted, add(group, data), "on purpose");
            });
        }
}
