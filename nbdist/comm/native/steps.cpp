#include "steps.h"

namespace nbdist {

void Steps::begin(const Signature& signature) {
    const std::uint64_t number = count_.fetch_add(1, std::memory_order_relaxed) + 1;
    bytes_.store(signature.count * size_of(signature.type), std::memory_order_relaxed);
    turn_.store(word_of(signature.kind, number), std::memory_order_release);
}

std::optional<Step> Steps::current() const {
    const std::uint64_t caller = caller_.load();
    if (caller == 0) return std::nullopt;
    const Kind called = kind_of(caller);
    if (called == Kind::send || called == Kind::recv) return Step{called, 0, 0};
    std::uint64_t turn = turn_.load(std::memory_order_acquire);
    while (turn != 0) {
        const std::uint64_t bytes = bytes_.load(std::memory_order_acquire);
        const std::uint64_t again = turn_.load(std::memory_order_acquire);
        if (again == turn) return Step{kind_of(turn), turn >> 8, bytes};
        turn = again;
    }
    return Step{called, 0, 0};
}

}  // namespace nbdist
