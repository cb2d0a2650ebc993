#include "vigil.h"

#include <sched.h>

#include <cstring>

namespace nbdist {

namespace {

std::string rank_name(int rank) {
    return "rank " + std::to_string(rank);
}

// The control thread and the main thread may both be at it.
void raise_to(std::atomic<std::int64_t>& point, std::int64_t number) {
    std::int64_t old = point.load(std::memory_order_relaxed);
    while (old < number && !point.compare_exchange_weak(old, number, std::memory_order_release)) {
    }
}

// What happened to a rank that is no more, or is not to be reached.
std::string how_it_ended(const Members& members, int peer) {
    const Presence& presence = members.control(peer).presence;
    switch (static_cast<Loss>(presence.lost.load(std::memory_order_acquire))) {
        case Loss::died:
            return rank_name(peer) + " died";
        case Loss::silent:
            return "the host of " + rank_name(peer) + " does not answer";
        case Loss::broken:
            return "the connection to " + rank_name(peer) + " broke";
        case Loss::none:
            break;
    }
    const bool closed = presence.closed.load(std::memory_order_acquire) != 0;
    return rank_name(peer) + (closed ? " ended" : " died") + " (process " +
           std::to_string(members.address(peer).pid) + ")";
}

}  // namespace

Vigil::Vigil(const Members& members, Lookout& lookout, const Vigil* parent, std::chrono::milliseconds limit,
             Signals signals)
    : members_(members),
      lookout_(lookout),
      parent_(parent),
      limit_(limit),
      signals_(signals),
      obituary_(members.obituary()) {
    // With a core for every rank the peer is running and answers soon. Without, it may be waiting for
    // this very core.
    const bool room = static_cast<int>(members.neighbours().size()) <= usable_cores();
    spins_ = room ? 2000 : 20;
    yields_ = room ? 0 : 4;
}

void Vigil::pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield" ::: "memory");
#endif
}

void Vigil::yield() {
    sched_yield();
}

void Vigil::watch_over(const Nap& nap, std::span<const Waiting> waiting, const Check& ready) {
    const auto began = std::chrono::steady_clock::now();
    while (true) {
        nap([&] { return ready() || over(); });
        if (ready()) return;
        look(waiting, ready);
        if (limit_.count() > 0 && std::chrono::steady_clock::now() - began > limit_) {
            const int peer = waiting.front().peer;
            const std::string whom = peer == any_source ? "its peers" : rank_name(peer);
            abort(members_.rank(), rank_name(members_.rank()) + " gave up waiting for " + whom + " in " +
                                       name_of(waiting.front().kind) + " after a timeout of " +
                                       std::to_string(limit_.count() / 1000.0) + " s");
        }
    }
}

// Each cause is looked at before `ready` once more: what a peer did before it died or left still counts.
void Vigil::look(std::span<const Waiting> waiting, const Check& ready) {
    if (over()) {
        if (ready()) return;
        raise(waiting.front().kind);
    }
    for (const Waiting& each : waiting) {
        look_for_dead(each, ready);
        look_for_gone(each, ready);
    }
    run_signals(waiting.front().kind);
}

void Vigil::look_for_dead(const Waiting& waiting, const Check& ready) {
    for (int peer : members_.find_dead()) {
        // A rank that closed its group and then ended is missed only by those who wait for it.
        const bool closed = members_.control(peer).presence.closed.load(std::memory_order_acquire) != 0;
        if ((closed && peer != waiting.peer) || ready()) continue;
        abort(peer, how_it_ended(members_, peer) + " while " + here(waiting));
        raise(waiting.kind);
    }
}

void Vigil::look_for_gone(const Waiting& waiting, const Check& ready) {
    if (waiting.peer == any_source) {
        for (int peer = 0; peer < members_.size(); ++peer)
            if (peer != members_.rank() && !is_gone(waiting, peer)) return;
        if (ready()) return;
        abort(-1, "nobody is left to send while " + here(waiting));
    } else {
        if (!is_gone(waiting, waiting.peer) || ready()) return;
        const std::string who = rank_name(waiting.peer);
        const Presence& presence = members_.control(waiting.peer).presence;
        const std::int64_t cell = members_.own().presence.entered.load(std::memory_order_relaxed);
        const bool for_ever = presence.leaving.load(std::memory_order_relaxed) == for_good;
        if (for_ever || presence.closed.load(std::memory_order_acquire) != 0)
            abort(waiting.peer, who + " left the group while " + here(waiting));
        else if (presence.skipped.load(std::memory_order_relaxed) == cell)
            abort(waiting.peer, who +
                                    " does not run this cell; leave --ranks out, or use "
                                    "torch.distributed.new_group");
        else
            abort(waiting.peer, who + " left the cell while " + here(waiting));
    }
    raise(waiting.kind);
}

// Whether nothing of what is waited for will come from this peer any more.
bool Vigil::is_gone(const Waiting& waiting, int peer) const {
    if (waiting.comes && is_arriving(peer)) return false;
    if (members_.control(peer).presence.closed.load(std::memory_order_acquire) != 0) return true;
    if (!waiting.owes) return has_left(peer);
    return has_come_to(peer, &Presence::leaving) && !waiting.owes(peer);
}

