// The element types and reductions the collectives know, and their names as torch spells them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nbdist {

// What follows the booleans is moved and not reduced, complex numbers excepted; `bytes` is any other type.
enum class DType : std::uint8_t {
    f16,
    bf16,
    f32,
    f64,
    i8,
    u8,
    i16,
    i32,
    i64,
    boolean,
    c64,
    c128,
    c32,
    u16,
    u32,
    u64,
    f8_e4m3fn,
    f8_e5m2,
    f8_e4m3fnuz,
    f8_e5m2fnuz,
    f8_e8m0fnu,
    bytes
};

enum class Op : std::uint8_t { none, sum, avg, product, min, max, band, bor, bxor };

constexpr int dtype_count = static_cast<int>(DType::bytes) + 1;
constexpr int op_count = 9;

inline std::size_t size_of(DType type) {
    constexpr std::size_t sizes[dtype_count] = {2,  2, 4, 8, 1, 1, 2, 4, 8, 1, 8,
                                                16, 4, 2, 4, 8, 1, 1, 1, 1, 1, 1};
    return sizes[static_cast<int>(type)];
}

inline const char* name_of(DType type) {
    constexpr const char* names[dtype_count] = {
        "float16",         "bfloat16",        "float32",        "float64", "int8",          "uint8",
        "int16",           "int32",           "int64",          "bool",    "complex64",     "complex128",
        "complex32",       "uint16",          "uint32",         "uint64",  "float8_e4m3fn", "float8_e5m2",
        "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "bytes"};
    return names[static_cast<int>(type)];
}

inline const char* name_of(Op op) {
    constexpr const char* names[op_count] = {"none", "sum",  "avg", "product", "min",
                                             "max",  "band", "bor", "bxor"};
    return names[static_cast<int>(op)];
}

}  // namespace nbdist
