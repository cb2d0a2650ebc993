#include <algorithm>
#include <cstring>
#include <vector>

#include "check.h"
#include "copy.h"
#include "stores.h"

using namespace nbdist;

TEST(both_kinds_of_stores_copy_every_byte_and_no_other) {
    constexpr std::size_t room = 100'000;
    std::vector<std::byte> from(room + 64), to(room + 256);
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + i / 256);
    std::byte* aligned = to.data() + 64 - reinterpret_cast<std::uintptr_t>(to.data()) % 64;
    for (bool streaming : {false, true})
        for (std::size_t offset : {0, 1, 17})
            for (std::size_t bytes : {0, 1, 63, 64, 65, 16383, 16384, 16385, 99'999}) {
                std::fill(to.begin(), to.end(), std::byte{0xee});
                copy_to_slot(aligned, from.data() + offset, bytes, streaming);
                CHECK(bytes == 0 || std::memcmp(aligned, from.data() + offset, bytes) == 0);
                CHECK(aligned[-1] == std::byte{0xee});
                CHECK(aligned[bytes] == std::byte{0xee});
            }
}

TEST(the_kind_that_was_quicker_is_kept_and_both_are_tried_again) {
    Stores stores;
    int streamed = 0;
    for (int i = 0; i < 6; ++i) {
        const bool kind = stores.streaming();
        streamed += kind;
        stores.note(kind, kind ? 3.0 : 1.0, 1e6);
    }
    CHECK_EQUAL(streamed, 3);
    for (int i = 6; i < 128; ++i) CHECK(!stores.streaming());
    for (int i = 0; i < 6; ++i) {
        const bool kind = stores.streaming();
        stores.note(kind, kind ? 1.0 : 3.0, 1e6);
    }
    CHECK(stores.streaming());
    CHECK(stores.best());
}
