// The hosts of a group, as one of its ranks sees them.
//
// The ranks that have the same place on each host form a lane, and messages between hosts go along lanes.
// Where hosts have different numbers of ranks, the place is taken modulo theirs.
#pragma once

#include "mail.h"
#include "world.h"

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

  private:
    const Members& members_;
    World& world_;
    Mail& mail_;
};

// Messages of a collective. Those that are not done when it ends, for the group has, are taken back: declare
// it after the memory that they use.
class Errands {
  public:
    explicit Errands(const Lanes& lanes) : lanes_(lanes) {}
    ~Errands();
    Errands(const Errands&) = delete;

    using TicketRef = std::shared_ptr<Ticket>;
    TicketRef send(int to, const void* data, std::size_t bytes);
    TicketRef receive(int from, void* data, std::size_t bytes);
    void await(int peer, const TicketRef& ticket);
    void await_all();

    // Tell the other hosts what this one is about to do: a rank speaks for its host, whose ranks have agreed
    // before. With `held` it goes with the message that follows at once to the same ranks. `signature` must
    // last as long as this.
    void declare(const Signature& signature, bool held = false);
    // Wait for what they do, and throw Mismatch unless it is the same. Then every rank has agreed.
    void compare(const Signature& signature);

  private:
    TicketRef keep(int peer, TicketRef ticket);

    const Lanes& lanes_;
    std::vector<std::pair<int, TicketRef>> out_;
};

// Wait until every rank of the group, on whatever host, does the same.
void agree(World& world, const Signature& signature);

}  // namespace nbdist
