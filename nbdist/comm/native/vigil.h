// Waiting for other ranks, without ever waiting in vain.
//
// A wait spins briefly, yields, then sleeps in slices of 20 ms. Between slices it looks at everything
// that could mean its peer will never come: the group has been aborted, a process has died, the peer has
// left the group or the cell, a signal has arrived, the (optional) time limit is over.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "errors.h"
#include "members.h"

namespace nbdist {

// What a thread waits for: said in the error when it is released.
struct Waiting {
    Kind kind;
    int peer;  // -1: nobody in particular
};

class Vigil {
  public:
    static constexpr std::chrono::milliseconds slice{20};

    // Throws when Python wants the main thread to raise (a signal handler did). Called without the GIL.
    using Signals = void (*)();

    // `parent` is the group this one was split from: its end is ours too. No limit when `limit` is 0.
    Vigil(const Members& members, const Vigil* parent, std::chrono::milliseconds limit, Signals signals);

    // Return when `ready()` holds; throw when it never will.
    template <class Ready>
    void wait(Bell& bell, Waiting waiting, Ready&& ready) {
        for (int i = 0; i < spins_; ++i) {
            if (ready()) return;
            pause();
        }
        for (int i = 0; i < yields_; ++i) {
            if (ready()) return;
            yield();
        }
        watch_over(bell, waiting, std::ref(ready));
    }

    // Throw if the group is over.
    void check(Kind kind) const {
        if (over()) raise(kind);
    }
    // End the group on every rank. `reason` is a clause that names the rank; the first one stays.
    void abort(int rank, const std::string& reason, bool mismatch = false);
    bool aborted() const;
    // Whether nothing may be waited for any more: aborted, or left by this process.
    bool over() const;

    // Release this process's own threads, and tell peers that we take no more part.
    void leave();

    // Run pending signal handlers; an exception of theirs ends the group. Main thread only, else nothing.
    void run_signals(Kind kind);

    void enter_cell(std::int64_t number);
    void leave_cell(std::int64_t number);

  private:
    [[noreturn]] void raise(Kind kind) const;
    void watch_over(Bell& bell, Waiting waiting, const std::function<bool()>& ready);
    void look(Waiting waiting, const std::function<bool()>& ready);
    static void pause();
    static void yield();

    const Members& members_;
    const Vigil* parent_;
    std::chrono::milliseconds limit_;
    Signals signals_;
    int spins_;
    int yields_;
    std::atomic<bool> left_{false};
    Obituary& obituary_;
};

}  // namespace nbdist
