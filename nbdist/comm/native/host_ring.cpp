#include "host_ring.h"

#include <algorithm>

namespace nbdist {

namespace {

constexpr std::size_t least_piece = 64 * 1024, most_piece = 512 * 1024;

std::size_t pieces_for(std::size_t segment_bytes) {
    const std::size_t bytes = std::clamp(segment_bytes / 4, least_piece, most_piece);
    return std::max<std::size_t>(1, (segment_bytes + bytes - 1) / bytes);
}

}  // namespace

HostRing::HostRing(const Lanes& lanes, std::byte* data, std::size_t count, DType type, Op op)
    : lanes_(lanes),
      data_(data),
      count_(count),
      width_(size_of(type)),
      op_(op),
      hosts_(lanes.hosts()),
      host_(lanes.host()),
      left_(lanes.speaker_of((host_ + hosts_ - 1) % hosts_)),
      right_(lanes.speaker_of((host_ + 1) % hosts_)),
      pieces_(pieces_for((count + hosts_ - 1) / hosts_ * width_)),
      fold_(fold_for(type, op)),
      mix_(mix_for(type)),
      scratch_bytes_(((count + hosts_ - 1) / hosts_ / pieces_ + 1) * width_),
      scratch_(lanes.scratch(ahead * scratch_bytes_)),
      errands_(lanes.errands()) {}

HostRing::Piece HostRing::piece(int segment, std::size_t number) const {
    const std::size_t low = count_ * segment / hosts_, length = count_ * (segment + 1) / hosts_ - low;
    const std::size_t begin = length * number / pieces_, end = length * (number + 1) / pieces_;
    return {data_ + (low + begin) * width_, end - begin};
}

HostRing::Piece HostRing::incoming(std::size_t item) const {
    const int step = static_cast<int>(item / pieces_);
    return piece((host_ - step - 1 + 2 * hosts_) % hosts_, item % pieces_);
}

// Post the next receive: what is to be folded into scratch memory, what is whole into its place. The place is
// free: a whole piece has in it what this rank sent of it.
void HostRing::expect() {
    const std::size_t item = expected_.size();
    if (item == items()) return;
    const Piece piece = incoming(item);
    std::byte* place = folds(item) ? scratch_ + item % ahead * scratch_bytes_ : piece.data;
    expected_.push_back(errands_.receive(left_, place, piece.count * width_));
}

void HostRing::start() {
    for (std::size_t i = 0; i < ahead; ++i) expect();
    for (std::size_t i = 0; i < pieces_; ++i) {
        const Piece first = piece(host_, i);
        errands_.send(right_, first.data, first.count * width_);
    }
}

void HostRing::take(std::size_t item) {
    const Piece piece = incoming(item);
    const std::byte* come = scratch_ + item % ahead * scratch_bytes_;
    if (op_ == Op::avg) {
        // It has passed a host more at every step.
        int passed = 0;
        for (int step = 0; step <= static_cast<int>(item / pieces_); ++step)
            passed += weight_of((host_ - step - 1 + hosts_) % hosts_);
        mix_(piece.data, weight_of(host_), come, passed, piece.count);
    } else {
        const void* inputs[2] = {come, piece.data};
        fold_(piece.data, inputs, 2, piece.count);
    }
}

int HostRing::weight_of(int host) const {
    return lanes_.even() ? 1 : static_cast<int>(lanes_.ranks_of(host).size());
}

void HostRing::finish() {
    for (std::size_t item = 0; item < items(); ++item) {
        errands_.await(left_, expected_[item]);
        const Piece piece = incoming(item);
        // The last rank that adds to a piece is the one whose bits all receive.
        if (folds(item)) take(item);
        expected_[item] = nullptr;
        expect();
        if (item + pieces_ < items()) errands_.send(right_, piece.data, piece.count * width_);
    }
    errands_.await_all();
}

}  // namespace nbdist
