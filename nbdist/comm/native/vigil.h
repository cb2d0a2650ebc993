// Waiting for other ranks, without ever waiting in vain.
//
// A wait spins briefly, yields, then sleeps in slices of 20 ms. Between slices it looks at everything
// that could mean its peer will never come: the group has been aborted, a process has died, the peer has
// left the group or the cell, a signal has arrived, the (optional) time limit is over.
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string>

#include "errors.h"
#include "lookout.h"

namespace nbdist {

// What a thread waits for: said in the error when it is released.
struct Waiting {
    Kind kind;
    int peer;  // any_source: whoever is first
    // Whether a peer that issues nothing more in this cell has this on its way all the same. Without it:
    // until it has left the cell.
    std::function<bool(int peer)> owes = nullptr;
    // Whether it is a message of that peer's: then all that the peer has sent is taken in meanwhile, and the
    // news that it has left may be here before it.
    bool comes = false;
};

constexpr int any_source = -1;

class Vigil {
  public:
    static constexpr std::chrono::milliseconds slice{20};

    // Throws when Python wants the main thread to raise (a signal handler did). Called without the GIL.
    using Signals = void (*)();

    // `parent` is the group this one was split from: its end is ours too. No limit when `limit` is 0.
    Vigil(const Members& members, Lookout& lookout, const Vigil* parent, std::chrono::milliseconds limit,
          Signals signals);

    using Check = std::function<bool()>;
    using Nap = std::function<void(const Check& ready)>;

    // Return when `ready()` holds; throw when one of what is waited for will never come.
    template <class Ready>
    void wait(Bell& bell, std::span<const Waiting> waiting, Ready&& ready) {
        for (int i = 0; i < spins_; ++i) {
            if (ready()) return;
            pause();
        }
        for (int i = 0; i < yields_; ++i) {
            if (ready()) return;
            yield();
        }
        watch_over([&bell](const Check& there) { bell.sleep(slice, there); }, waiting, std::ref(ready));
    }
    template <class Ready>
    void wait(Bell& bell, const Waiting& waiting, Ready&& ready) {
        wait(bell, std::span(&waiting, 1), ready);
    }

    // The same without spinning, asleep in another way: `nap(ready)` returns after a slice at the latest.
    void watch_over(const Nap& nap, std::span<const Waiting> waiting, const Check& ready);

    // Throw if the group is over.
    void check(Kind kind) const {
        if (over()) raise(kind);
    }
    // End the group on every rank. `reason` is a clause that names the rank; the first one stays.
    void abort(int rank, const std::string& reason, bool mismatch = false);
    // In a handler: end the group, unless it is over, for the others would wait for what failed here.
    void abort_for_failure(Kind kind);
    bool aborted() const;
    // Whether nothing may be waited for any more: aborted, or left by this process.
    bool over() const;

    // Release this process's own threads, and tell peers that we take no more part.
    void leave();

    // Run pending signal handlers; an exception of theirs ends the group. Main thread only, else nothing.
    void run_signals(Kind kind);

    // The rank's way through a cell, told to its peers. Group.h says how it goes.
    void enter_cell(std::int64_t number);
    void stop_issuing(std::int64_t number);
    void leave_cell(std::int64_t number);
    void skip_cell(std::int64_t number);
    // Whether a peer has left the cell this rank is in.
    bool has_left(int peer) const;

  private:
    [[noreturn]] void raise(Kind kind) const;
    std::string released(Kind kind, const std::string& reason) const;
    void look(std::span<const Waiting> waiting, const Check& ready);
    void look_for_dead(const Waiting& waiting, const Check& ready);
    void look_for_gone(const Waiting& waiting, const Check& ready);
    bool is_gone(const Waiting& waiting, int peer) const;
    bool is_arriving(int peer) const;
    bool is_written() const;
    void tell_presence();
    std::string here(const Waiting& waiting) const;
    bool has_come_to(int peer, std::atomic<std::int64_t> Presence::* point) const;
    static void pause();
    static void yield();

    const Members& members_;
    Lookout& lookout_;
    const Vigil* parent_;
    std::chrono::milliseconds limit_;
    Signals signals_;
    int spins_;
    int yields_;
    std::atomic<bool> left_{false};
    Obituary& obituary_;
};

}  // namespace nbdist
