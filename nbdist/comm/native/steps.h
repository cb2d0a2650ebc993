// What a rank waits for in a group, for its other threads to read at any time.
#pragma once

#include <atomic>
#include <optional>

#include "control.h"

namespace nbdist {

struct Step {
    Kind kind;
    std::uint64_t number;  // of the collective in this cell, from 1; 0 for a message
    std::uint64_t
        bytes;  // of what every rank gives; 0 where there is nothing, or each has a share of its own
};

class Steps {
  public:
    // A collective, from where its turn has come to its end, on whichever thread.
    class Turn {
      public:
        Turn(Steps& steps, const Signature& signature) : steps_(steps) { steps_.begin(signature); }
        ~Turn() { steps_.turn_.store(0, std::memory_order_release); }
        Turn(const Turn&) = delete;

      private:
        Steps& steps_;
    };

    // A caller of ours, for as long as it is held up by something of this kind.
    class Caller {
      public:
        Caller(Steps& steps, Kind kind) : steps_(steps) { steps_.caller_.store(word_of(kind)); }
        ~Caller() { steps_.caller_.store(0); }
        Caller(const Caller&) = delete;

      private:
        Steps& steps_;
    };

    void restart() { count_.store(0, std::memory_order_relaxed); }
    // What holds the caller up: the collective whose turn it is, be it one queued before its own.
    std::optional<Step> current() const;

  private:
    static constexpr std::uint64_t word_of(Kind kind, std::uint64_t number = 0) {
        return number << 8 | (static_cast<std::uint64_t>(kind) + 1);
    }
    static constexpr Kind kind_of(std::uint64_t word) { return static_cast<Kind>((word & 0xff) - 1); }
    void begin(const Signature& signature);

    // Kind and number in one word, so that a reader never sees halves of two.
    std::atomic<std::uint64_t> turn_{0};
    std::atomic<std::uint64_t> bytes_{0};
    std::atomic<std::uint64_t> caller_{0};
    std::atomic<std::uint64_t> count_{0};
};

}  // namespace nbdist
