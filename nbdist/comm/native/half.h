// The 16-bit floats, widened to float and rounded back to nearest even, a tile at a time. Written so that
// the compiler's vectoriser takes them: no branches, no tables.
#pragma once

#include <bit>
#include <cstdint>

namespace nbdist {

#define NBDIST_INLINE inline __attribute__((always_inline))
#define NBDIST_INLINE_LAMBDA __attribute__((always_inline))

struct BFloat16 {
    std::uint16_t bits;
};

struct Float16 {
    std::uint16_t bits;
};

NBDIST_INLINE float widen(BFloat16 value) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

NBDIST_INLINE BFloat16 narrow_bfloat16(float value) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const std::uint32_t quiet = (bits >> 16) | 0x40u;  // rounding could turn a NaN into infinity
    const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    return {static_cast<std::uint16_t>(nan ? quiet : rounded)};
}

NBDIST_INLINE float widen(Float16 value) {
    const std::uint32_t half = value.bits;
    const std::uint32_t sign = (half & 0x8000u) << 16;
    const std::uint32_t magnitude = (half & 0x7fffu) << 13;
    const std::uint32_t normal = magnitude + 0x38000000u;
    // The last bit of 1/2 as a float is worth 2^-24, as that of a subnormal half is: no float here is
    // subnormal itself, which would take processors a hundred times as long.
    const std::uint32_t subnormal =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(0x3f000000u + (half & 0x7fffu)) - 0.5f);
    const std::uint32_t special = magnitude | 0x7f800000u;
    const std::uint32_t exponent = half & 0x7c00u;
    const std::uint32_t finite = exponent == 0 ? subnormal : normal;
    return std::bit_cast<float>(sign | (exponent == 0x7c00u ? special : finite));
}

NBDIST_INLINE Float16 narrow_float16(float value) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (bits >> 16) & 0x8000u;
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    // Normal results: move the exponent by 112 and round to even in the 13 bits dropped. An overflow
    // carries into the exponent and becomes infinity by itself, up to the largest finite inputs below.
    const std::uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    // Subnormal results: adding 1/2 lets the float unit round at half's smallest step, 2^-24.
    const std::uint32_t subnormal =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
    std::uint32_t half = magnitude < 0x38800000u ? subnormal : normal;
    half = magnitude >= 0x47800000u ? 0x7c00u : half;  // 65536 and more, infinity
    half = magnitude > 0x7f800000u ? 0x7e00u : half;   // NaN
    return {static_cast<std::uint16_t>(sign | half)};
}

}  // namespace nbdist
