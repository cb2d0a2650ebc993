#include <sys/socket.h>

#include <cstring>
#include <thread>

#include "check.h"
#include "samples.h"
#include "wire.h"

using namespace nbdist;
using namespace nbdist::test;

namespace {

struct Pair {
    Pair() {
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
            throw std::runtime_error("socketpair");
        here = std::make_unique<Wire>(Socket(ends[0]));
        there = std::make_unique<Wire>(Socket(ends[1]));
    }
    std::unique_ptr<Wire> here, there;
};

Envelope envelope(std::int64_t tag, std::uint64_t total) {
    Envelope made{};
    made.tag = tag;
    made.total = total;
    return made;
}

}  // namespace

TEST(messages_of_every_length_pass_in_order) {
    Pair pair;
    const std::vector<std::size_t> lengths = {0, 1, 4095, 4096, 4097, 16'384, 100'000, 0, 3'000'001, 5};
    std::thread sender([&] {
        for (std::size_t i = 0; i < lengths.size(); ++i) {
            const Bytes data = sample(DType::u8, lengths[i], static_cast<int>(i));
            std::uint64_t done = 0;
            while (!pair.here->send(envelope(i, lengths[i]), data.data(), done, false))
                std::this_thread::yield();
        }
    });
    for (std::size_t i = 0; i < lengths.size(); ++i) {
        const Envelope* head;
        while ((head = pair.there->head()) == nullptr) std::this_thread::yield();
        CHECK_EQUAL(head->tag, static_cast<std::int64_t>(i));
        CHECK_EQUAL(head->total, lengths[i]);
        Bytes data(lengths[i]);
        std::uint64_t done = 0;
        while (!pair.there->receive(data.data(), data.size(), done)) std::this_thread::yield();
        CHECK(data == sample(DType::u8, lengths[i], static_cast<int>(i)));
    }
    sender.join();
}

TEST(what_is_held_goes_with_the_next) {
    Pair pair;
    std::uint64_t done = 0;
    const Bytes data(10, std::byte{7});
    CHECK(pair.here->send(envelope(1, 10), data.data(), done, true));
    CHECK(pair.there->head() == nullptr);
    done = 0;
    CHECK(pair.here->send(envelope(2, 10), data.data(), done, false));
    for (int tag : {1, 2}) {
        const Envelope* head = pair.there->head();
        CHECK(head != nullptr && head->tag == tag);
        Bytes in(10);
        done = 0;
        CHECK(pair.there->receive(in.data(), in.size(), done));
        CHECK(in == data);
    }
}

TEST(an_end_is_seen_after_what_came_before_it) {
    Pair pair;
    std::uint64_t done = 0;
    const Bytes data(10, std::byte{7});
    CHECK(pair.here->send(envelope(1, 10), data.data(), done, false));
    pair.here.reset();
    CHECK(pair.there->head() != nullptr);
    Bytes in(10);
    done = 0;
    CHECK(pair.there->receive(in.data(), in.size(), done));
    CHECK(pair.there->head() == nullptr);
    CHECK(pair.there->ended());
    done = 0;
    CHECK(!pair.there->send(envelope(1, 10), data.data(), done, false));
    CHECK(pair.there->failed());
}
