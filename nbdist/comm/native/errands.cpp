#include "errands.h"

namespace nbdist {

Errands::~Errands() {
    for (const auto& [peer, ticket] : out_)
        if (!ticket->done()) mail_.forget(ticket);
}

Errands::TicketRef Errands::keep(int peer, TicketRef ticket) {
    if (!ticket->done()) out_.emplace_back(peer, ticket);
    return ticket;
}

Errands::TicketRef Errands::send(int to, const void* data, std::size_t bytes, bool held) {
    return keep(to, mail_.post_send(to, tag_, data, bytes, held));
}

Errands::TicketRef Errands::receive(int from, void* data, std::size_t bytes) {
    return keep(from, mail_.post_recv(from, tag_, data, bytes));
}

void Errands::await(int peer, const TicketRef& ticket) {
    if (!ticket->done()) mail_.wait(ticket, world_.waiting_for(peer));
}

void Errands::await_all() {
    for (const auto& [peer, ticket] : out_) await(peer, ticket);
    out_.clear();
}

}  // namespace nbdist
