// Every collective. All are called by all ranks, in the same order, and return when this rank's part is
// done; they throw what Vigil and World throw. Counts are elements. Nothing of the caller's is written
// before all ranks have agreed on what they do.
#pragma once

#include <cstddef>

#include "world.h"

namespace nbdist {

// Over the whole group.

void barrier(World& world);

// Reduce `data` in place on every rank, to the same bits.
void all_reduce(World& world, void* data, std::size_t count, DType type, Op op);

// Reduce into `data` on `root` alone; the others' stay as they are.
void reduce(World& world, void* data, std::size_t count, DType type, Op op, int root);

void broadcast(World& world, void* data, std::size_t count, DType type, int root);

// out[r] becomes rank r's `in`.
void all_gather(World& world, const void* in, void* const* out, std::size_t count, DType type);

// `out` becomes the reduction of every rank's in[own rank]; `count` is that of one input.
void reduce_scatter(World& world, const void* const* in, void* out, std::size_t count, DType type, Op op);

// Over the ranks of this host, numbered as the world numbers them: one collective a file.
namespace in_host {
void barrier(World& world);
void all_reduce(World& world, void* data, std::size_t count, DType type, Op op);
void reduce(World& world, void* data, std::size_t count, DType type, Op op, int root);
void broadcast(World& world, void* data, std::size_t count, DType type, int root);
void all_gather(World& world, const void* in, void* const* out, std::size_t count, DType type);
void reduce_scatter(World& world, const void* const* in, void* out, std::size_t count, DType type, Op op);
}  // namespace in_host

// Over several hosts: made of the above and of messages between hosts. One collective a file, across_*.cpp.
namespace across {
void barrier(Lanes& lanes);
void all_reduce(Lanes& lanes, void* data, std::size_t count, DType type, Op op);
void reduce(Lanes& lanes, void* data, std::size_t count, DType type, Op op, int root);
void broadcast(Lanes& lanes, void* data, std::size_t count, DType type, int root);
void all_gather(Lanes& lanes, const void* in, void* const* out, std::size_t count, DType type);
void reduce_scatter(Lanes& lanes, const void* const* in, void* out, std::size_t count, DType type, Op op);
}  // namespace across

// Up to this size a reduction is done whole by every rank: one meeting instead of two.
std::size_t flat_limit(int size);

// A rank's share of a slot that is cut into one part for each rank.
inline std::size_t part_bytes(int size) {
    return slot_bytes / size / 64 * 64;
}

}  // namespace nbdist
