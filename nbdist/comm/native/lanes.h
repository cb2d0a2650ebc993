// The hosts of a group, as one of its ranks sees them.
//
// The ranks that have the same place on each host form a lane, and messages between hosts go along lanes.
// Where hosts have different numbers of ranks, the place is taken modulo theirs.
#pragma once

#include "errands.h"

namespace nbdist {

class Lanes {
  public:
    Lanes(const Members& members, World& world, Mail& mail) : members_(members), world_(world), mail_(mail) {}

    World& world() const { return world_; }
    int rank() const { return members_.rank(); }
    int size() const { return members_.size(); }

    int hosts() const { return static_cast<int>(members_.hosts().size()); }
    int host() const { return members_.host(); }
    int place() const { return world_.rank(); }
    int host_of(int rank) const;
    int place_of(int rank) const;
    // The ranks of a host, by place.
    const std::vector<int>& ranks_of(int host) const { return members_.hosts()[host]; }
    // Whether all hosts have as many ranks.
    bool even() const;

    // Of another host: the rank that speaks to this one, and those that this one speaks to.
    int speaker_of(int host) const;
    std::vector<int> listeners_of(int host) const;

    Mail& mail() const { return mail_; }
    // Memory for a collective's own use, kept for the next: fresh pages cost more than what is done in them.
    std::byte* scratch(std::size_t bytes) const;
    // For what a collective sends along the lanes.
    Errands errands() const { return {world_, mail_, lane_tag}; }

  private:
    const Members& members_;
    World& world_;
    Mail& mail_;
    mutable std::unique_ptr<std::byte[]> scratch_;
    mutable std::size_t scratch_bytes_ = 0;
};

// What hosts tell one another before a collective. A rank speaks for its host, whose ranks have agreed.
class Accord {
  public:
    Accord(const Lanes& lanes, const Signature& signature);

    // Say what this host is about to do; `held`, with the next message to the same ranks.
    void declare(bool held = false);
    // Wait for what the others are, and throw Mismatch unless it is the same. Then every rank has agreed.
    void compare();

  private:
    const Lanes& lanes_;
    Signature signature_;
    std::vector<Signature> theirs_;  // by host
    Errands errands_;
};

// Wait until every rank of the group, on whatever host, does the same.
void agree(World& world, const Signature& signature);

}  // namespace nbdist
