#include "exchange.h"

#include "lanes.h"

namespace nbdist {

void exchange(World& world, Mail& mail, const Signature& signature, const std::vector<Parcel>& sends,
              const std::vector<Parcel>& receives) {
    agree(world, signature);
    std::vector<std::pair<int, std::shared_ptr<Ticket>>> tickets;
    for (const Parcel& parcel : receives)
        tickets.emplace_back(parcel.peer,
                             mail.post_recv(parcel.peer, exchange_tag, parcel.data, parcel.bytes));
    // Start with the right neighbour, so that not all ranks begin with rank 0.
    for (int step = 0; step < mail.size(); ++step)
        for (const Parcel& parcel : sends)
            if (parcel.peer == (mail.rank() + step) % mail.size())
                tickets.emplace_back(parcel.peer,
                                     mail.post_send(parcel.peer, exchange_tag, parcel.data, parcel.bytes));
    for (const auto& [peer, ticket] : tickets) mail.wait(ticket, {signature.kind, peer});
}

}  // namespace nbdist
