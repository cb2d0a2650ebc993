// Tensors whose reductions are known, by the plainest loop there is.
#pragma once

#include <cstddef>
#include <vector>

#include "dtype.h"

namespace nbdist::test {

using Bytes = std::vector<std::byte>;

// What a rank contributes; the same whoever asks.
Bytes sample(DType type, std::size_t count, int rank);

// The reduction of what all ranks contribute.
Bytes expected(DType type, Op op, const std::vector<Bytes>& inputs);
Bytes expected(DType type, Op op, std::size_t count, int size);

// Whether two tensors are equal but for rounding: between hosts the order of a sum is another.
bool close(DType type, const Bytes& left, const Bytes& right);

// Every type and reduction that go together.
std::vector<std::pair<DType, Op>> reductions();

}  // namespace nbdist::test
