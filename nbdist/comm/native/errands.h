// The messages of one collective.
#pragma once

#include <utility>
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
    void await(int peer, const TicketRef& ticket);
    void await_all();

  private:
    TicketRef keep(int peer, TicketRef ticket);

    World& world_;
    Mail& mail_;
    std::int64_t tag_;
    std::vector<std::pair<int, TicketRef>> out_;
};

}  // namespace nbdist
