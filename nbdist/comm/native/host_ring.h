// Allreduce between one rank of each host: the ring of Patarasuk & Yuan, JPDC 69(2), 2009, on wires.
//
// The data is cut in a segment for each host. In H-1 steps every rank passes a segment on to the right and
// folds the one that comes from the left into its own; then one segment is whole on each, and in H-1 more
// steps the whole ones go round. A rank sends 2(H-1)/H of the bytes. Segments are cut in pieces, and a piece
// goes on as soon as it has come, so that the wires of all hosts are busy both ways all the time. An average
// is one at every step, weighted by the hosts' ranks: no sum that could overflow travels.
#pragma once

#include "fold.h"
#include "lanes.h"

namespace nbdist {

class HostRing {
  public:
    HostRing(const Lanes& lanes, std::byte* data, std::size_t count, DType type, Op op);

    // Send what can be sent before anything has come: the kernel carries it while this rank does other work.
    void start();
    void finish();

  private:
    struct Piece {
        std::byte* data;
        std::size_t count;
    };
    int steps() const { return 2 * (hosts_ - 1); }
    std::size_t items() const { return steps() * pieces_; }
    Piece piece(int segment, std::size_t number) const;
    // What comes in a step, and goes on in the next.
    Piece incoming(std::size_t item) const;
    bool folds(std::size_t item) const { return item < (hosts_ - 1) * pieces_; }
    void expect();
    // Add what has come to this rank's own.
    void take(std::size_t item);
    int weight_of(int host) const;

    static constexpr std::size_t ahead = 4;  // receives posted before they are waited for

    const Lanes& lanes_;
    std::byte* data_;
    std::size_t count_, width_;
    Op op_;
    int hosts_, host_, left_, right_;
    std::size_t pieces_;
    Fold fold_;
    Mix mix_;
    std::size_t scratch_bytes_;
    std::byte* scratch_;
    std::vector<std::shared_ptr<Ticket>> expected_;
    Errands errands_;
};

}  // namespace nbdist
