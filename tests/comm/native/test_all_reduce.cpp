#include "ranks.h"
#include "samples.h"

using namespace nbdist;
using namespace nbdist::test;

namespace {

// Counts where the way changes: nothing, whole by every rank, one block, the first slot used again.
std::vector<std::size_t> border_counts(int size, std::size_t width) {
    const std::size_t flat = flat_limit(size) / width;
    const std::size_t block = part_bytes(size) / width * size;
    return {0,         1,     3,         flat - 1,  flat,          flat + 1,
            block - 1, block, block + 1, 4 * block, 4 * block + 1, 9 * block + 13};
}

void check_all_reduce(Group& group, DType type, Op op, std::size_t count) {
    Bytes data = sample(type, count, group.rank());
    run(group, Kind::all_reduce, [&](World& world) { all_reduce(world, data.data(), count, type, op); });
    CHECK(data == expected(type, op, count, group.size()));
}

void check_reduce(Group& group, DType type, Op op, std::size_t count, int root) {
    const Bytes mine = sample(type, count, group.rank());
    Bytes data = mine;
    run(group, Kind::reduce, [&](World& world) { reduce(world, data.data(), count, type, op, root); });
    CHECK(data == (group.rank() == root ? expected(type, op, count, group.size()) : mine));
}

}  // namespace

TEST(every_size_sums) {
    for (int size : {1, 2, 3, 4, 7})
        spawn(size, [](Group& group) {
            for (std::size_t count : border_counts(group.size(), 4))
                check_all_reduce(group, DType::f32, Op::sum, count);
        });
}

TEST(every_type_reduces_with_every_operation_it_has) {
    for (int size : {2, 3})
        spawn(size, [](Group& group) {
            for (const auto& [type, op] : reductions())
                for (std::size_t count : {std::size_t{5}, flat_limit(group.size()) / size_of(type) + 1})
                    check_all_reduce(group, type, op, count);
        });
}

TEST(reduce_writes_on_the_root_alone) {
    for (int size : {1, 2, 3})
        spawn(size, [](Group& group) {
            for (int root = 0; root < group.size(); ++root)
                for (std::size_t count : border_counts(group.size(), 2))
                    check_reduce(group, DType::bf16, Op::avg, count, root);
        });
}

TEST(many_in_a_row_keep_their_order) {
    spawn(3, [](Group& group) {
        for (std::size_t i = 0; i < 300; ++i)
            check_all_reduce(group, DType::i32, Op::sum, i % 3 == 0 ? 70'000 : i % 7);
    });
}

TEST(no_rank_sends_more_than_it_must) {
    constexpr std::size_t count = 1 << 20;
    const std::uint64_t before = bytes_moved();
    spawn(4, [](Group& group) { check_all_reduce(group, DType::f32, Op::sum, count); });
    // 2(N-1)/N of the bytes a rank; all ranks are this process.
    CHECK_EQUAL(bytes_moved() - before, 2 * 3 * count * 4);
}
