// Collectives in which every pair of ranks moves something of its own: gather, scatter, all-to-all.
#pragma once

#include <vector>

#include "errands.h"

namespace nbdist {

struct Parcel {
    int peer;
    std::byte* data;
    std::size_t bytes;
};

// Send and receive one parcel for each peer named. What a rank sends another, the other must expect;
// parcels to oneself go through the same channel.
void exchange(World& world, Mail& mail, const Signature& signature, const std::vector<Parcel>& sends,
              const std::vector<Parcel>& receives);

}  // namespace nbdist
