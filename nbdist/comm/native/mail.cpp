#include "mail.h"

#include <algorithm>
#include <cstring>

#include "copy.h"
#include "world.h"

namespace nbdist {

Mail::Mail(const Members& members, Vigil& vigil, Announcer& announcer)
    : members_(members),
      vigil_(vigil),
      announcer_(announcer),
      outgoing_(members.size()),
      arrivals_(members.size()),
      arrived_(members.size()) {}

std::shared_ptr<Ticket> Mail::post_send(int to, std::int64_t tag, const void* data, std::size_t bytes) {
    vigil_.check(Kind::send);
    auto ticket = std::make_shared<Ticket>(Kind::send);
    std::lock_guard lock(mutex_);
    members_.cursor(members_.rank(), to).posted.fetch_add(1, std::memory_order_release);
    outgoing_[to].push_back({ticket, tag, static_cast<const std::byte*>(data), bytes, 0});
    push(to);
    return ticket;
}

std::shared_ptr<Ticket> Mail::post_recv(int from, std::int64_t tag, void* data, std::size_t bytes) {
    vigil_.check(Kind::recv);
    auto ticket = std::make_shared<Ticket>(Kind::recv);
    auto incoming =
        std::make_shared<Incoming>(Incoming{ticket, from, tag, static_cast<std::byte*>(data), bytes});
    std::lock_guard lock(mutex_);
    // What came before anybody asked is older than anything still in a channel.
    for (int peer = 0; peer < members_.size(); ++peer) {
        if (from != any_source && from != peer) continue;
        for (auto it = arrivals_[peer].begin(); it != arrivals_[peer].end(); ++it) {
            if (it->receiver != nullptr || it->tag != tag) continue;
            if (!fits(peer, *incoming, it->total)) return ticket;
            it->receiver = incoming;
            if (it->done == it->total) {
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
    if (vigil_.over()) return;
    for (int peer = 0; peer < members_.size(); ++peer) {
        push(peer);
        pull(peer);
    }
}

void Mail::push(int to) {
    MailCursor& cursor = members_.cursor(members_.rank(), to);
    while (!outgoing_[to].empty()) {
        Outgoing& message = outgoing_[to].front();
        const std::uint64_t sent = cursor.sent.load(std::memory_order_relaxed);
        if (sent - cursor.taken.load(std::memory_order_acquire) == mail_count) break;
        const std::size_t length = std::min(mail_payload, message.total - message.done);
        std::byte* piece = members_.mail(members_.rank(), to, sent);
        *reinterpret_cast<MailHeader*>(piece) = {message.tag, message.total, length};
        copy_to_slot(piece + sizeof(MailHeader), message.data + message.done, length, true);
        cursor.sent.store(sent + 1, std::memory_order_release);
        members_.control(to).mail_bell.ring();
        message.done += length;
        if (to != members_.rank()) count_moved(length);
        if (message.done < message.total) continue;
        message.ticket->finish(nullptr);
        outgoing_[to].pop_front();
    }
}

void Mail::pull(int from) {
    // Nobody asks for anything: leave it in the channel, where it holds the sender back.
    auto wanted = [&] {
        if (!arrivals_[from].empty() && arrivals_[from].back().receiver != nullptr) return true;
        return std::any_of(posted_.begin(), posted_.end(), [&](const auto& incoming) {
            return incoming->from == from || incoming->from == any_source;
        });
    };
    MailCursor& cursor = members_.cursor(from, members_.rank());
    while (true) {
        const std::uint64_t taken = cursor.taken.load(std::memory_order_relaxed);
        if (cursor.sent.load(std::memory_order_acquire) == taken || !wanted()) return;
        const std::byte* piece = members_.mail(from, members_.rank(), taken);
        const MailHeader header = *reinterpret_cast<const MailHeader*>(piece);
        auto& arrivals = arrivals_[from];
        if (arrivals.empty() || arrivals.back().done == arrivals.back().total) {
            Arrival arrival{header.tag, header.total, 0, match(from, header.tag, header.total), {}};
            if (arrival.receiver == nullptr) arrival.aside.resize(header.total);
            arrivals.push_back(std::move(arrival));
        }
        Arrival& arrival = arrivals.back();
        std::byte* to = arrival.aside.empty() && arrival.receiver != nullptr ? arrival.receiver->data
                                                                             : arrival.aside.data();
        if (header.bytes > 0) std::memcpy(to + arrival.done, piece + sizeof(MailHeader), header.bytes);
        arrival.done += header.bytes;
        cursor.taken.store(taken + 1, std::memory_order_release);
        members_.control(from).mail_bell.ring();
        if (arrival.done == arrival.total) ++arrived_[from];
        if (arrival.done == arrival.total && arrival.receiver != nullptr) {
            hand_over(from, arrival);
            arrivals.pop_back();
        }
    }
}

// The first receive posted for this sender and tag.
std::shared_ptr<Mail::Incoming> Mail::match(int from, std::int64_t tag, std::size_t total) {
    for (auto it = posted_.begin(); it != posted_.end(); ++it) {
        auto incoming = *it;
        if ((incoming->from != from && incoming->from != any_source) || incoming->tag != tag) continue;
        if (!fits(from, *incoming, total)) return nullptr;
        posted_.erase(it);
        return incoming;
    }
    return nullptr;
}

bool Mail::fits(int from, const Incoming& incoming, std::size_t total) {
    if (incoming.total == total) return true;
    const std::string sender = "rank " + std::to_string(from),
                      receiver = "rank " + std::to_string(members_.rank());
    vigil_.abort(from,
                 sender + " sent " + std::to_string(total) + " bytes to " + receiver + ", which receives " +
                     std::to_string(incoming.total) + " bytes; use tensors of one size and dtype on both",
                 true);
    return false;
}

void Mail::hand_over(int from, Arrival& arrival) {
    Incoming& receiver = *arrival.receiver;
    if (!arrival.aside.empty()) std::memcpy(receiver.data, arrival.aside.data(), arrival.total);
    receiver.ticket->source = from;
    receiver.ticket->finish(nullptr);
}

// Whether a peer has posted a message to us that has not arrived.
bool Mail::is_owed_by(int peer) {
    std::lock_guard lock(mutex_);
    return members_.cursor(peer, members_.rank()).posted.load(std::memory_order_acquire) > arrived_[peer];
}

// A message comes from whoever has posted one, be it about to leave the cell; only to be received needs a
// peer that is still there.
Waiting Mail::complete(Waiting waiting) {
    if (waiting.kind == Kind::recv) waiting.owes = [this](int peer) { return is_owed_by(peer); };
    return waiting;
}

void Mail::wait(const std::shared_ptr<Ticket>& ticket, const Waiting& waiting) {
    try {
        vigil_.wait(members_.own().mail_bell, complete(waiting), [&] {
            if (ticket->done()) return true;
            std::lock_guard lock(mutex_);
            progress();
            return ticket->done();
        });
    } catch (...) {
        // The group is over, and our caller's memory is about to be somebody else's.
        forget(ticket);
        throw;
    }
}

void Mail::forget(const std::shared_ptr<Ticket>& ticket) {
    std::lock_guard lock(mutex_);
    for (auto& messages : outgoing_)
        messages.remove_if([&](const Outgoing& message) { return message.ticket == ticket; });
    posted_.remove_if([&](const auto& incoming) { return incoming->ticket == ticket; });
    for (auto& messages : arrivals_)
        messages.remove_if([&](const Arrival& message) {
            return message.receiver != nullptr && message.receiver->ticket == ticket;
        });
}

void Mail::entrust(Promise promise, const Waiting& waiting) {
    std::lock_guard lock(mutex_);
    if (closing_) vigil_.check(waiting.kind);
    entrusted_.push_back({std::move(promise), complete(waiting)});
    ++entrustments_;
    if (!courier_.joinable()) courier_ = std::thread(&Mail::run, this);
    work_.notify_all();
    members_.own().mail_bell.ring();
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
            vigil_.wait(members_.own().mail_bell, waiting, [this, seen] {
                std::lock_guard guard(mutex_);
                progress();
                if (entrustments_ != seen) return true;
                return std::any_of(entrusted_.begin(), entrusted_.end(),
                                   [](const Entrusted& it) { return it.promise.ticket->done(); });
            });
        } catch (...) {
            error = std::current_exception();
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
        closing_ = true;
        work_.notify_all();
        courier = std::move(courier_);
    }
    if (courier.joinable()) courier.join();
}

}  // namespace nbdist
