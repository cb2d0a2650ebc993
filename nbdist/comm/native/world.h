// The protocol all collectives share: operations in one order, blocks in numbered slots.
//
// Every rank issues the same operations in the same order, and each operation takes the same number of
// blocks on every rank, so block numbers agree without a word. Block b uses slot b % 4 of every segment.
// A rank writes only its own slots and its own counters; it reads those of the others.
//
// A world is the ranks of one host, numbered from 0 in the order of their ranks in the group. Where the group
// is on one host the numbers are the same. Else what the user calls is one turn, made of several operations
// here and of messages to other hosts (lanes.h).
#pragma once

#include "stores.h"
#include "vigil.h"

namespace nbdist {

using Counter = std::atomic<std::uint64_t> Progress::*;

class Lanes;

class World {
  public:
    // Wait until every rank of this host has mapped its own segment; refuse strangers.
    World(const Members& members, Vigil& vigil);

    int rank() const { return rank_; }
    int size() const { return static_cast<int>(ranks_.size()); }
    // The way to the other hosts; null where there is none.
    Lanes* lanes() const { return lanes_; }
    void connect(Lanes& lanes) { lanes_ = &lanes; }

    // Say what this rank does next. Calling it twice for one operation does no harm.
    void open(const Signature& signature);
    // From now on (or no more) this rank only takes part in what comes after a cell's own lines.
    void set_ending(bool ending) { ending_.store(ending, std::memory_order_relaxed); }
    // A signature as the other ranks are told it.
    Signature told(Signature signature) const {
        signature.ending = ending_.load(std::memory_order_relaxed) ? 1 : 0;
        return signature;
    }
    // Whether every rank says so within `patience`.
    bool all_open(std::chrono::milliseconds patience);
    // Count a collective called on this rank, done or queued. The peers go by it once we leave the cell.
    void issue();
    // Wait until every rank has opened the operation, and throw Mismatch unless all opened the same.
    void agree();
    void close() { ++sequence_; }
    // What the user called is done.
    void end_turn() { ++turn_; }
    // What a wait for a rank of the group (of any host) says, and by what it knows that it is in vain.
    Waiting waiting_for(int member) const;
    // End the group, saying which ranks want what.
    [[noreturn]] void refuse(int member, const Signature& theirs, int other, const Signature& others);

    // Number the next `blocks` blocks; returns the first.
    std::uint64_t take(std::uint64_t blocks) {
        const std::uint64_t first = next_block_;
        next_block_ += blocks;
        return first;
    }

    Stores& stores() { return stores_; }

    std::byte* slot(int rank, std::uint64_t block) const { return members_.slot(ranks_[rank], block); }
    std::byte* own_slot(std::uint64_t block) const { return members_.slot(members_.rank(), block); }

    // Whether all the others are through `block`, as far as this rank can see now.
    bool all_through(Counter counter, std::uint64_t block) const;
    // Whether nobody reads the slot that `block` will use, left from four blocks ago.
    bool is_free(std::uint64_t block) const {
        return block < slot_count || all_through(&Progress::finished, block - slot_count);
    }
    void await_free(std::uint64_t block);
    // Wait until `peer` is through `block` as far as `counter` tells.
    void await(int peer, Counter counter, std::uint64_t block);
    void await_all(Counter counter, std::uint64_t block);
    // Tell the others that this rank is through `block`.
    void publish(Counter counter, std::uint64_t block);

  private:
    Control& control(int rank) const { return members_.control(ranks_[rank]); }

    const Members& members_;
    Vigil& vigil_;
    const std::vector<int>& ranks_;
    int rank_;
    Lanes* lanes_ = nullptr;
    Signature signature_;
    std::atomic<bool> ending_{false};
    Kind called_ = Kind::form;  // by the user, in this turn
    std::uint64_t sequence_ = 0;
    std::uint64_t turn_ = 0;
    std::uint64_t named_ = 0;  // turns that have a name, this one included
    std::uint64_t next_block_ = 0;
    Stores stores_;
};

// An operation from its opening to its end.
class Operation {
  public:
    Operation(World& world, const Signature& signature) : world_(world) { world.open(signature); }
    ~Operation() { world_.close(); }
    Operation(const Operation&) = delete;

  private:
    World& world_;
};

// Payload bytes this process has sent to other ranks, over all groups.
void count_moved(std::uint64_t bytes);
std::uint64_t bytes_moved();

}  // namespace nbdist
