#include "bell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace nbdist {

void Bell::wake() {
    syscall(SYS_futex, &pulse, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Bell::block(std::uint32_t seen, std::chrono::milliseconds slice) {
    timespec limit{};
    limit.tv_sec = slice.count() / 1000;
    limit.tv_nsec = (slice.count() % 1000) * 1'000'000;
    syscall(SYS_futex, &pulse, FUTEX_WAIT, seen, &limit, nullptr, 0);
}

}  // namespace nbdist
