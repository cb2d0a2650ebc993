// A word in shared memory to sleep on: cheap to ring while nobody sleeps.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace nbdist {

struct alignas(64) Bell {
    std::atomic<std::uint32_t> pulse;
    std::atomic<std::uint32_t> sleepers;

    // Wake whoever sleeps here. The caller has stored what they wait for.
    void ring() {
        // The increment is a full barrier: either the sleeper sees our store or we see the sleeper.
        pulse.fetch_add(1, std::memory_order_seq_cst);
        if (sleepers.load(std::memory_order_seq_cst) != 0) wake();
    }

    // Sleep until the bell rings, a signal arrives, or `slice` is over, unless `ready()` holds already.
    template <class Ready>
    void sleep(std::chrono::milliseconds slice, Ready&& ready) {
        sleepers.fetch_add(1, std::memory_order_seq_cst);
        const std::uint32_t seen = pulse.load(std::memory_order_seq_cst);
        if (!ready()) block(seen, slice);
        sleepers.fetch_sub(1, std::memory_order_seq_cst);
    }

  private:
    void wake();
    void block(std::uint32_t seen, std::chrono::milliseconds slice);
};

}  // namespace nbdist
