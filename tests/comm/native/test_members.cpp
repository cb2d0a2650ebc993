// Forming a group: who is let in.
#include "members.h"
#include "ranks.h"

using namespace nbdist;
using namespace nbdist::test;

TEST(a_stranger_is_no_member) {
    Plan plan(one_host(2));
    on_threads(2, [&](int rank) {
        std::vector<Digest> digests = plan.digests();
        if (rank == 1) {
            digests[1][0] ^= 1;  // as it comes out with another secret
            try {
                plan.form_with(digests, 1);
            } catch (const Aborted&) {
                // Rank 0's digest is right, so this one may form, or hear first that rank 0 will not.
            }
        } else {
            CHECK_THROWS(Aborted, plan.form_with(digests, 0), "rank 1 belongs to another group");
        }
    });
}

TEST(an_endpoint_that_was_given_up_is_named) {
    Plan plan(one_host(2));
    plan.forget(1);
    CHECK_THROWS(Aborted, plan.form(0), "rank 1 has given its endpoint up");
}

TEST(a_rank_that_gives_up_while_others_form_releases_them) {
    Plan plan(one_host(2));
    on_threads(2, [&](int rank) {
        if (rank == 1)
            plan.forget(1);
        else
            CHECK_THROWS(Aborted, plan.form(0), "rank 1 ");
    });
}

TEST(a_list_without_this_rank_is_refused) {
    const Plan plan(one_host(2));
    const auto endpoint = std::make_shared<Endpoint>();
    CHECK_THROWS(std::invalid_argument, Members(*endpoint, plan.addresses(), 0, plan.digests(), {}),
                 "endpoint 0 of the list is not the one this rank opened last");
    CHECK_THROWS(std::invalid_argument, Members(*endpoint, plan.addresses(), 2, plan.digests(), {}),
                 "rank 2 is not in a world of 2");
    CHECK_THROWS(std::invalid_argument, Members(*endpoint, plan.addresses(), -1, plan.digests(), {}),
                 "rank -1");
}

TEST(a_dead_process_is_not_joined) {
    const Endpoint endpoint;
    Address dead = endpoint.address();
    dead.started += 1;  // that process id has been used anew since
    dead.nonce[0] ^= 1;
    CHECK_THROWS(Aborted, Members(endpoint, {endpoint.address(), dead}, 0, {Digest{}, Digest{}}, {}),
                 "rank 1 died before the group was formed");
}

TEST(groups_leave_nothing_behind) {
    // What a process holds is counted from Python (tests/comm/test_leaks.py); AddressSanitizer counts memory.
    for (int round = 0; round < 50; ++round)
        spawn(3, [](Group& group) { run(group, Kind::barrier, [](World& world) { barrier(world); }); });
}
