// The two ways a collective ends without a result; module.cpp turns them into nbdist.errors.
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

}  // namespace nbdist
