#include <algorithm>
#include <cstring>

#include "collectives.h"
#include "copy.h"

namespace nbdist {

// Every rank lays its block into its slot and takes the others', one block behind.
void in_host::all_gather(World& world, const void* in, void* const* out, std::size_t count, DType type) {
    Operation operation(world, {.kind = Kind::all_gather, .type = type, .count = count});
    const std::byte* mine = static_cast<const std::byte*>(in);
    const std::size_t total = count * size_of(type);
    const std::uint64_t blocks = world.size() > 1 ? (total + slot_bytes - 1) / slot_bytes : 0;
    const std::uint64_t first = world.take(blocks);
    auto length = [&](std::uint64_t i) { return std::min(slot_bytes, total - i * slot_bytes); };
    auto lay = [&](std::uint64_t i) {
        world.await_free(first + i);
        copy_to_slot(world.own_slot(first + i), mine + i * slot_bytes, length(i), world.stores().best());
        world.publish(&Progress::published, first + i);
        count_moved(length(i) * (world.size() - 1));
    };
    auto take = [&](std::uint64_t i) {
        for (int step = 1; step < world.size(); ++step) {
            const int peer = (world.rank() + step) % world.size();
            world.await(peer, &Progress::published, first + i);
            std::copy_n(world.slot(peer, first + i), length(i),
                        static_cast<std::byte*>(out[peer]) + i * slot_bytes);
        }
        world.publish(&Progress::finished, first + i);
    };

    if (blocks > 0) lay(0);
    world.agree();
    // The input may be its own place in the output already.
    if (total > 0) std::memmove(out[world.rank()], in, total);
    for (std::uint64_t i = 0; i < blocks; ++i) {
        if (i + 1 < blocks) lay(i + 1);
        take(i);
    }
}

}  // namespace nbdist
