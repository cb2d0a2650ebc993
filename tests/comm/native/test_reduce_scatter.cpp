#include "ranks.h"
#include "samples.h"

using namespace nbdist;
using namespace nbdist::test;

namespace {

// Rank `from` has another input for each rank.
Bytes input_for(DType type, std::size_t count, int from, int to) {
    return sample(type, count, 100 * from + to);
}

void check_reduce_scatter(Group& group, DType type, Op op, std::size_t count) {
    std::vector<Bytes> inputs, parts;
    std::vector<const void*> pointers;
    for (int rank = 0; rank < group.size(); ++rank) {
        inputs.push_back(input_for(type, count, group.rank(), rank));
        parts.push_back(input_for(type, count, rank, group.rank()));
    }
    const std::vector<Bytes> before = inputs;
    for (const Bytes& input : inputs) pointers.push_back(input.data());
    Bytes out(count * size_of(type));
    run(group, Kind::reduce_scatter,
        [&](World& world) { reduce_scatter(world, pointers.data(), out.data(), count, type, op); });
    const Bytes right = expected(type, op, parts);
    CHECK(group.spans_hosts() ? close(type, out, right) : out == right);
    CHECK(inputs == before);
}

}  // namespace

TEST(each_rank_gets_its_part_of_the_sum) {
    for (const Hosts& hosts : some_hosts())
        spawn(hosts, [](Group& group) {
            const std::size_t part = part_bytes(group.size()) / 4;
            for (std::size_t count : {std::size_t{0}, std::size_t{1}, part - 1, part, part + 1, 4 * part,
                                      4 * part + 1, 9 * part + 13})
                check_reduce_scatter(group, DType::f32, Op::sum, count);
        });
}

TEST(every_type_and_operation) {
    for (const Hosts& hosts : {one_host(3), Hosts{0, 1}, Hosts{0, 0, 1, 1}})
        spawn(hosts, [](Group& group) {
            for (const auto& [type, op] : reductions()) check_reduce_scatter(group, type, op, 777);
        });
}
