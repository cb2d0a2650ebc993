// Complex numbers: pairs of floats to the reductions that treat both parts alike.
#pragma once

#include "fold.h"

namespace nbdist {

// What fold_for, fold_everywhere_for and mix_for return for complex types, in the widest set; null for all
// others.
Fold pairs_fold_for(DType type, Op op);
Fold pairs_fold_everywhere_for(DType type, Op op);
Mix pairs_mix_for(DType type);

}  // namespace nbdist
