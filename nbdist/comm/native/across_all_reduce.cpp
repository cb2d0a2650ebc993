#include <algorithm>
#include <cstring>
#include <optional>

#include "collectives.h"
#include "host_ring.h"

namespace nbdist {

namespace {

// A rank sends all of a small tensor to its whole lane, and folds what it gets itself: one meeting, more
// bytes. With two hosts the ring sends no less.
std::size_t flat_bytes(const Lanes& lanes) {
    return 64 * 1024 / (lanes.hosts() - 1);
}

// While one chunk is on the wire, the next is reduced within the host.
constexpr std::size_t chunk_bytes = 4 * 1024 * 1024;

class Reduction {
  public:
    Reduction(const Lanes& lanes, void* data, std::size_t count, DType type, Op op)
        : lanes_(lanes),
          world_(lanes.world()),
          data_(static_cast<std::byte*>(data)),
          count_(count),
          width_(size_of(type)),
          type_(type),
          op_(op) {}

    bool is_flat() const { return count_ * width_ <= flat_bytes(lanes_); }

    // `signature`: compare it on the way, where that has not been done before.
    void flat(const Signature* signature) {
        const std::size_t bytes = count_ * width_;
        std::byte* partials = lanes_.scratch(lanes_.hosts() * bytes);
        auto partial = [&](int host) { return partials + host * bytes; };
        Errands errands = lanes_.errands();
        std::copy_n(data_, bytes, partial(lanes_.host()));
        in_host::all_reduce(world_, partial(lanes_.host()), count_, type_, op_);
        std::optional<Accord> accord;
        if (signature != nullptr) accord.emplace(lanes_, *signature).declare(true);
        for (int step = 1; step < lanes_.hosts(); ++step)
            for (int peer : lanes_.listeners_of((lanes_.host() + step) % lanes_.hosts()))
                errands.send(peer, partial(lanes_.host()), bytes);
        if (accord) accord->compare();
        for (int host = 0; host < lanes_.hosts(); ++host)
            if (host != lanes_.host()) errands.receive(lanes_.speaker_of(host), partial(host), bytes);
        errands.await_all();
        fold_hosts(partials);
    }

    void large() {
        if (!lanes_.even())
            through_first_ranks();
        else if (world_.size() == 1)
            on_wires_alone();
        else
            in_chunks();
    }

  private:
    // Fold what the hosts have reduced, in their order.
    void fold_hosts(const std::byte* partials) {
        const std::size_t bytes = count_ * width_;
        // The mean of the hosts' means is the mean only where hosts have as many ranks.
        if (op_ == Op::avg && !lanes_.even()) {
            std::copy_n(partials, bytes, data_);
            int weight = static_cast<int>(lanes_.ranks_of(0).size());
            for (int host = 1; host < lanes_.hosts(); ++host) {
                const int more = static_cast<int>(lanes_.ranks_of(host).size());
                mix_for(type_)(data_, weight, partials + host * bytes, more, count_);
                weight += more;
            }
            return;
        }
        std::vector<const void*> inputs;
        for (int host = 0; host < lanes_.hosts(); ++host) inputs.push_back(partials + host * bytes);
        fold_for(type_, op_)(data_, inputs.data(), lanes_.hosts(), count_);
    }

    void on_wires_alone() {
        HostRing ring(lanes_, data_, count_, type_, op_);
        ring.start();
        ring.finish();
    }

    // A ring for each lane, over its shard of what the host's ranks have reduced together.
    void in_chunks() {
        const std::size_t size = world_.size();
        const std::size_t whole = count_ / size * size;
        const std::size_t longest = chunk_bytes / width_ / size * size;
        std::optional<HostRing> ring;
        std::size_t begun = 0, length = std::min(longest, whole);
        scatter(0, length);
        ring.emplace(lanes_, shard(0, length, lanes_.place()), length / size, type_, op_);
        ring->start();
        while (begun < whole) {
            const std::size_t next = begun + length, next_length = std::min(longest, whole - next);
            if (next < whole) scatter(next, next_length);
            ring->finish();
            if (next < whole) {
                ring.emplace(lanes_, shard(next, next_length, lanes_.place()), next_length / size, type_,
                             op_);
                ring->start();
            }
            gather(begun, length);
            begun = next;
            length = next_length;
        }
        if (whole == count_) return;
        // What can't be cut evenly is a few elements.
        Reduction(lanes_, data_ + whole * width_, count_ - whole, type_, op_).flat(nullptr);
    }

    void through_first_ranks() {
        in_host::reduce(world_, data_, count_, type_, op_, 0);
        if (lanes_.place() == 0) on_wires_alone();
        in_host::broadcast(world_, data_, count_, type_, 0);
    }

    std::byte* shard(std::size_t begin, std::size_t length, int place) const {
        return data_ + (begin + length / world_.size() * place) * width_;
    }
    std::vector<void*> shards(std::size_t begin, std::size_t length) const {
        std::vector<void*> all;
        for (int place = 0; place < world_.size(); ++place) all.push_back(shard(begin, length, place));
        return all;
    }
    void scatter(std::size_t begin, std::size_t length) {
        const std::vector<void*> all = shards(begin, length);
        in_host::reduce_scatter(world_, all.data(), all[world_.rank()], length / world_.size(), type_, op_);
    }
    void gather(std::size_t begin, std::size_t length) {
        const std::vector<void*> all = shards(begin, length);
        in_host::all_gather(world_, all[world_.rank()], all.data(), length / world_.size(), type_);
    }

    const Lanes& lanes_;
    World& world_;
    std::byte* data_;
    std::size_t count_, width_;
    DType type_;
    Op op_;
};

void reduce_all(const Lanes& lanes, void* data, std::size_t count, DType type, Op op,
                const Signature& signature) {
    Reduction reduction(lanes, data, count, type, op);
    if (reduction.is_flat()) {
        {
            Operation operation(lanes.world(), signature);
            lanes.world().agree();
        }
        reduction.flat(&signature);
    } else {
        agree(lanes.world(), signature);
        reduction.large();
    }
}

}  // namespace

void across::all_reduce(Lanes& lanes, void* data, std::size_t count, DType type, Op op) {
    reduce_all(lanes, data, count, type, op,
               {.kind = Kind::all_reduce, .op = op, .type = type, .count = count});
}

void across::reduce(Lanes& lanes, void* data, std::size_t count, DType type, Op op, int root) {
    std::vector<std::byte> scratch;
    if (lanes.rank() != root) {
        const std::byte* bytes = static_cast<const std::byte*>(data);
        scratch.assign(bytes, bytes + count * size_of(type));
        data = scratch.data();
    }
    reduce_all(lanes, data, count, type, op,
               {.kind = Kind::reduce, .op = op, .type = type, .root = root, .count = count});
}

}  // namespace nbdist
