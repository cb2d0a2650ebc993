#include <cmath>
#include <limits>

#include "check.h"
#include "half.h"

using namespace nbdist;

namespace {

// What 16 bits mean, by the definition.
double meaning(std::uint32_t bits, int exponent_bits, int fraction_bits) {
    const std::uint32_t most = (1u << exponent_bits) - 1;
    const std::uint32_t exponent = bits >> fraction_bits & most;
    const std::uint32_t fraction = bits & ((1u << fraction_bits) - 1);
    const double sign = bits >> 15 ? -1 : 1;
    const int bias = (1 << (exponent_bits - 1)) - 1;
    if (exponent == most)
        return fraction ? std::numeric_limits<double>::quiet_NaN()
                        : sign * std::numeric_limits<double>::infinity();
    if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
    return sign *
           std::ldexp(fraction + (1u << fraction_bits), static_cast<int>(exponent) - bias - fraction_bits);
}

bool same(double a, double b) {
    return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

// Between two neighbours: the middle goes to the even one, anything beside it to the nearer.
template <class Narrow>
void check_rounding(Narrow narrow, double low, double high, std::uint16_t below, std::uint16_t above) {
    const float middle = static_cast<float>((low + high) / 2);
    CHECK_EQUAL(narrow(middle), below % 2 == 0 ? below : above);
    CHECK_EQUAL(narrow(std::nextafter(middle, -std::numeric_limits<float>::infinity())),
                low < high ? below : above);
    CHECK_EQUAL(narrow(std::nextafter(middle, std::numeric_limits<float>::infinity())),
                low < high ? above : below);
}

}  // namespace

TEST(all_halves_widen_to_what_they_mean_and_come_back) {
    for (std::uint32_t i = 0; i < 65536; ++i) {
        const Float16 half{static_cast<std::uint16_t>(i)};
        const float wide = widen(half);
        CHECK(same(wide, meaning(i, 5, 10)));
        const std::uint16_t back = narrow_float16(wide).bits;
        if (std::isnan(wide))
            CHECK(std::isnan(widen(Float16{back})));
        else
            CHECK_EQUAL(back, i);
    }
}

TEST(all_bfloats_widen_to_what_they_mean_and_come_back) {
    for (std::uint32_t i = 0; i < 65536; ++i) {
        const float wide = widen(BFloat16{static_cast<std::uint16_t>(i)});
        CHECK(same(wide, meaning(i, 8, 7)));
        const std::uint16_t back = narrow_bfloat16(wide).bits;
        if (std::isnan(wide))
            CHECK(std::isnan(widen(BFloat16{back})));
        else
            CHECK_EQUAL(back, i);
    }
}

TEST(between_two_halves_the_nearest_wins_and_the_even_one_a_tie) {
    auto narrow = [](float value) { return narrow_float16(value).bits; };
    for (std::uint16_t sign : {0, 0x8000})
        for (std::uint16_t i = 0; i < 0x7bff; ++i) {
            const std::uint16_t below = sign | i, above = sign | (i + 1);
            check_rounding(narrow, meaning(below, 5, 10), meaning(above, 5, 10), below, above);
        }
    CHECK_EQUAL(narrow(65519.996f), 0x7bff);
    CHECK_EQUAL(narrow(65520.0f), 0x7c00);  // the middle between the largest half and 65536
    CHECK_EQUAL(narrow(std::numeric_limits<float>::max()), 0x7c00);
    CHECK_EQUAL(narrow(-std::numeric_limits<float>::infinity()), 0xfc00);
    CHECK_EQUAL(narrow(0x1p-26f), 0);
}

TEST(between_two_bfloats_the_nearest_wins_and_the_even_one_a_tie) {
    auto narrow = [](float value) { return narrow_bfloat16(value).bits; };
    for (std::uint16_t sign : {0, 0x8000})
        for (std::uint16_t i = 0; i < 0x7f7f; ++i) {
            const std::uint16_t below = sign | i, above = sign | (i + 1);
            check_rounding(narrow, meaning(below, 8, 7), meaning(above, 8, 7), below, above);
        }
    CHECK_EQUAL(narrow(std::numeric_limits<float>::max()), 0x7f80);
}
