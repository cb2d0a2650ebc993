#include <thread>
#include <vector>

#include "bell.h"
#include "check.h"

using namespace nbdist;
using namespace std::chrono_literals;

TEST(a_ring_wakes_whoever_sleeps) {
    Bell bell{};
    std::atomic<bool> come{false};
    std::thread sleeper([&] {
        while (!come.load()) bell.sleep(60'000ms, [&] { return come.load(); });
    });
    come.store(true);
    bell.ring();
    sleeper.join();  // or the test's time is up
    CHECK_EQUAL(bell.sleepers.load(), 0u);
}

TEST(no_ring_is_lost_between_looking_and_sleeping) {
    Bell there{}, back{};
    std::atomic<int> ping{0}, pong{0};
    constexpr int rounds = 20'000;
    std::thread other([&] {
        for (int i = 1; i <= rounds; ++i) {
            while (ping.load() < i) there.sleep(60'000ms, [&] { return ping.load() >= i; });
            pong.store(i);
            back.ring();
        }
    });
    for (int i = 1; i <= rounds; ++i) {
        ping.store(i);
        there.ring();
        while (pong.load() < i) back.sleep(60'000ms, [&] { return pong.load() >= i; });
    }
    other.join();
}

TEST(all_sleepers_wake) {
    Bell bell{};
    std::atomic<bool> come{false};
    std::vector<std::thread> sleepers;
    for (int i = 0; i < 8; ++i)
        sleepers.emplace_back([&] {
            while (!come.load()) bell.sleep(60'000ms, [&] { return come.load(); });
        });
    come.store(true);
    bell.ring();
    for (std::thread& sleeper : sleepers) sleeper.join();
}

TEST(sleep_ends_with_its_slice) {
    Bell bell{};
    bell.sleep(1ms, [] { return false; });
    bell.sleep(1000ms, [] { return true; });
    CHECK_EQUAL(bell.sleepers.load(), 0u);
}
