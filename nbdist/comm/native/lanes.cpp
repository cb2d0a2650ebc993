#include "lanes.h"

#include <algorithm>

namespace nbdist {

int Lanes::host_of(int rank) const {
    int host = 0;
    while (std::find(ranks_of(host).begin(), ranks_of(host).end(), rank) == ranks_of(host).end()) ++host;
    return host;
}

int Lanes::place_of(int rank) const {
    const std::vector<int>& ranks = ranks_of(host_of(rank));
    return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

bool Lanes::even() const {
    return std::all_of(members_.hosts().begin(), members_.hosts().end(), [this](const auto& ranks) {
        return ranks.size() == static_cast<std::size_t>(world_.size());
    });
}

int Lanes::speaker_of(int host) const {
    return ranks_of(host)[place() % ranks_of(host).size()];
}

std::vector<int> Lanes::listeners_of(int host) const {
    std::vector<int> listeners;
    for (std::size_t place = this->place(); place < ranks_of(host).size(); place += world_.size())
        listeners.push_back(ranks_of(host)[place]);
    return listeners;
}

Errands::~Errands() {
    for (const auto& [peer, ticket] : out_)
        if (!ticket->done()) lanes_.mail().forget(ticket);
}

Errands::TicketRef Errands::keep(int peer, TicketRef ticket) {
    if (!ticket->done()) out_.emplace_back(peer, ticket);
    return ticket;
}

Errands::TicketRef Errands::send(int to, const void* data, std::size_t bytes) {
    return keep(to, lanes_.mail().post_send(to, lane_tag, data, bytes));
}

Errands::TicketRef Errands::receive(int from, void* data, std::size_t bytes) {
    return keep(from, lanes_.mail().post_recv(from, lane_tag, data, bytes));
}

void Errands::await(int peer, const TicketRef& ticket) {
    if (!ticket->done()) lanes_.mail().wait(ticket, lanes_.world().waiting_for(peer));
}

void Errands::await_all() {
    for (const auto& [peer, ticket] : out_) await(peer, ticket);
    out_.clear();
}

void Errands::declare(const Signature& signature, bool held) {
    for (int host = 0; host < lanes_.hosts(); ++host) {
        if (host == lanes_.host()) continue;
        for (int peer : lanes_.listeners_of(host))
            keep(peer, lanes_.mail().post_send(peer, accord_tag, &signature, sizeof signature, held));
    }
}

void Errands::compare(const Signature& signature) {
    std::vector<Signature> theirs(lanes_.hosts(), signature);
    Errands arrivals(lanes_);
    std::vector<TicketRef> tickets(lanes_.hosts());
    for (int host = 0; host < lanes_.hosts(); ++host) {
        if (host == lanes_.host()) continue;
        const int peer = lanes_.speaker_of(host);
        tickets[host] =
            arrivals.keep(peer, lanes_.mail().post_recv(peer, accord_tag, &theirs[host], sizeof signature));
    }
    for (int host = 0; host < lanes_.hosts(); ++host) {
        if (tickets[host] != nullptr) arrivals.await(lanes_.speaker_of(host), tickets[host]);
        // Told of the hosts' first ranks, so that all ranks say the same.
        if (!(theirs[host] == theirs[0]))
            lanes_.world().refuse(lanes_.ranks_of(0).front(), theirs[0], lanes_.ranks_of(host).front(),
                                  theirs[host]);
    }
}

void agree(World& world, const Signature& signature) {
    Operation operation(world, signature);
    world.agree();
    if (world.lanes() == nullptr) return;
    Errands errands(*world.lanes());
    errands.declare(signature);
    errands.compare(signature);
    errands.await_all();
}

}  // namespace nbdist
