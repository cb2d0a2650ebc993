#include <atomic>
#include <future>
#include <memory>
#include <vector>

#include "announcer.h"
#include "check.h"

using namespace nbdist;

TEST(news_are_told_in_order_by_a_thread_of_their_own) {
    std::vector<int> told;
    std::thread::id teller;
    {
        Announcer announcer;
        for (int i = 0; i < 1000; ++i)
            announcer.post([&, i] {
                told.push_back(i);
                teller = std::this_thread::get_id();
            });
    }
    CHECK_EQUAL(told.size(), 1000u);
    for (int i = 0; i < 1000; ++i) CHECK_EQUAL(told[i], i);
    CHECK(teller != std::this_thread::get_id());
}

TEST(what_comes_after_the_end_is_told_once_all_the_same) {
    std::atomic<int> told{0};
    Announcer announcer;
    announcer.close();
    announcer.post([&] { ++told; });
    announcer.close();
    announcer.close();
    CHECK_EQUAL(told.load(), 1);
}

TEST(what_is_told_may_end_its_own_announcer_and_another) {
    std::atomic<int> told{0};
    std::promise<void> begin, ended;
    auto own = std::make_unique<Announcer>(), other = std::make_unique<Announcer>();
    own->post([&] {
        begin.get_future().wait();
        own.reset();
        other.reset();
        ended.set_value();
    });
    own->post([&] { ++told; });
    other->post([&] { ++told; });
    begin.set_value();
    ended.get_future().wait();
    Announcer::finish();
    CHECK_EQUAL(told.load(), 2);
}
