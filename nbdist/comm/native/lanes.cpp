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

std::byte* Lanes::scratch(std::size_t bytes) const {
    if (bytes > scratch_bytes_) {
        scratch_.reset(new std::byte[bytes]);
        scratch_bytes_ = bytes;
    }
    return scratch_.get();
}

Accord::Accord(const Lanes& lanes, const Signature& signature)
    : lanes_(lanes),
      signature_(lanes.world().told(signature)),
      theirs_(lanes.hosts(), signature_),
      errands_(lanes.world(), lanes.mail(), accord_tag) {}

void Accord::declare(bool held) {
    for (int host = 0; host < lanes_.hosts(); ++host) {
        if (host == lanes_.host()) continue;
        for (int peer : lanes_.listeners_of(host)) errands_.send(peer, &signature_, sizeof signature_, held);
    }
}

void Accord::compare() {
    std::vector<Errands::TicketRef> come(lanes_.hosts());
    for (int host = 0; host < lanes_.hosts(); ++host)
        if (host != lanes_.host())
            come[host] = errands_.receive(lanes_.speaker_of(host), &theirs_[host], sizeof signature_);
    for (int host = 0; host < lanes_.hosts(); ++host) {
        if (come[host] != nullptr) errands_.await(lanes_.speaker_of(host), come[host]);
        // Told of the hosts' first ranks, so that all ranks say the same.
        if (!(theirs_[host] == theirs_[0]))
            lanes_.world().refuse(lanes_.ranks_of(0).front(), theirs_[0], lanes_.ranks_of(host).front(),
                                  theirs_[host]);
    }
    errands_.await_all();
}

void agree(World& world, const Signature& signature) {
    Operation operation(world, signature);
    world.agree();
    if (world.lanes() == nullptr) return;
    Accord accord(*world.lanes(), signature);
    accord.declare();
    accord.compare();
}

}  // namespace nbdist
