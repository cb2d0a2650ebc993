#include <algorithm>

#include "arena.h"
#include "ranks.h"
#include "samples.h"

using namespace nbdist;
using namespace nbdist::test;

namespace {

constexpr std::size_t arena_bytes = 4 << 20;

// What every rank sees of all the arenas.
struct Arenas {
    explicit Arenas(int size) {
        for (int rank = 0; rank < size; ++rank) {
            own.push_back(std::make_shared<Arena>(arena_bytes));
            addresses.push_back(own.back()->address());
        }
    }
    std::vector<std::shared_ptr<Arena>> own;
    std::vector<Address> addresses;
};

bool floats(DType type) {
    return type == DType::f16 || type == DType::bf16 || type == DType::f32 || type == DType::f64;
}

void check(Group& group, const Window& window, const Stretch& stretch, Op op, const std::vector<int>& among) {
    const Bytes mine = sample(stretch.type, stretch.count, group.rank());
    std::byte* place = window.at(group.rank(), stretch.offset);
    std::copy(mine.begin(), mine.end(), place);
    run(group, Kind::all_reduce, [&](World& world) { all_reduce(world, &window, stretch, op, among); });
    const bool takes_part = std::find(among.begin(), among.end(), group.rank()) != among.end();
    std::vector<Bytes> inputs;
    for (int rank : among) inputs.push_back(sample(stretch.type, stretch.count, rank));
    CHECK(Bytes(place, place + mine.size()) == (takes_part ? expected(stretch.type, op, inputs) : mine));
}

}  // namespace

TEST(a_stretch_is_reduced_where_it_lies) {
    for (int size : {1, 2, 3, 4}) {
        const Arenas arenas(size);
        spawn(size, [&](Group& group) {
            const Window window(arenas.own[group.rank()], arenas.addresses, group.rank());
            std::vector<int> all;
            for (int rank = 0; rank < group.size(); ++rank) all.push_back(rank);
            for (std::size_t count : {0, 1, 3, 1000, 65'537, 300'001})
                for (std::size_t offset : {0, 64, 4096})
                    check(group, window, {offset, count, DType::f32}, Op::avg, all);
            for (const auto& [type, op] : reductions())
                if (floats(type)) check(group, window, {128, 1001, type}, op, all);
        });
    }
}

TEST(only_those_among_take_part) {
    const Arenas arenas(3);
    spawn(3, [&](Group& group) {
        const Window window(arenas.own[group.rank()], arenas.addresses, group.rank());
        for (const std::vector<int>& among : {std::vector{0, 2}, std::vector{1}, std::vector{1, 2}})
            check(group, window, {64, 30'001, DType::f32}, Op::avg, among);
    });
}

TEST(an_arena_of_another_size_or_none_is_refused) {
    const Arenas arenas(2);
    Address gone = arenas.addresses[1];
    gone.nonce[0] ^= 1;
    CHECK_THROWS(std::runtime_error, Window(arenas.own[0], {arenas.addresses[0], gone}, 0), "");
    const Arena other(2 * arena_bytes);
    CHECK_THROWS(std::runtime_error, Window(arenas.own[0], {arenas.addresses[0], other.address()}, 0), "");
}
