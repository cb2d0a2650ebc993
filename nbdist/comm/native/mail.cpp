#include "mail.h"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <cstring>

#include "world.h"

namespace nbdist {

namespace {

constexpr int looks = 50;

std::string describe(const Envelope& envelope) {
    const std::string count = std::to_string(envelope.total / size_of(envelope.type));
    return count + (envelope.type == DType::bytes ? " bytes" : std::string(" x ") + name_of(envelope.type));
}

}  // namespace

Mail::Mail(const Members& members, Vigil& vigil, Announcer& announcer, Lookout& lookout,
           std::vector<Link>& links)
    : members_(members),
      vigil_(vigil),
      announcer_(announcer),
      lookout_(lookout),
      channels_(members.size()),
      wires_(members.size()),
      severed_(members.size()),
      spans_hosts_(!links.empty()),
      outgoing_(members.size()),
      arrivals_(members.size()),
      arrived_(members.size()) {
    for (Link& link : links) {
        auto wire = std::make_unique<Wire>(std::move(link.data));
        lookout.add(wire->fd());
        wires_[link.peer] = wire.get();
        channels_[link.peer] = std::move(wire);
    }
    for (int peer : members.neighbours()) channels_[peer] = std::make_unique<Pieces>(members, peer);
}

std::shared_ptr<Ticket> Mail::post_send(int to, const Envelope& envelope, const void* data, bool held) {
    auto ticket = std::make_shared<Ticket>(Kind::send);
    std::lock_guard lock(mutex_);
    members_.cursor(members_.rank(), to).posted.fetch_add(1, std::memory_order_release);
    outgoing_[to].push_back({ticket, envelope, static_cast<const std::byte*>(data), held});
    push(to);
    tell_finished();
    return ticket;
}

std::shared_ptr<Ticket> Mail::post_recv(int from, const Envelope& envelope, void* data) {
    auto ticket = std::make_shared<Ticket>(Kind::recv);
    auto incoming =
        std::make_shared<Incoming>(Incoming{ticket, from, envelope, static_cast<std::byte*>(data)});
    std::lock_guard lock(mutex_);
    // What came before anybody asked is older than anything still in a channel.
    for (int peer = 0; peer < members_.size(); ++peer) {
        if (from != any_source && from != peer) continue;
        for (auto it = arrivals_[peer].begin(); it != arrivals_[peer].end(); ++it) {
            if (it->receiver != nullptr || it->envelope.tag != envelope.tag) continue;
            if (!fits(peer, *incoming, it->envelope)) return ticket;
            it->receiver = incoming;
            if (it->done == it->envelope.total) {
                hand_over(peer, *it);
                arrivals_[peer].erase(it);
            }
            return ticket;
        }
    }
    posted_.push_back(incoming);
    return ticket;
}

// Move what can move. The caller holds the lock.
void Mail::progress() {
    for (int peer = 0; peer < members_.size(); ++peer) {
        push(peer);
        pull(peer);
    }
    find_broken();
    tell_finished();
}

void Mail::push(int to) {
    while (!outgoing_[to].empty() && !severed_[to]) {
        Outgoing& message = outgoing_[to].front();
        message.begun = true;
        const std::uint64_t before = message.done;
        const bool whole = channels_[to]->send(message.envelope, message.data, message.done, message.held);
        if (to != members_.rank() && message.envelope.tag != accord_tag) count_moved(message.done - before);
        if (!whole) break;
        message.ticket->finish(nullptr);
        finished_ = true;
        outgoing_[to].pop_front();
    }
}

// Whether anybody asks for what comes from a peer. If not it is left in the channel, where it holds the
// sender back.
bool Mail::wanted(int from) const {
    if (severed_[from]) return false;
    if (!arrivals_[from].empty() && arrivals_[from].back().receiver != nullptr) return true;
    return std::any_of(posted_.begin(), posted_.end(), [&](const auto& incoming) {
        return incoming->from == from || incoming->from == any_source;
    });
}

void Mail::pull(int from) {
    Channel& channel = *channels_[from];
    auto& arrivals = arrivals_[from];
    while (wanted(from)) {
        if (arrivals.empty() || arrivals.back().done == arrivals.back().envelope.total) {
            const Envelope* head = channel.head();
            if (head == nullptr) break;
            Arrival arrival{*head, match(from, *head), {}};
            if (arrival.receiver == nullptr) arrival.aside.resize(head->total);
            arrivals.push_back(std::move(arrival));
        }
        Arrival& arrival = arrivals.back();
        std::byte* place = arrival.aside.empty() && arrival.receiver != nullptr ? arrival.receiver->data
                                                                                : arrival.aside.data();
        if (!channel.receive(place, arrival.envelope.total, arrival.done)) break;
        ++arrived_[from];
        if (arrival.receiver != nullptr) {
            hand_over(from, arrival);
            arrivals.pop_back();
        }
    }
    if (wires_[from] == nullptr) return;
    // For the vigil: a peer that has left is gone when what it sent before has come.
    const std::uint64_t all = std::numeric_limits<std::uint64_t>::max();
    members_.cursor(from, members_.rank())
        .taken.store(wires_[from]->ended() || severed_[from] ? all : arrived_[from],
                     std::memory_order_release);
}

// A connection that fails by itself; where the peer's process or host is gone, the lookout will know.
void Mail::find_broken() {
    for (int peer = 0; spans_hosts_ && peer < members_.size(); ++peer) {
        if (wires_[peer] == nullptr || !wires_[peer]->failed()) continue;
        Presence& mirror = members_.control(peer).presence;
        // A peer that leaves closes this too; its farewell may take a while to be heard on a busy host.
        const auto since = std::chrono::steady_clock::now() - wires_[peer]->failed_at();
        if (since < 50 * Vigil::slice || mirror.closed.load(std::memory_order_acquire) != 0) continue;
        std::uint32_t none = 0;
        mirror.lost.compare_exchange_strong(none, static_cast<std::uint32_t>(Loss::broken));
    }
}

// Wake whoever else of this process waits for what this thread has brought to its end.
void Mail::tell_finished() {
    if (!finished_ || !spans_hosts_) return;
    finished_ = false;
    members_.own().mail_bell.ring();
    if (polling_) lookout_.nudge();
}

// The first receive posted for this sender and tag.
std::shared_ptr<Mail::Incoming> Mail::match(int from, const Envelope& envelope) {
    for (auto it = posted_.begin(); it != posted_.end(); ++it) {
        auto incoming = *it;
        if (incoming->from != from && incoming->from != any_source) continue;
        if (incoming->envelope.tag != envelope.tag) continue;
        if (!fits(from, *incoming, envelope)) return nullptr;
        posted_.erase(it);
        return incoming;
    }
    return nullptr;
}

bool Mail::fits(int from, const Incoming& incoming, const Envelope& envelope) {
    const Envelope& asked = incoming.envelope;
    if (asked.total == envelope.total && asked.type == envelope.type) return true;
    vigil_.abort(from,
                 "rank " + std::to_string(from) + " sent " + describe(envelope) + " to rank " +
                     std::to_string(members_.rank()) + ", which receives " + describe(asked) +
                     "; use tensors of one size and dtype on both",
                 true);
    severed_[from] = true;  // else what follows would be taken in for as long as it comes
    return false;
}

void Mail::hand_over(int from, Arrival& arrival) {
    Incoming& receiver = *arrival.receiver;
    if (!arrival.aside.empty()) std::memcpy(receiver.data, arrival.aside.data(), arrival.envelope.total);
    receiver.ticket->source = from;
    receiver.ticket->finish(nullptr);
    finished_ = true;
}

// Whether a peer has posted a message to us that has not arrived.
bool Mail::is_owed_by(int peer) {
    std::lock_guard lock(mutex_);
    return members_.cursor(peer, members_.rank()).posted.load(std::memory_order_acquire) > arrived_[peer];
}

// A message comes from whoever has posted one, be it about to leave the cell; only to be received needs a
// peer that is still there.
Waiting Mail::complete(Waiting waiting) {
    if (waiting.kind != Kind::recv) return waiting;
    waiting.owes = [this](int peer) { return is_owed_by(peer); };
    waiting.comes = true;
    return waiting;
}

// Wait, driving messages. Between hosts every look is a system call, so there is little spinning.
void Mail::watch_over(std::span<const Waiting> waiting, const Vigil::Check& ready) {
    if (!spans_hosts_) return vigil_.wait(members_.own().mail_bell, waiting, ready);
    for (int i = 0; i < looks; ++i) {
        if (ready()) return;
        sched_yield();
    }
    vigil_.watch_over([this](const Vigil::Check& there) { nap(there); }, waiting, ready);
}

// Sleep on the wires themselves, which wakes at once; but one thread only, and not while something may come
// from a rank of this host. Else sleep on the bell, and have the lookout ring it.
void Mail::nap(const Vigil::Check& ready) {
    std::vector<pollfd> polled{{lookout_.nudged(), POLLIN, 0}};
    bool needs_bell = false;
    std::unique_lock lock(mutex_);
    for (int peer = 0; peer < members_.size(); ++peer) {
        const Wire* wire = wires_[peer];
        const bool in = wanted(peer) && (wire == nullptr || !wire->ended());
        const bool out = !outgoing_[peer].empty() && !severed_[peer] && (wire == nullptr || !wire->failed());
        if (wire == nullptr)
            needs_bell |= in || out;
        else if (in || out)
            polled.push_back({wire->fd(), static_cast<short>((in ? POLLIN : 0) | (out ? POLLOUT : 0)), 0});
    }
    if (needs_bell || polling_) {
        lock.unlock();
        for (std::size_t i = 1; i < polled.size(); ++i)
            lookout_.ring_when_ready(polled[i].fd, static_cast<std::uint32_t>(polled[i].events));
        members_.own().mail_bell.sleep(Vigil::slice, ready);
        return;
    }
    polling_ = true;
    lock.unlock();
    if (!ready()) poll(polled.data(), polled.size(), static_cast<int>(Vigil::slice.count()));
    lookout_.calm();
    lock.lock();
    polling_ = false;
}

void Mail::wait(const std::shared_ptr<Ticket>& ticket, const Waiting& waiting) {
    const Waiting completed = complete(waiting);
    try {
        watch_over(std::span(&completed, 1), [&] {
            if (ticket->done()) return true;
            std::lock_guard lock(mutex_);
            progress();
            return ticket->done();
        });
    } catch (...) {
        give_up(ticket, waiting.kind);
        throw;
    }
}

// In a handler. The group is over, and our caller's memory is about to be somebody else's.
void Mail::give_up(const std::shared_ptr<Ticket>& ticket, Kind kind) {
    vigil_.abort_for_failure(kind);
    forget(ticket);
}

void Mail::forget(const std::shared_ptr<Ticket>& ticket) {
    std::lock_guard lock(mutex_);
    posted_.remove_if([&](const auto& incoming) { return incoming->ticket == ticket; });
    for (int peer = 0; peer < members_.size(); ++peer) {
        bool halved = false;
        outgoing_[peer].remove_if([&](const Outgoing& message) {
            if (message.ticket != ticket) return false;
            halved |= message.begun;
            return true;
        });
        arrivals_[peer].remove_if([&](const Arrival& message) {
            if (message.receiver == nullptr || message.receiver->ticket != ticket) return false;
            halved = true;
            return true;
        });
        if (halved) sever(peer);
    }
}

// What follows half a message would be taken for its rest. The caller holds the lock.
void Mail::sever(int peer) {
    severed_[peer] = true;
    channels_[peer]->end();
}

void Mail::entrust(Promise promise, const Waiting& waiting) {
    const auto ticket = promise.ticket;
    try {
        std::lock_guard lock(mutex_);
        if (closing_) vigil_.check(waiting.kind);
        if (!courier_.joinable()) courier_ = std::thread(&Mail::run, this);
        entrusted_.push_back({std::move(promise), complete(waiting)});
        ++entrustments_;
        work_.notify_all();
        members_.own().mail_bell.ring();
        if (polling_) lookout_.nudge();
    } catch (...) {
        give_up(ticket, waiting.kind);
        throw;
    }
}

void Mail::drain(Kind kind) {
    std::unique_lock lock(mutex_);
    auto pending = [&] {
        return std::any_of(entrusted_.begin(), entrusted_.end(),
                           [&](const Entrusted& it) { return it.waiting.kind == kind; });
    };
    while (pending()) {
        work_.wait_for(lock, Vigil::slice);
        lock.unlock();
        vigil_.run_signals(kind);
        lock.lock();
    }
}

void Mail::run() {
    std::unique_lock lock(mutex_);
    while (true) {
        work_.wait(lock, [this] { return closing_ || !entrusted_.empty(); });
        if (entrusted_.empty()) return;
        // Watch over all of them: the first one's peer may be late while the last one's has left.
        std::vector<Waiting> waiting;
        for (const Entrusted& it : entrusted_) waiting.push_back(it.waiting);
        const std::uint64_t seen = entrustments_;
        lock.unlock();
        std::exception_ptr error;
        try {
            watch_over(waiting, [this, seen] {
                std::lock_guard guard(mutex_);
                progress();
                if (entrustments_ != seen) return true;
                return std::any_of(entrusted_.begin(), entrusted_.end(),
                                   [](const Entrusted& it) { return it.promise.ticket->done(); });
            });
        } catch (...) {
            error = std::current_exception();
            vigil_.abort_for_failure(waiting.front().kind);
        }
        lock.lock();
        for (auto it = entrusted_.begin(); it != entrusted_.end();) {
            const auto ticket = it->promise.ticket;
            if (!ticket->done() && error != nullptr) {
                lock.unlock();
                forget(ticket);
                lock.lock();
                ticket->finish(error);
            }
            if (ticket->done()) announcer_.post(std::move(it->promise.then));
            it = ticket->done() ? entrusted_.erase(it) : std::next(it);
        }
        work_.notify_all();
    }
}

void Mail::close() {
    std::thread courier;
    {
        std::lock_guard lock(mutex_);
        if (closing_) return;
        closing_ = true;
        work_.notify_all();
        courier = std::move(courier_);
    }
    if (courier.joinable()) courier.join();
    if (spans_hosts_ && !vigil_.aborted()) linger();
    // Whoever still waits for one of our messages shall not wait until this group is destroyed.
    std::lock_guard lock(mutex_);
    for (int peer = 0; peer < members_.size(); ++peer)
        if (wires_[peer] != nullptr) sever(peer);
}

// Until the other hosts have what was sent: a connection that is closed with something unread in it takes
// along what has not been delivered.
void Mail::linger() {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    for (const Wire* wire : wires_) {
        if (wire == nullptr) continue;
        pollfd failure{wire->fd(), 0, 0};
        auto acknowledged = [&] {
            std::lock_guard lock(mutex_);
            return wire->acknowledged();
        };
        while (!acknowledged() && std::chrono::steady_clock::now() < until)
            if (poll(&failure, 1, 1) != 0) break;
    }
}

}  // namespace nbdist
