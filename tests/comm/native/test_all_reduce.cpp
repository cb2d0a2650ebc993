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

Bytes all_reduced(Group& group, DType type, Op op, std::size_t count) {
    Bytes data = sample(type, count, group.rank());
    run(group, Kind::all_reduce, [&](World& world) { all_reduce(world, data.data(), count, type, op); });
    const Bytes right = expected(type, op, count, group.size());
    // On one host the order of the sum is that of the ranks.
    CHECK(group.spans_hosts() ? close(type, data, right) : data == right);
    return data;
}

// Every one of these on every rank, which all must get the same bits.
struct Case {
    DType type;
    Op op;
    std::size_t count;
};

void check_all_reduce(const Hosts& hosts, const std::vector<Case>& cases) {
    std::vector<std::vector<Bytes>> results(hosts.size());
    spawn(hosts, [&](Group& group) {
        for (const auto& [type, op, count] : cases)
            results[group.rank()].push_back(all_reduced(group, type, op, count));
    });
    for (const auto& of_rank : results) CHECK(of_rank == results[0]);
}

void check_reduce(Group& group, DType type, Op op, std::size_t count, int root) {
    const Bytes mine = sample(type, count, group.rank());
    Bytes data = mine;
    run(group, Kind::reduce, [&](World& world) { reduce(world, data.data(), count, type, op, root); });
    if (group.rank() == root)
        CHECK(close(type, data, expected(type, op, count, group.size())));
    else
        CHECK(data == mine);
}

}  // namespace

TEST(every_size_sums) {
    for (const Hosts& hosts : some_hosts()) {
        std::vector<Case> cases;
        for (std::size_t count : border_counts(static_cast<int>(hosts.size()), 4))
            cases.push_back({DType::f32, Op::sum, count});
        check_all_reduce(hosts, cases);
    }
}

TEST(every_type_reduces_with_every_operation_it_has) {
    for (const Hosts& hosts :
         {Hosts{0, 0}, Hosts{0, 0, 0}, Hosts{0, 1, 2}, Hosts{0, 0, 1}, Hosts{0, 0, 1, 1}}) {
        std::vector<Case> cases;
        for (const auto& [type, op] : reductions())
            for (std::size_t count : {std::size_t{5}, 70'000 / size_of(type) + 1})
                cases.push_back({type, op, count});
        check_all_reduce(hosts, cases);
    }
}

TEST(what_is_longer_than_a_chunk_between_hosts_sums) {
    const std::size_t count = (9 << 20) / 4 + 3;
    for (const Hosts& hosts : {Hosts{0, 1}, Hosts{0, 0, 1, 1}, Hosts{0, 0, 1}})
        check_all_reduce(hosts, {{DType::f32, Op::sum, count}, {DType::bf16, Op::avg, count}});
}

TEST(reduce_writes_on_the_root_alone) {
    for (const Hosts& hosts : some_hosts())
        spawn(hosts, [](Group& group) {
            for (int root = 0; root < group.size(); ++root)
                for (std::size_t count : {0, 1, 5000, 70'001, 300'007})
                    check_reduce(group, DType::bf16, Op::avg, count, root);
        });
}

TEST(many_in_a_row_keep_their_order) {
    for (const Hosts& hosts : {one_host(3), Hosts{0, 0, 1}})
        spawn(hosts, [](Group& group) {
            for (std::size_t i = 0; i < 200; ++i)
                all_reduced(group, DType::i32, Op::sum, i % 3 == 0 ? 70'000 : i % 7);
        });
}

TEST(no_rank_sends_more_than_it_must) {
    // 2(N-1)/N of the bytes a rank; all ranks are this process.
    constexpr std::size_t count = 1 << 20;
    for (const Hosts& hosts : {one_host(4), Hosts{0, 1, 2}}) {
        const std::uint64_t before = bytes_moved();
        check_all_reduce(hosts, {{DType::i32, Op::sum, count / 3 * 3}});
        const std::uint64_t least = 2 * (hosts.size() - 1) * (count / 3 * 3) * 4;
        const std::uint64_t moved = bytes_moved() - before;
        CHECK(moved >= least);
        CHECK(moved < least + 10'000);  // to say what is about to be done
    }
}
