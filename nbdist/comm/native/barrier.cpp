#include "collectives.h"

namespace nbdist {

// To have agreed on the operation is to have met.
void in_host::barrier(World& world) {
    Operation operation(world, {.kind = Kind::barrier});
    world.agree();
}

}  // namespace nbdist