// Whether something that a rank of another host has sent is still on its way: that it has left the cell or
// the group comes over another connection, and may be here first.
bool Vigil::is_arriving(int peer) const {
    if (!members_.is_remote(peer)) return false;
    const MailCursor& cursor = members_.cursor(peer, members_.rank());
    return cursor.posted.load(std::memory_order_acquire) > cursor.taken.load(std::memory_order_acquire);
}

std::string Vigil::here(const Waiting& waiting) const {
    return rank_name(members_.rank()) + " waits in " + name_of(waiting.kind);
}

bool Vigil::has_come_to(int peer, std::atomic<std::int64_t> Presence::* point) const {
    const std::int64_t cell = members_.own().presence.entered.load(std::memory_order_relaxed);
    const std::int64_t come = (members_.control(peer).presence.*point).load(std::memory_order_acquire);
    return come == for_good || (cell > 0 && come >= cell);
}

bool Vigil::has_left(int peer) const {
    return has_come_to(peer, &Presence::left);
}

void Vigil::run_signals(Kind kind) {
    if (signals_ == nullptr || !on_main_thread()) return;
    try {
        signals_();
    } catch (...) {
        abort(members_.rank(), rank_name(members_.rank()) + " was interrupted in " + name_of(kind));
        throw;
    }
}

void Vigil::abort(int rank, const std::string& reason, bool mismatch) {
    // What is seen once the parent has ended follows from that, and is no reason of its own.
    if (parent_ != nullptr && parent_->aborted()) return;
    // Each rank tells the other hosts what it wrote itself; what it heard from one, all have heard.
    if (members_.bury(rank, reason, mismatch)) lookout_.tell_obituary();
}

void Vigil::abort_for_failure(Kind kind) {
    if (over()) return;
    std::string what = "an unknown error";
    try {
        throw;
    } catch (const std::exception& error) {
        what = error.what();
    } catch (...) {
    }
    abort(members_.rank(), rank_name(members_.rank()) + " failed in " + name_of(kind) + ": " + what);
}

bool Vigil::aborted() const {
    return obituary_.state.load(std::memory_order_acquire) != Obituary::alive ||
           (parent_ != nullptr && parent_->aborted());
}

bool Vigil::over() const {
    return left_.load(std::memory_order_acquire) || aborted();
}

void Vigil::raise(Kind kind) const {
    if (obituary_.state.load(std::memory_order_acquire) == Obituary::alive) {
        if (parent_ != nullptr && parent_->aborted()) parent_->raise(kind);
        throw Aborted(released(kind, "this rank left the group"), members_.rank(), name_of(kind));
    }
    if (!is_written()) throw Aborted(released(kind, "the group was aborted"), -1, name_of(kind));
    const std::string reason = obituary_.reason;
    if (obituary_.mismatch != 0) throw Mismatch(reason);
    throw Aborted(released(kind, reason), obituary_.rank, name_of(kind));
}

std::string Vigil::released(Kind kind, const std::string& reason) const {
    const bool in_cells = members_.own().presence.entered.load(std::memory_order_relaxed) > 0;
    return std::string(name_of(kind)) + " was released: " + reason + "; this group is over, so " +
           (in_cells ? "run the next cell or form a new group" : "form a new one");
}

// Whether the obituary can be read. Whoever claimed it is writing it; should it have died over that, go
// without.
bool Vigil::is_written() const {
    for (int i = 0; i < 1000 && obituary_.state.load(std::memory_order_acquire) == Obituary::claimed; ++i)
        sched_yield();
    return obituary_.state.load(std::memory_order_acquire) == Obituary::written;
}

void Vigil::tell_presence() {
    members_.ring_all();
    // Our word may be quicker than that of whoever ended the group, or the one above it, and nobody shall
    // take us for the cause.
    const Vigil* ended = this;
    while (ended != nullptr && !ended->is_written()) ended = ended->parent_;
    if (ended != nullptr && ended != this) {
        const Obituary& obituary = ended->obituary_;
        members_.bury(obituary.rank, obituary.reason, obituary.mismatch != 0);
    }
    if (ended != nullptr && is_written()) lookout_.tell_obituary();
    lookout_.tell_presence();
}

void Vigil::leave() {
    left_.store(true, std::memory_order_release);
    members_.own().presence.closed.store(1, std::memory_order_release);
    tell_presence();
}

void Vigil::enter_cell(std::int64_t number) {
    members_.own().presence.entered.store(number, std::memory_order_release);
}

void Vigil::stop_issuing(std::int64_t number) {
    raise_to(members_.own().presence.leaving, number);
    tell_presence();
}

void Vigil::leave_cell(std::int64_t number) {
    raise_to(members_.own().presence.left, number);
    stop_issuing(number);
}

void Vigil::skip_cell(std::int64_t number) {
    raise_to(members_.own().presence.skipped, number);
    leave_cell(number);
}

}  // namespace nbdist
