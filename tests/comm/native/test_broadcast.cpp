#include "ranks.h"
#include "samples.h"

using namespace nbdist;
using namespace nbdist::test;

TEST(every_rank_gets_what_each_root_has) {
    for (const Hosts& hosts : some_hosts())
        spawn(hosts, [](Group& group) {
            for (std::size_t count : {std::size_t{0}, std::size_t{1}, slot_bytes - 1, slot_bytes,
                                      slot_bytes + 1, 4 * slot_bytes + 1, 9 * slot_bytes + 13})
                for (int root : {0, group.size() - 1}) {
                    Bytes data = sample(DType::u8, count, group.rank());
                    run(group, Kind::broadcast,
                        [&](World& world) { broadcast(world, data.data(), count, DType::u8, root); });
                    CHECK(data == sample(DType::u8, count, root));
                }
        });
}

TEST(every_type_is_copied_as_it_is) {
    spawn(2, [](Group& group) {
        for (int i = 0; i < dtype_count; ++i) {
            const DType type = static_cast<DType>(i);
            Bytes data = sample(type, 1001, group.rank());
            run(group, Kind::broadcast, [&](World& world) { broadcast(world, data.data(), 1001, type, 1); });
            CHECK(data == sample(type, 1001, 1));
        }
    });
}

TEST(a_root_may_be_well_ahead_of_its_readers) {
    spawn(3, [](Group& group) {
        for (int i = 0; i < 100; ++i) {
            Bytes data = sample(DType::u8, 3 * slot_bytes / 2, group.rank() + i);
            run(group, Kind::broadcast,
                [&](World& world) { broadcast(world, data.data(), data.size(), DType::u8, i % 3); });
            CHECK(data == sample(DType::u8, data.size(), i % 3 + i));
        }
    });
}
