#include "exchange.h"

#include "lanes.h"

namespace nbdist {

void exchange(World& world, Mail& mail, const Signature& signature, const std::vector<Parcel>& sends,
              const std::vector<Parcel>& receives) {
    agree(world, signature);
    Errands errands(world, mail, exchange_tag);
    for (const Parcel& parcel : receives) errands.receive(parcel.peer, parcel.data, parcel.bytes);
    // Start with the right neighbour, so that not all ranks begin with rank 0.
    for (int step = 0; step < mail.size(); ++step)
        for (const Parcel& parcel : sends)
            if (parcel.peer == (mail.rank() + step) % mail.size())
                errands.send(parcel.peer, parcel.data, parcel.bytes);
    errands.await_all();
}

}  // namespace nbdist
