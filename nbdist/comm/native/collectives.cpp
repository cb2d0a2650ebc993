#include "collectives.h"

namespace nbdist {

void barrier(World& world) {
    if (world.lanes() != nullptr)
        across::barrier(*world.lanes());
    else
        in_host::barrier(world);
}

void all_reduce(World& world, void* data, std::size_t count, DType type, Op op) {
    if (world.lanes() != nullptr)
        across::all_reduce(*world.lanes(), data, count, type, op);
    else
        in_host::all_reduce(world, data, count, type, op);
}

void reduce(World& world, void* data, std::size_t count, DType type, Op op, int root) {
    if (world.lanes() != nullptr)
        across::reduce(*world.lanes(), data, count, type, op, root);
    else
        in_host::reduce(world, data, count, type, op, root);
}

void broadcast(World& world, void* data, std::size_t count, DType type, int root) {
    if (world.lanes() != nullptr)
        across::broadcast(*world.lanes(), data, count, type, root);
    else
        in_host::broadcast(world, data, count, type, root);
}

void all_gather(World& world, const void* in, void* const* out, std::size_t count, DType type) {
    if (world.lanes() != nullptr)
        across::all_gather(*world.lanes(), in, out, count, type);
    else
        in_host::all_gather(world, in, out, count, type);
}

void reduce_scatter(World& world, const void* const* in, void* out, std::size_t count, DType type, Op op) {
    if (world.lanes() != nullptr)
        across::reduce_scatter(*world.lanes(), in, out, count, type, op);
    else
        in_host::reduce_scatter(world, in, out, count, type, op);
}

}  // namespace nbdist
