#include <cmath>
#include <cstring>
#include <limits>

#include "check.h"
#include "fold.h"
#include "samples.h"

using namespace nbdist;
using namespace nbdist::test;

namespace {

std::vector<Width> widths() {
    std::vector<Width> all;
    for (int width = 0; width <= static_cast<int>(widest()); ++width)
        all.push_back(static_cast<Width>(width));
    return all;
}

Bytes fold(DType type, Op op, Width width, const std::vector<Bytes>& inputs, int in_place = -1) {
    std::vector<Bytes> kept = inputs;
    std::vector<const void*> pointers;
    for (const Bytes& input : kept) pointers.push_back(input.data());
    Bytes result(inputs[0].size());
    void* out = in_place < 0 ? result.data() : kept[in_place].data();
    fold_for(type, op, width)(out, pointers.data(), static_cast<int>(inputs.size()),
                              result.size() / size_of(type));
    return in_place < 0 ? result : kept[in_place];
}

template <class T>
Bytes bytes_of(std::vector<T> values) {
    Bytes bytes(values.size() * sizeof(T));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

template <class T>
std::vector<T> values_of(const Bytes& bytes) {
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
}

}  // namespace

TEST(every_instruction_set_gives_the_bits_of_a_plain_loop) {
    for (const auto& [type, op] : reductions())
        for (int inputs : {1, 2, 3, 4, 8})
            for (std::size_t count : {0, 1, 7, 63, 64, 65, 511, 512, 513, 1500}) {
                std::vector<Bytes> samples;
                for (int rank = 0; rank < inputs; ++rank) samples.push_back(sample(type, count, rank));
                const Bytes right = expected(type, op, samples);
                for (Width width : widths()) {
                    CHECK(fold(type, op, width, samples) == right);
                    for (int place = 0; place < inputs; ++place)
                        CHECK(fold(type, op, width, samples, place) == right);
                }
            }
}

TEST(not_a_number_stays_one_whichever_rank_has_it) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const Bytes with = bytes_of(std::vector<float>(33, nan)),
                without = bytes_of(std::vector<float>(33, 1.0f));
    for (Op op : {Op::sum, Op::avg, Op::product, Op::min, Op::max})
        for (Width width : widths())
            for (const auto& inputs : {std::vector{with, without}, {without, with}, {without, with, without}})
                for (float value : values_of<float>(fold(DType::f32, op, width, inputs)))
                    CHECK(std::isnan(value));
}

TEST(sixteen_bit_sums_round_once) {
    // 2048 + 1 is no half, and neither is what one would get by rounding in between.
    const Bytes big = bytes_of(std::vector<std::uint16_t>(40, 0x6800));
    const Bytes one = bytes_of(std::vector<std::uint16_t>(40, 0x3c00));
    for (Width width : widths())
        for (std::uint16_t bits : values_of<std::uint16_t>(fold(DType::f16, Op::sum, width, {big, one, one})))
            CHECK_EQUAL(bits, 0x6801);  // 2050
}

TEST(a_mix_is_the_mean_of_all_ranks_it_stands_for) {
    for (Width width : widths())
        for (std::size_t count : {0, 1, 63, 1500}) {
            // Three ranks had 60000, one -4000: their sum is no half.
            Bytes mean = bytes_of(std::vector<std::uint16_t>(count, 0x7b53));
            const Bytes other = bytes_of(std::vector<std::uint16_t>(count, 0xebd0));
            mix_for(DType::f16, width)(mean.data(), 3, other.data(), 1, count);
            for (std::uint16_t bits : values_of<std::uint16_t>(mean)) CHECK_EQUAL(bits, 0x795f);  // 44000
            std::vector<double> wide(count, 7), more(count, 1);
            mix_for(DType::f64, width)(wide.data(), 1, more.data(), 2, count);
            for (double value : wide) CHECK(value == 3);
        }
    CHECK(mix_for(DType::i32) == nullptr);
}

TEST(integers_wrap_round) {
    const Bytes most = bytes_of(std::vector<std::int64_t>(9, std::numeric_limits<std::int64_t>::max()));
    const Bytes one = bytes_of(std::vector<std::int64_t>(9, 1));
    for (Width width : widths())
        for (std::int64_t value : values_of<std::int64_t>(fold(DType::i64, Op::sum, width, {most, one})))
            CHECK(value == std::numeric_limits<std::int64_t>::min());
}

TEST(what_has_no_meaning_has_no_fold) {
    for (DType type : {DType::f16, DType::bf16, DType::f32, DType::f64})
        for (Op op : {Op::band, Op::bor, Op::bxor}) CHECK(fold_for(type, op) == nullptr);
    for (DType type : {DType::i8, DType::i64, DType::boolean}) CHECK(fold_for(type, Op::avg) == nullptr);
    for (int op = 0; op < op_count; ++op) CHECK(fold_for(DType::bytes, static_cast<Op>(op)) == nullptr);
}
