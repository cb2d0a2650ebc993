// Which kind of stores fills the slots best on this machine, now.
//
// Plain stores must first take the line from the core that read it last; streaming ones go to memory. On
// some machines the one is four times faster, on some the other by a tenth, and virtual machines have been
// seen to change within minutes. So it is measured, on the real work, again and again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace nbdist {

class Stores {
  public:
    // The kind for the next large operation. Ranks try the same kind at the same time, for they count the
    // same operations.
    bool streaming() {
        const std::uint64_t turn = operations_++ % period;
        if (turn == 0) seconds_per_byte_[0] = seconds_per_byte_[1] = std::numeric_limits<double>::max();
        return turn < trials ? turn % 2 == 0 : best();
    }

    // The kind that did better when it was last tried.
    bool best() const { return seconds_per_byte_[1] <= seconds_per_byte_[0]; }

    void note(bool streaming, double seconds, double bytes) {
        // The quickest counts: the rest measures what else the machine had to do.
        double& known = seconds_per_byte_[streaming];
        known = std::min(known, seconds / bytes);
    }

  private:
    static constexpr std::uint64_t period = 128, trials = 6;
    std::uint64_t operations_ = 0;
    double seconds_per_byte_[2] = {std::numeric_limits<double>::max(), std::numeric_limits<double>::max()};
};

}  // namespace nbdist
