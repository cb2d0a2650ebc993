#include <algorithm>

#include "collectives.h"
#include "copy.h"

namespace nbdist {

// The root lays block after block into its slots, four ahead of the slowest reader.
void in_host::broadcast(World& world, void* data, std::size_t count, DType type, int root) {
    Operation operation(world, {.kind = Kind::broadcast, .type = type, .root = root, .count = count});
    world.agree();
    if (world.size() == 1) return;
    std::byte* bytes = static_cast<std::byte*>(data);
    const std::size_t total = count * size_of(type);
    const std::uint64_t blocks = (total + slot_bytes - 1) / slot_bytes;
    const std::uint64_t first = world.take(blocks);
    for (std::uint64_t i = 0; i < blocks; ++i) {
        const std::size_t begin = i * slot_bytes;
        const std::size_t length = std::min(slot_bytes, total - begin);
        if (world.rank() == root) {
            world.await_free(first + i);
            copy_to_slot(world.own_slot(first + i), bytes + begin, length, world.stores().best());
            world.publish(&Progress::published, first + i);
            count_moved(length * (world.size() - 1));
        } else {
            world.await(root, &Progress::published, first + i);
            std::copy_n(world.slot(root, first + i), length, bytes + begin);
        }
        world.publish(&Progress::finished, first + i);
    }
}

}  // namespace nbdist
