#include "fold.h"

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "half.h"
#include "pairs.h"

namespace nbdist {

namespace {

// An element as it is stored, and as it is accumulated.
template <class T>
struct Element {
    using Stored = T;
    using Sum = T;
    static NBDIST_INLINE T load(T value) { return value; }
    static NBDIST_INLINE T store(T value) { return value; }
};

template <>
struct Element<BFloat16> {
    using Stored = std::uint16_t;  // a struct, however small, the vectoriser does not load
    using Sum = float;
    static NBDIST_INLINE float load(std::uint16_t bits) { return widen(BFloat16{bits}); }
    static NBDIST_INLINE std::uint16_t store(float value) { return narrow_bfloat16(value).bits; }
};

template <>
struct Element<Float16> {
    using Stored = std::uint16_t;
    using Sum = float;
    static NBDIST_INLINE float load(std::uint16_t bits) { return widen(Float16{bits}); }
    static NBDIST_INLINE std::uint16_t store(float value) { return narrow_float16(value).bits; }
};

// Integers wrap round, as torch's do; the arithmetic is unsigned because signed overflow is undefined.
template <class T>
using Wrapping = typename std::conditional_t<std::is_integral_v<T> && (sizeof(T) >= sizeof(int)),
                                             std::make_unsigned<T>, std::type_identity<T>>::type;

struct Sum {
    template <class T>
    static NBDIST_INLINE T apply(T a, T b) {
        return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
    }
};

struct Product {
    template <class T>
    static NBDIST_INLINE T apply(T a, T b) {
        if constexpr (sizeof(T) == 2 && std::is_integral_v<T>)
            return static_cast<T>(static_cast<std::uint32_t>(a) * static_cast<std::uint32_t>(b));
        else
            return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
    }
};

// A NaN on any rank is a NaN in the result (b != b holds for nothing else).
struct Min {
    template <class T>
    static NBDIST_INLINE T apply(T a, T b) {
        return (b < a || b != b) ? b : a;
    }
};

struct Max {
    template <class T>
    static NBDIST_INLINE T apply(T a, T b) {
        return (b > a || b != b) ? b : a;
    }
};

struct And {
    template <class T>
    static NBDIST_INLINE T apply(T a, T b) {
        return static_cast<T>(a & b);
    }
};

struct Or {
    template <class T>
    static NBDIST_INLINE T apply(T a, T b) {
        return static_cast<T>(a | b);
    }
};

struct Xor {
    template <class T>
    static NBDIST_INLINE T apply(T a, T b) {
        return static_cast<T>(a ^ b);
    }
};

// How a fold ends: whether the sum is divided, and whether every input, rather than `out`, is the result's
// place.
struct Plain {
    static constexpr bool average = false, everywhere = false;
};
struct Average {
    static constexpr bool average = true, everywhere = false;
};
struct Everywhere {
    static constexpr bool average = false, everywhere = true;
};
struct AverageEverywhere {
    static constexpr bool average = true, everywhere = true;
};

template <class T>
T* place(const void* input, std::size_t begin = 0) {
    return static_cast<T*>(const_cast<void*>(input)) + begin;
}

template <class T, class Operation, class End>
NBDIST_INLINE void fold(void* out, const void* const* in, int inputs, std::size_t count) {
    using E = Element<T>;
    using Stored = typename E::Stored;
    using Accumulator = typename E::Sum;
    constexpr std::size_t tile = 512;  // the sums stay in the first-level cache
    Stored* to = End::everywhere ? place<Stored>(in[0]) : static_cast<Stored*>(out);
    [[maybe_unused]] const Accumulator divisor = static_cast<Accumulator>(inputs);
    auto finish = [=](Accumulator sum) NBDIST_INLINE_LAMBDA {
        if constexpr (End::average)
            return E::store(sum / divisor);
        else
            return E::store(sum);
    };
    if (inputs == 2) {
        // Both streams at once, and no sums laid down between: memory alone decides the speed.
        const Stored* a = static_cast<const Stored*>(in[0]);
        const Stored* b = static_cast<const Stored*>(in[1]);
        [[maybe_unused]] Stored* too = place<Stored>(in[1]);
#pragma GCC ivdep
        for (std::size_t i = 0; i < count; ++i) {
            const Stored result = finish(Operation::apply(E::load(a[i]), E::load(b[i])));
            to[i] = result;
            if constexpr (End::everywhere) too[i] = result;
        }
        return;
    }
    if (inputs == 1) {
        const Stored* only = static_cast<const Stored*>(in[0]);
        for (std::size_t i = 0; i < count; ++i) to[i] = finish(E::load(only[i]));
        return;
    }
    for (std::size_t begin = 0; begin < count; begin += tile) {
        const std::size_t n = count - begin < tile ? count - begin : tile;
        alignas(64) Accumulator sum[tile];
        auto at = [=](int rank) NBDIST_INLINE_LAMBDA { return static_cast<const Stored*>(in[rank]) + begin; };
        const Stored *first = at(0), *second = at(1), *last = at(inputs - 1);
        for (std::size_t i = 0; i < n; ++i) sum[i] = Operation::apply(E::load(first[i]), E::load(second[i]));
        for (int rank = 2; rank < inputs - 1; ++rank) {
            const Stored* next = at(rank);
            for (std::size_t i = 0; i < n; ++i) sum[i] = Operation::apply(sum[i], E::load(next[i]));
            asm volatile("");  // or gcc would jam two ranks into one loop, and not vectorise it
        }
#pragma GCC ivdep
        for (std::size_t i = 0; i < n; ++i)
            to[begin + i] = finish(Operation::apply(sum[i], E::load(last[i])));
        if constexpr (End::everywhere)
            for (int rank = 1; rank < inputs; ++rank)
                std::memcpy(place<Stored>(in[rank], begin), to + begin, n * sizeof(Stored));
    }
}

template <class T>
NBDIST_INLINE void mix(void* mean, int weight, const void* other, int other_weight, std::size_t count) {
    using E = Element<T>;
    using Accumulator = typename E::Sum;
    typename E::Stored* a = static_cast<typename E::Stored*>(mean);
    const typename E::Stored* b = static_cast<const typename E::Stored*>(other);
    const Accumulator of_a = static_cast<Accumulator>(weight), of_b = static_cast<Accumulator>(other_weight);
#pragma GCC ivdep
    for (std::size_t i = 0; i < count; ++i)
        a[i] = E::store((E::load(a[i]) * of_a + E::load(b[i]) * of_b) / (of_a + of_b));
}

// The same body, compiled for each instruction set. Only these functions may use the wide ones.
template <class T, class Operation, class End>
void fold_base(void* out, const void* const* in, int inputs, std::size_t count) {
    fold<T, Operation, End>(out, in, inputs, count);
}

template <class T>
void mix_base(void* mean, int weight, const void* other, int other_weight, std::size_t count) {
    mix<T>(mean, weight, other, other_weight, count);
}

#if defined(__x86_64__)
#define NBDIST_AVX2 __attribute__((target("avx2,bmi2")))
#define NBDIST_AVX512 \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,bmi2,prefer-vector-width=512")))

template <class T, class Operation, class End>
NBDIST_AVX2 void fold_avx2(void* out, const void* const* in, int inputs, std::size_t count) {
    fold<T, Operation, End>(out, in, inputs, count);
}

template <class T, class Operation, class End>
NBDIST_AVX512 void fold_avx512(void* out, const void* const* in, int inputs, std::size_t count) {
    fold<T, Operation, End>(out, in, inputs, count);
}

template <class T>
NBDIST_AVX2 void mix_avx2(void* mean, int weight, const void* other, int other_weight, std::size_t count) {
    mix<T>(mean, weight, other, other_weight, count);
}

template <class T>
NBDIST_AVX512 void mix_avx512(void* mean, int weight, const void* other, int other_weight,
                              std::size_t count) {
    mix<T>(mean, weight, other, other_weight, count);
}
#endif

template <class T, class Operation, class End = Plain>
Fold choose([[maybe_unused]] Width width) {
#if defined(__x86_64__)
    if (width == Width::avx512) return fold_avx512<T, Operation, End>;
    if (width == Width::avx2) return fold_avx2<T, Operation, End>;
#endif
    return fold_base<T, Operation, End>;
}

template <class T>
Mix mixing([[maybe_unused]] Width width) {
#if defined(__x86_64__)
    if (width == Width::avx512) return mix_avx512<T>;
    if (width == Width::avx2) return mix_avx2<T>;
#endif
    return mix_base<T>;
}

template <class T, class End = Plain>
Fold arithmetic(Op op, Width width) {
    switch (op) {
        case Op::sum:
            return choose<T, Sum, End>(width);
        case Op::product:
            return choose<T, Product, End>(width);
        case Op::min:
            return choose<T, Min, End>(width);
        case Op::max:
            return choose<T, Max, End>(width);
        default:
            return nullptr;
    }
}

template <class T>
Fold floating(Op op, Width width) {
    return op == Op::avg ? choose<T, Sum, Average>(width) : arithmetic<T>(op, width);
}

template <class T>
Fold floating_everywhere(Op op, Width width) {
    return op == Op::avg ? choose<T, Sum, AverageEverywhere>(width) : arithmetic<T, Everywhere>(op, width);
}

template <class T>
Fold bitwise(Op op, Width width) {
    switch (op) {
        case Op::band:
            return choose<T, And>(width);
        case Op::bor:
            return choose<T, Or>(width);
        case Op::bxor:
            return choose<T, Xor>(width);
        default:
            return arithmetic<T>(op, width);
    }
}

// Booleans are the bytes 0 and 1: the sum is logical or, the product logical and.
Fold logical(Op op, Width width) {
    switch (op) {
        case Op::sum:
        case Op::max:
        case Op::bor:
            return choose<std::uint8_t, Or>(width);
        case Op::product:
        case Op::min:
        case Op::band:
            return choose<std::uint8_t, And>(width);
        case Op::bxor:
            return choose<std::uint8_t, Xor>(width);
        default:
            return nullptr;
    }
}

}  // namespace

Width widest() {
#if defined(__x86_64__)
    static const Width found = [] {
        if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512vl"))
            return Width::avx512;
        return __builtin_cpu_supports("avx2") ? Width::avx2 : Width::base;
    }();
    return found;
#else
    return Width::base;
#endif
}

Fold fold_for(DType type, Op op, Width width) {
    switch (type) {
        case DType::f16:
            return floating<Float16>(op, width);
        case DType::bf16:
            return floating<BFloat16>(op, width);
        case DType::f32:
            return floating<float>(op, width);
        case DType::f64:
            return floating<double>(op, width);
        case DType::i8:
            return bitwise<std::int8_t>(op, width);
        case DType::u8:
            return bitwise<std::uint8_t>(op, width);
        case DType::i16:
            return bitwise<std::int16_t>(op, width);
        case DType::i32:
            return bitwise<std::int32_t>(op, width);
        case DType::i64:
            return bitwise<std::int64_t>(op, width);
        case DType::boolean:
            return logical(op, width);
        default:
            return pairs_fold_for(type, op);
    }
}

Fold fold_everywhere_for(DType type, Op op, Width width) {
    switch (type) {
        case DType::f16:
            return floating_everywhere<Float16>(op, width);
        case DType::bf16:
            return floating_everywhere<BFloat16>(op, width);
        case DType::f32:
            return floating_everywhere<float>(op, width);
        case DType::f64:
            return floating_everywhere<double>(op, width);
        default:
            return pairs_fold_everywhere_for(type, op);
    }
}

Mix mix_for(DType type, Width width) {
    switch (type) {
        case DType::f16:
            return mixing<Float16>(width);
        case DType::bf16:
            return mixing<BFloat16>(width);
        case DType::f32:
            return mixing<float>(width);
        case DType::f64:
            return mixing<double>(width);
        default:
            return pairs_mix_for(type);
    }
}

Fold fold_for(DType type, Op op) {
    return fold_for(type, op, widest());
}

Fold fold_everywhere_for(DType type, Op op) {
    return fold_everywhere_for(type, op, widest());
}

Mix mix_for(DType type) {
    return mix_for(type, widest());
}

}  // namespace nbdist
