#include "samples.h"

#include <cmath>
#include <cstdint>
#include <cstring>

#include "fold.h"
#include "half.h"

namespace nbdist::test {

namespace {

std::uint64_t scramble(std::uint64_t x) {
    x = (x ^ (x >> 31)) * 0x7fb5d329728ea185u;
    x = (x ^ (x >> 27)) * 0x81dadef4bc2dd44du;
    return x ^ (x >> 33);
}

template <class T>
T get(const Bytes& bytes, std::size_t i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    return value;
}

template <class T>
void put(Bytes& bytes, std::size_t i, T value) {
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
}

template <class T>
T combine(Op op, T a, T b) {
    switch (op) {
        case Op::sum:
        case Op::avg:
            return a + b;
        case Op::product:
            return a * b;
        case Op::min:
            return b < a ? b : a;
        default:
            return b > a ? b : a;
    }
}

// Integers as the two's complement numbers they are: the low bits of a 64-bit result are those of a narrow
// one.
std::uint64_t combine_bits(Op op, std::int64_t a, std::int64_t b) {
    const std::uint64_t x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
    switch (op) {
        case Op::band:
            return x & y;
        case Op::bor:
            return x | y;
        case Op::bxor:
            return x ^ y;
        case Op::min:
        case Op::max:
            return static_cast<std::uint64_t>(combine(op, a, b));
        default:
            return combine(op, x, y);
    }
}

template <class T>
void fold_integers(Op op, const std::vector<Bytes>& inputs, Bytes& out) {
    for (std::size_t i = 0; i < out.size() / sizeof(T); ++i) {
        T sum = get<T>(inputs[0], i);
        for (std::size_t rank = 1; rank < inputs.size(); ++rank)
            sum = static_cast<T>(combine_bits(op, sum, get<T>(inputs[rank], i)));
        put(out, i, sum);
    }
}

template <class T, class Wide, class Load, class Store>
void fold_floats(Op op, const std::vector<Bytes>& inputs, Bytes& out, Load load, Store store) {
    for (std::size_t i = 0; i < out.size() / sizeof(T); ++i) {
        Wide sum = load(get<T>(inputs[0], i));
        for (std::size_t rank = 1; rank < inputs.size(); ++rank)
            sum = combine(op, sum, static_cast<Wide>(load(get<T>(inputs[rank], i))));
        if (op == Op::avg) sum /= static_cast<Wide>(inputs.size());
        put(out, i, store(sum));
    }
}

// The byte is 0 or 1, so that sum and or, product and and are one.
void fold_booleans(Op op, const std::vector<Bytes>& inputs, Bytes& out) {
    for (std::size_t i = 0; i < out.size(); ++i) {
        int ones = 0;
        for (const Bytes& input : inputs) ones += get<std::uint8_t>(input, i);
        const bool all = ones == static_cast<int>(inputs.size());
        const bool result = op == Op::bxor                                         ? ones % 2 == 1
                            : op == Op::product || op == Op::min || op == Op::band ? all
                                                                                   : ones > 0;
        put(out, i, static_cast<std::uint8_t>(result));
    }
}

}  // namespace

Bytes sample(DType type, std::size_t count, int rank) {
    Bytes bytes(count * size_of(type));
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t bits = scramble(i * 1000003 + static_cast<std::uint64_t>(rank) + 1);
        const double small = static_cast<double>(static_cast<std::int64_t>(bits)) * 0x1p-62;  // -2 to 2
        switch (type) {
            case DType::f16:
                put(bytes, i, narrow_float16(static_cast<float>(small)).bits);
                break;
            case DType::bf16:
                put(bytes, i, narrow_bfloat16(static_cast<float>(small)).bits);
                break;
            case DType::f32:
                put(bytes, i, static_cast<float>(small));
                break;
            case DType::f64:
                put(bytes, i, small);
                break;
            case DType::c64:
                put(bytes, 2 * i, static_cast<float>(small));
                put(bytes, 2 * i + 1, static_cast<float>(-small / 3));
                break;
            case DType::c128:
                put(bytes, 2 * i, small);
                put(bytes, 2 * i + 1, -small / 3);
                break;
            case DType::boolean:
                put(bytes, i, static_cast<std::uint8_t>(bits & 1));
                break;
            default:
                std::memcpy(bytes.data() + i * size_of(type), &bits, size_of(type));
        }
    }
    return bytes;
}

Bytes expected(DType type, Op op, const std::vector<Bytes>& inputs) {
    Bytes out(inputs[0].size());
    auto same = [](auto value) { return value; };
    switch (type) {
        case DType::f16:
            fold_floats<Float16, float>(
                op, inputs, out, [](Float16 x) { return widen(x); },
                [](float x) { return narrow_float16(x); });
            break;
        case DType::bf16:
            fold_floats<BFloat16, float>(
                op, inputs, out, [](BFloat16 x) { return widen(x); },
                [](float x) { return narrow_bfloat16(x); });
            break;
        case DType::f32:
        case DType::c64:
            fold_floats<float, float>(op, inputs, out, same, same);
            break;
        case DType::f64:
        case DType::c128:
            fold_floats<double, double>(op, inputs, out, same, same);
            break;
        case DType::i8:
            fold_integers<std::int8_t>(op, inputs, out);
            break;
        case DType::u8:
            fold_integers<std::uint8_t>(op, inputs, out);
            break;
        case DType::i16:
            fold_integers<std::int16_t>(op, inputs, out);
            break;
        case DType::i32:
            fold_integers<std::int32_t>(op, inputs, out);
            break;
        case DType::i64:
            fold_integers<std::int64_t>(op, inputs, out);
            break;
        default:
            fold_booleans(op, inputs, out);
    }
    return out;
}

bool close(DType type, const Bytes& left, const Bytes& right) {
    const bool is_pair = type == DType::c64 || type == DType::c128;
    auto all = [&](auto value_at, double tolerance) {
        const std::size_t count = left.size() / size_of(type) * (is_pair ? 2 : 1);
        for (std::size_t i = 0; i < count; ++i) {
            const double a = value_at(left, i), b = value_at(right, i);
            if (!(std::abs(a - b) <= tolerance * (1 + std::abs(b)))) return false;
        }
        return left.size() == right.size();
    };
    switch (type) {
        case DType::f16:
            return all([](const Bytes& bytes, std::size_t i) { return widen(get<Float16>(bytes, i)); },
                       0x1p-8);
        case DType::bf16:
            return all([](const Bytes& bytes, std::size_t i) { return widen(get<BFloat16>(bytes, i)); },
                       0x1p-5);
        case DType::f32:
        case DType::c64:
            return all([](const Bytes& bytes, std::size_t i) { return get<float>(bytes, i); }, 1e-5);
        case DType::f64:
        case DType::c128:
            return all([](const Bytes& bytes, std::size_t i) { return get<double>(bytes, i); }, 1e-13);
        default:
            return left == right;
    }
}

Bytes expected(DType type, Op op, std::size_t count, int size) {
    std::vector<Bytes> inputs;
    for (int rank = 0; rank < size; ++rank) inputs.push_back(sample(type, count, rank));
    return expected(type, op, inputs);
}

std::vector<std::pair<DType, Op>> reductions() {
    std::vector<std::pair<DType, Op>> pairs;
    for (int type = 0; type < dtype_count; ++type)
        for (int op = 0; op < op_count; ++op)
            if (fold_for(static_cast<DType>(type), static_cast<Op>(op)) != nullptr)
                pairs.emplace_back(static_cast<DType>(type), static_cast<Op>(op));
    return pairs;
}

}  // namespace nbdist::test
