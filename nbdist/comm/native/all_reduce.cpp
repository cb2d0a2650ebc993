// Allreduce as reduce-scatter and all-gather (Patarasuk & Yuan, JPDC 69(2), 2009): each rank sends
// 2(N-1)/N of the bytes, the least any algorithm can. README.md draws it.
#include <algorithm>
#include <chrono>
#include <vector>

#include "collectives.h"
#include "copy.h"
#include "fold.h"

namespace nbdist {

namespace {

struct Range {
    std::size_t begin;
    std::size_t count;
};

// The tensor in blocks, and each block in one part for every rank to reduce.
struct Blocks {
    Blocks(std::size_t count, std::size_t width, int size)
        : count(count),
          size(size),
          per_block(part_bytes(size) / width * size),
          number((count + per_block - 1) / per_block) {}

    Range part(std::uint64_t block, int rank) const {
        const std::size_t begin = block * per_block;
        const std::size_t length = std::min(per_block, count - begin);  // the last one is shorter
        const std::size_t low = length * rank / size;
        return {begin + low, length * (rank + 1) / size - low};
    }

    std::size_t count;
    std::size_t size;
    std::size_t per_block;
    std::uint64_t number;
};

constexpr int everybody = -1;

// Who takes a result: everybody, or the root alone.
struct Takers {
    Takers(const World& world, int root)
        : me(root == everybody || root == world.rank()),
          others(root == everybody      ? world.size() - 1
                 : root == world.rank() ? 0
                                        : 1) {}

    bool me;
    std::size_t others;
};

class Ring {
  public:
    Ring(World& world, void* data, std::size_t count, DType type, Op op, int root)
        : world_(world),
          data_(static_cast<std::byte*>(data)),
          width_(size_of(type)),
          fold_(fold_for(type, op)),
          takers_(world, root),
          blocks_(count, width_, world.size()),
          inputs_(world.size()) {}

    // Three stages a block: scatter, reduce, gather. This rank runs ahead with whatever is possible, up to
    // the four slots there are, so a peer that is late by less holds nobody up.
    void run() {
        const bool measured = blocks_.number >= slot_count;
        streaming_ = measured ? world_.stores().streaming() : world_.stores().best();
        first_ = world_.take(blocks_.number);
        std::uint64_t scattered = 0, reduced = 0, gathered = 0;
        if (blocks_.number > 0) scatter(scattered++);
        world_.agree();
        const auto began = std::chrono::steady_clock::now();
        while (gathered < blocks_.number) {
            const bool ahead = scattered < blocks_.number && scattered < gathered + slot_count;
            if (ahead && world_.is_free(first_ + scattered))
                scatter(scattered++);
            else if (reduced < scattered && world_.all_through(&Progress::contributed, first_ + reduced))
                reduce(reduced++);
            else if (gathered < reduced)  // what peers need least, but the oldest: wait for it
                gather(gathered++);
            else if (reduced < scattered)
                reduce(reduced++);
            else
                scatter(scattered++);
        }
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
        if (measured) world_.stores().note(streaming_, took.count(), blocks_.count * width_);
    }

  private:
    std::byte* part_of(int owner, std::uint64_t block, int part) const {
        return world_.slot(owner, first_ + block) + part * part_bytes(world_.size());
    }
    std::byte* tensor(Range range) const { return data_ + range.begin * width_; }

    // Lay every other rank's part of my block into my slot.
    void scatter(std::uint64_t block) {
        world_.await_free(first_ + block);
        std::size_t sent = 0;
        for (int i = 1; i < world_.size(); ++i) {
            const int peer = (world_.rank() + i) % world_.size();
            const Range range = blocks_.part(block, peer);
            copy_to_slot(part_of(world_.rank(), block, peer), tensor(range), range.count * width_,
                         streaming_);
            sent += range.count * width_;
        }
        world_.publish(&Progress::contributed, first_ + block);
        count_moved(sent);
    }

    // Fold my part of everybody's block, in rank order; my own part of my slot is free to hold the result.
    void reduce(std::uint64_t block) {
        const int me = world_.rank();
        const Range range = blocks_.part(block, me);
        world_.await_all(&Progress::contributed, first_ + block);
        for (int peer = 0; peer < world_.size(); ++peer)
            inputs_[peer] = peer == me ? tensor(range) : part_of(peer, block, me);
        std::byte* result = part_of(me, block, me);
        if (takers_.me) {
            fold_(tensor(range), inputs_.data(), world_.size(), range.count);
            if (takers_.others > 0) copy_to_slot(result, tensor(range), range.count * width_, streaming_);
        } else {
            fold_(result, inputs_.data(), world_.size(), range.count);
        }
        world_.publish(&Progress::published, first_ + block);
        count_moved(range.count * width_ * takers_.others);
    }

    // Take every other rank's result.
    void gather(std::uint64_t block) {
        for (int i = 1; i < world_.size() && takers_.me; ++i) {
            const int peer = (world_.rank() + i) % world_.size();
            const Range range = blocks_.part(block, peer);
            world_.await(peer, &Progress::published, first_ + block);
            std::copy_n(part_of(peer, block, peer), range.count * width_, tensor(range));
        }
        world_.publish(&Progress::finished, first_ + block);
    }

    World& world_;
    std::byte* data_;
    std::size_t width_;
    Fold fold_;
    Takers takers_;
    bool streaming_;
    Blocks blocks_;
    std::uint64_t first_ = 0;
    std::vector<const void*> inputs_;
};

// Small messages: lay all of mine into the slot, fold all of everybody's.
void flat(World& world, void* data, std::size_t count, DType type, Op op, int root) {
    const Takers takers(world, root);
    const std::size_t bytes = count * size_of(type);
    const std::uint64_t block = world.take(1);
    world.await_free(block);
    if (takers.others > 0)
        copy_to_slot(world.own_slot(block), static_cast<const std::byte*>(data), bytes,
                     world.stores().best());
    world.publish(&Progress::contributed, block);
    count_moved(bytes * takers.others);
    world.agree();
    if (takers.me) {
        std::vector<const void*> inputs(world.size());
        world.await_all(&Progress::contributed, block);
        for (int peer = 0; peer < world.size(); ++peer)
            inputs[peer] = peer == world.rank() ? data : world.slot(peer, block);
        fold_for(type, op)(data, inputs.data(), world.size(), count);
    }
    world.publish(&Progress::finished, block);
}

void run(World& world, void* data, std::size_t count, DType type, Op op, int root) {
    if (count * size_of(type) <= flat_limit(world.size()))
        flat(world, data, count, type, op, root);
    else
        Ring(world, data, count, type, op, root).run();
}

}  // namespace

std::size_t flat_limit(int size) {
    return std::clamp<std::size_t>(256 * 1024 / size, 8 * 1024, 64 * 1024);
}

void in_host::all_reduce(World& world, void* data, std::size_t count, DType type, Op op) {
    Operation operation(world, {.kind = Kind::all_reduce, .op = op, .type = type, .count = count});
    if (world.size() > 1) run(world, data, count, type, op, everybody);
}

void in_host::reduce(World& world, void* data, std::size_t count, DType type, Op op, int root) {
    Operation operation(world, {.kind = Kind::reduce, .op = op, .type = type, .root = root, .count = count});
    if (world.size() > 1) run(world, data, count, type, op, root);
}

}  // namespace nbdist
