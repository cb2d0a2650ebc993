#include <algorithm>
#include <vector>

#include "collectives.h"
#include "copy.h"
#include "fold.h"

namespace nbdist {

// The first half of allreduce: block b of my slot holds, for each other rank, a piece of its input.
void in_host::reduce_scatter(World& world, const void* const* in, void* out, std::size_t count, DType type,
                             Op op) {
    Operation operation(world, {.kind = Kind::reduce_scatter, .op = op, .type = type, .count = count});
    const int me = world.rank();
    const std::size_t width = size_of(type);
    const std::size_t part = part_bytes(world.size());
    const std::size_t piece = part / width;
    const std::uint64_t blocks = (count + piece - 1) / piece;
    const std::uint64_t first = world.take(blocks);
    const Fold fold = fold_for(type, op);
    std::vector<const void*> inputs(world.size());
    auto length = [&](std::uint64_t i) { return std::min<std::size_t>(piece, count - i * piece); };
    auto input = [&](int rank, std::uint64_t i) {
        return static_cast<const std::byte*>(in[rank]) + i * piece * width;
    };
    auto scatter = [&](std::uint64_t i) {
        world.await_free(first + i);
        for (int step = 1; step < world.size(); ++step) {
            const int peer = (me + step) % world.size();
            copy_to_slot(world.own_slot(first + i) + peer * part, input(peer, i), length(i) * width,
                         world.stores().best());
        }
        world.publish(&Progress::contributed, first + i);
        count_moved(length(i) * width * (world.size() - 1));
    };
    auto reduce = [&](std::uint64_t i) {
        world.await_all(&Progress::contributed, first + i);
        for (int peer = 0; peer < world.size(); ++peer)
            inputs[peer] = peer == me ? input(me, i) : world.slot(peer, first + i) + me * part;
        fold(static_cast<std::byte*>(out) + i * piece * width, inputs.data(), world.size(), length(i));
        world.publish(&Progress::finished, first + i);
    };

    if (blocks > 0) scatter(0);
    world.agree();
    for (std::uint64_t i = 0; i < blocks; ++i) {
        if (i + 1 < blocks) scatter(i + 1);
        reduce(i);
    }
}

}  // namespace nbdist
