// The arithmetic of every reduction: fold the inputs of all ranks, in rank order, into one output.
#pragma once

#include <cstddef>

#include "dtype.h"

namespace nbdist {

// out[i] = in[0][i] op in[1][i] op ... op in[inputs-1][i], for `count` elements. `out` may be one of the
// inputs, and overlaps none otherwise. The 16-bit floats are accumulated in float and rounded once; avg
// divides the sum by `inputs`. The order is fixed, so every rank that folds the same inputs gets the same
// bits.
using Fold = void (*)(void* out, const void* const* in, int inputs, std::size_t count);

// The instruction sets a fold exists in, narrowest first.
enum class Width { base, avx2, avx512 };

// The widest one this machine has.
Width widest();

// The fold for a type and a reduction, in the widest set or a given one; null where the pair has no
// meaning (band of float32).
Fold fold_for(DType type, Op op);
Fold fold_for(DType type, Op op, Width width);

// The same for floats, written over every input instead of into `out`, which is not looked at.
Fold fold_everywhere_for(DType type, Op op);
Fold fold_everywhere_for(DType type, Op op, Width width);

// mean[i] becomes the mean of mean[i] and other[i], which stand for `weight` and `other_weight` ranks: what a
// 16-bit sum may leave, its range, no mean does. Floats alone have it.
using Mix = void (*)(void* mean, int weight, const void* other, int other_weight, std::size_t count);

Mix mix_for(DType type);
Mix mix_for(DType type, Width width);

}  // namespace nbdist
