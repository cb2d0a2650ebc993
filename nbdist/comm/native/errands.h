// The messages of one collective.
#pragma once

#include <vector>

#include "mail.h"
#include "world.h"

namespace nbdist {

// Those that are not done when it ends, because the group did, are taken back: declare it after the memory
// that they use.
class Errands {
  public:
    using TicketRef = std::shared_ptr<Ticket>;

    Errands(World& world, Mail& mail, std::int64_t tag) : world_(world), mail_(mail), tag_(tag) {}
    ~Errands();
    Errands(const Errands&) = delete;

    TicketRef send(int to, const void* data, std::size_t bytes, bool held = false);
    TicketRef receive(int from, void* data, std::size_t bytes);
    // Wait for a message that `receive` asked for.
    void await(int peer, const TicketRef& ticket) { await({peer, ticket, true}); }
    void await_all();

  private:
    struct Errand {
        int peer;
        TicketRef ticket;
        bool comes;
    };
    TicketRef keep(int peer, TicketRef ticket, bool comes);
    void await(const Errand& errand);

    World& world_;
    Mail& mail_;
    std::int64_t tag_;
    std::vector<Errand> out_;
};

}  // namespace nbdist
