// The ways a collective ends without a result; errors_binding.cpp turns them into nbdist.errors.
#pragma once

#include <stdexcept>
#include <string>

namespace nbdist {

// A waiting collective was released. `rank` is the rank that caused it, -1 where no single one did.
struct Aborted : std::runtime_error {
    Aborted(const std::string& message, int rank, std::string operation)
        : std::runtime_error(message), rank(rank), operation(std::move(operation)) {}
    int rank;
    std::string operation;
};

// Ranks issued different collectives.
struct Mismatch : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// A child of a rank (a DataLoader's worker, say) used what its parent formed.
struct Forked : std::runtime_error {
    Forked()
        : std::runtime_error(
              "a forked process is no rank; call collectives in the process that formed the "
              "group, and hand results over through a queue or a pipe") {}
};

}  // namespace nbdist
