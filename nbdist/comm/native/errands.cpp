#include "errands.h"

namespace nbdist {

Errands::~Errands() {
    for (const Errand& errand : out_)
        if (!errand.ticket->done()) mail_.forget(errand.ticket);
}

Errands::TicketRef Errands::keep(int peer, TicketRef ticket, bool comes) {
    if (!ticket->done()) out_.push_back({peer, ticket, comes});
    return ticket;
}

Errands::TicketRef Errands::send(int to, const void* data, std::size_t bytes, bool held) {
    return keep(to, mail_.post_send(to, {tag_, bytes}, data, held), false);
}

Errands::TicketRef Errands::receive(int from, void* data, std::size_t bytes) {
    return keep(from, mail_.post_recv(from, {tag_, bytes}, data), true);
}

void Errands::await(const Errand& errand) {
    if (errand.ticket->done()) return;
    Waiting waiting = world_.waiting_for(errand.peer);
    waiting.comes = errand.comes;
    mail_.wait(errand.ticket, waiting);
}

void Errands::await_all() {
    for (const Errand& errand : out_) await(errand);
    out_.clear();
}

}  // namespace nbdist
