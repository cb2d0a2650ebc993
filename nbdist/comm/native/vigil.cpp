#include "vigil.h"

#include <sched.h>

#include <cstring>

namespace nbdist {

namespace {

std::string rank_name(int rank) {
    return "rank " + std::to_string(rank);
}

std::string what_next(const std::string& operation, const std::string& reason) {
    return operation + " was released: " + reason +
           "; this group is over, so run the next cell or form a new group";
}

}  // namespace

Vigil::Vigil(const Members& members, const Vigil* parent, std::chrono::milliseconds limit, Signals signals)
    : members_(members),
      parent_(parent),
      limit_(limit),
      signals_(signals),
      obituary_(members.control(0).obituary) {
    // With a core for every rank the peer is running and answers soon. Without, it may be waiting for
    // this very core.
    const bool room = members.size() <= usable_cores();
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

void Vigil::watch_over(Bell& bell, Waiting waiting, const std::function<bool()>& ready) {
    const auto began = std::chrono::steady_clock::now();
    while (true) {
        bell.sleep(slice, [&] { return ready() || over(); });
        if (ready()) return;
        look(waiting, ready);
        if (limit_.count() > 0 && std::chrono::steady_clock::now() - began > limit_) {
            const std::string whom = waiting.peer < 0 ? "its peers" : rank_name(waiting.peer);
            abort(members_.rank(), rank_name(members_.rank()) + " gave up waiting for " + whom + " in " +
                                       name_of(waiting.kind) + " after " +
                                       std::to_string(limit_.count() / 1000.0) + " s");
        }
    }
}

// Each cause is looked at before `ready` once more: what a peer did before it died or left still counts.
void Vigil::look(Waiting waiting, const std::function<bool()>& ready) {
    const std::string here = rank_name(members_.rank()) + " waits in " + name_of(waiting.kind);
    if (over()) {
        if (ready()) return;
        raise(waiting.kind);
    }
    for (int peer : members_.find_dead()) {
        // A rank that closed its group and then ended is missed only by those who wait for it.
        const bool closed = members_.control(peer).presence.closed.load(std::memory_order_acquire) != 0;
        if ((closed && peer != waiting.peer) || ready()) continue;
        abort(peer, rank_name(peer) + (closed ? " ended" : " died") + " (process " +
                        std::to_string(members_.address(peer).pid) + ") while " + here);
        raise(waiting.kind);
    }
    if (waiting.peer >= 0) {
        const Presence& presence = members_.control(waiting.peer).presence;
        const std::int64_t cell = members_.own().presence.entered.load(std::memory_order_relaxed);
        const bool closed = presence.closed.load(std::memory_order_acquire) != 0;
        const bool gone = cell > 0 && presence.left.load(std::memory_order_acquire) >= cell;
        if ((closed || gone) && !ready()) {
            abort(waiting.peer, rank_name(waiting.peer) + (closed ? " left the group" : " left the cell") +
                                    " while " + here);
            raise(waiting.kind);
        }
    }
    run_signals(waiting.kind);
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
    std::uint32_t alive = Obituary::alive;
    if (obituary_.state.compare_exchange_strong(alive, Obituary::claimed)) {
        obituary_.rank = rank;
        obituary_.mismatch = mismatch;
        const std::size_t length = std::min(reason.size(), reason_bytes - 1);
        std::memcpy(obituary_.reason, reason.data(), length);
        obituary_.reason[length] = '\0';
        obituary_.state.store(Obituary::written, std::memory_order_release);
    }
    members_.ring_all();
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
        throw Aborted(what_next(name_of(kind), "this rank left the group"), members_.rank(), name_of(kind));
    }
    // Whoever claimed the obituary is writing it; should it have died over that, go without.
    for (int i = 0; i < 1000 && obituary_.state.load(std::memory_order_acquire) != Obituary::written; ++i)
        sched_yield();
    if (obituary_.state.load(std::memory_order_acquire) != Obituary::written)
        throw Aborted(what_next(name_of(kind), "the group was aborted"), -1, name_of(kind));
    const std::string reason = obituary_.reason;
    if (obituary_.mismatch != 0) throw Mismatch(reason);
    throw Aborted(what_next(name_of(kind), reason), obituary_.rank, name_of(kind));
}

void Vigil::leave() {
    left_.store(true, std::memory_order_release);
    members_.own().presence.closed.store(1, std::memory_order_release);
    members_.ring_all();
}

void Vigil::enter_cell(std::int64_t number) {
    members_.own().presence.entered.store(number, std::memory_order_release);
}

void Vigil::leave_cell(std::int64_t number) {
    members_.own().presence.left.store(number, std::memory_order_release);
    members_.ring_all();
}

}  // namespace nbdist
