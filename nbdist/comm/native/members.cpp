#include "members.h"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "errors.h"

namespace nbdist {

Members::Members(const Endpoint& own, const std::vector<Address>& addresses, int rank,
                 const std::vector<Digest>& digests, const std::vector<int>& hosts)
    : rank_(rank),
      layout_(static_cast<int>(addresses.size())),
      addresses_(addresses),
      digests_(digests),
      host_of_(hosts) {
    const int size = static_cast<int>(addresses.size());
    if (rank < 0 || rank >= size || digests.size() != addresses.size())
        throw std::invalid_argument("rank " + std::to_string(rank) + " is not in a world of " +
                                    std::to_string(size));
    if (addresses[rank].nonce != own.address().nonce)
        throw std::invalid_argument("endpoint " + std::to_string(rank) +
                                    " of the list is not the one this rank opened last");
    if (hosts.empty()) host_of_.assign(size, 0);
    for (int peer = 0; peer < static_cast<int>(host_of_.size()); ++peer) {
        const int host = host_of_[peer];
        if (host < 0 || host > static_cast<int>(hosts_.size())) break;
        if (host == static_cast<int>(hosts_.size())) hosts_.emplace_back();
        hosts_[host].push_back(peer);
    }
    std::size_t placed = 0;
    for (const auto& ranks : hosts_) placed += ranks.size();
    if (placed != addresses.size() || host_of_.size() != addresses.size())
        throw std::invalid_argument(
            "give the host of every rank, numbered in the order of their first ranks");
    for (int peer = 0; peer < size; ++peer) map(own, peer);
    Control& control = this->own();
    std::memcpy(control.digest, digests[rank].data(), digest_bytes);
    control.presence.ready.store(1, std::memory_order_release);
    control.progress_bell.ring();
}

void Members::map(const Endpoint& own, int peer) {
    if (peer == rank_) {
        segments_.push_back(own.map(static_cast<int>(addresses_.size())));
        watched_.emplace_back();
        return;
    }
    if (is_remote(peer)) {
        segments_.push_back(Segment::mirror(layout_.slots));
        watched_.emplace_back();
        return;
    }
    const Address& address = addresses_[peer];
    watched_.push_back(watch(address.pid, address.started));
    if (!watched_.back())
        throw Aborted("rank " + std::to_string(peer) + " died before the group was formed (process " +
                          std::to_string(address.pid) + "); form the group anew without it",
                      peer, "init_process_group");
    try {
        segments_.push_back(map_peer(address, static_cast<int>(addresses_.size())));
    } catch (const std::runtime_error& error) {
        throw Aborted("rank " + std::to_string(peer) + " has given its endpoint up (" + error.what() +
                          "); open new ones and form the group anew",
                      peer, "init_process_group");
    }
}

bool Members::recognises(int peer) const {
    return std::memcmp(control(peer).digest, digests_[peer].data(), digest_bytes) == 0;
}

std::vector<int> Members::find_dead() const {
    std::vector<pollfd> polled;
    polled.reserve(watched_.size());
    for (const Fd& fd : watched_) polled.push_back({fd.get(), POLLIN, 0});  // poll skips an empty one, a -1
    poll(polled.data(), polled.size(), 0);
    std::vector<int> dead;
    for (int peer = 0; peer < size(); ++peer) {
        const bool lost = control(peer).presence.lost.load(std::memory_order_acquire) != 0;
        if (lost || polled[peer].revents != 0) dead.push_back(peer);
    }
    return dead;
}

bool Members::bury(int rank, const std::string& reason, bool mismatch) const {
    Obituary& obituary = this->obituary();
    std::uint32_t alive = Obituary::alive;
    const bool first = obituary.state.compare_exchange_strong(alive, Obituary::claimed);
    if (first) {
        obituary.rank = rank;
        obituary.mismatch = mismatch;
        const std::size_t length = std::min(reason.size(), reason_bytes - 1);
        std::memcpy(obituary.reason, reason.data(), length);
        obituary.reason[length] = '\0';
        obituary.state.store(Obituary::written, std::memory_order_release);
    }
    ring_all();
    return first;
}

void Members::ring_all() const {
    for (int peer : neighbours()) {
        control(peer).progress_bell.ring();
        control(peer).mail_bell.ring();
    }
}

}  // namespace nbdist
