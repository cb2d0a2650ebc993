#include "members.h"

#include <poll.h>

#include <cstring>
#include <stdexcept>

#include "errors.h"

namespace nbdist {

Members::Members(const Endpoint& own, const std::vector<Address>& addresses, int rank,
                 const std::vector<Digest>& digests)
    : rank_(rank), layout_(static_cast<int>(addresses.size())), addresses_(addresses), digests_(digests) {
    const int size = static_cast<int>(addresses.size());
    if (rank < 0 || rank >= size || digests.size() != addresses.size())
        throw std::invalid_argument("rank " + std::to_string(rank) + " is not in a world of " +
                                    std::to_string(size));
    if (addresses[rank].nonce != own.address().nonce)
        throw std::invalid_argument("endpoint " + std::to_string(rank) +
                                    " of the list is not the one this rank opened last");
    for (int peer = 0; peer < size; ++peer) {
        if (peer == rank) {
            segments_.push_back(own.map(size));
            watched_.emplace_back();
            continue;
        }
        const Address& address = addresses[peer];
        watched_.push_back(watch(address.pid, address.started));
        if (!watched_.back())
            throw Aborted("rank " + std::to_string(peer) + " died before the group was formed (process " +
                              std::to_string(address.pid) + "); form the group anew without it",
                          peer, "init_process_group");
        try {
            segments_.push_back(map_peer(address, size));
        } catch (const std::runtime_error& error) {
            throw Aborted("rank " + std::to_string(peer) + " has given its endpoint up (" + error.what() +
                              "); open new ones and form the group anew",
                          peer, "init_process_group");
        }
    }
    Control& control = this->own();
    std::memcpy(control.digest, digests[rank].data(), digest_bytes);
    control.presence.ready.store(1, std::memory_order_release);
    control.progress_bell.ring();
}

bool Members::recognises(int peer) const {
    return std::memcmp(control(peer).digest, digests_[peer].data(), digest_bytes) == 0;
}

std::vector<int> Members::find_dead() const {
    std::vector<pollfd> polled;
    polled.reserve(watched_.size());
    for (const Fd& fd : watched_) polled.push_back({fd.get(), POLLIN, 0});  // poll skips our own, a -1
    std::vector<int> dead;
    if (poll(polled.data(), polled.size(), 0) <= 0) return dead;
    for (int peer = 0; peer < size(); ++peer)
        if (polled[peer].revents != 0) dead.push_back(peer);
    return dead;
}

void Members::ring_all() const {
    for (int peer = 0; peer < size(); ++peer) {
        control(peer).progress_bell.ring();
        control(peer).mail_bell.ring();
    }
}

}  // namespace nbdist
