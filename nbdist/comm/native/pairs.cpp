#include "pairs.h"

namespace nbdist {

namespace {

using Choose = Fold (*)(DType, Op);

template <Choose choose, DType part, Op op>
void fold(void* out, const void* const* in, int inputs, std::size_t count) {
    static const Fold whole = choose(part, op);
    whole(out, in, inputs, 2 * count);
}

template <Choose choose, DType part>
Fold folding(Op op) {
    if (op == Op::sum) return fold<choose, part, Op::sum>;
    return op == Op::avg ? fold<choose, part, Op::avg> : nullptr;
}

template <Choose choose>
Fold folding(DType type, Op op) {
    if (type == DType::c64) return folding<choose, DType::f32>(op);
    return type == DType::c128 ? folding<choose, DType::f64>(op) : nullptr;
}

template <DType part>
void mix(void* mean, int weight, const void* other, int other_weight, std::size_t count) {
    static const Mix whole = mix_for(part);
    whole(mean, weight, other, other_weight, 2 * count);
}

}  // namespace

Fold pairs_fold_for(DType type, Op op) {
    return folding<fold_for>(type, op);
}

Fold pairs_fold_everywhere_for(DType type, Op op) {
    return folding<fold_everywhere_for>(type, op);
}

Mix pairs_mix_for(DType type) {
    if (type == DType::c64) return mix<DType::f32>;
    return type == DType::c128 ? mix<DType::f64> : nullptr;
}

}  // namespace nbdist
