#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "check.h"
#include "process.h"

using namespace nbdist;

namespace {

// A child that does nothing until it is told to end.
class Child {
  public:
    Child() {
        int ends[2];
        if (pipe(ends) != 0) throw std::runtime_error("pipe");
        pid_ = fork();
        if (pid_ == 0) {
            close(ends[1]);
            char byte;
            const bool told = read(ends[0], &byte, 1) >= 0;
            _exit(told && generation() == 1 ? 0 : 1);
        }
        close(ends[0]);
        line_ = ends[1];
    }
    ~Child() { end(); }
    pid_t pid() const { return pid_; }
    int end() {
        if (line_ < 0) return -1;
        close(line_);
        line_ = -1;
        int status = -1;
        waitpid(pid_, &status, 0);
        return status;
    }

  private:
    pid_t pid_;
    int line_;
};

bool readable(const Fd& fd, int milliseconds) {
    pollfd polled{fd.get(), POLLIN, 0};
    return poll(&polled, 1, milliseconds) == 1;
}

}  // namespace

TEST(a_death_is_seen) {
    Child child;
    const auto started = start_time(child.pid());
    CHECK(started.has_value());
    const Fd watched = watch(child.pid(), *started);
    CHECK(static_cast<bool>(watched));
    CHECK(!readable(watched, 0));
    CHECK_EQUAL(child.end(), 0);
    CHECK(readable(watched, 10'000));
    CHECK(!start_time(child.pid()).has_value());
    CHECK(!watch(child.pid(), *started));
}

TEST(another_process_under_the_same_number_is_another_one) {
    Child child;
    CHECK(!watch(child.pid(), *start_time(child.pid()) + 1));
}

TEST(nobody_has_no_start_time) {
    CHECK(!start_time(0x3fffffff).has_value());
    CHECK(!start_time(-1).has_value());
}

TEST(only_the_first_thread_is_the_main_one) {
    CHECK(on_main_thread());
    bool other = true;
    std::thread([&] { other = on_main_thread(); }).join();
    CHECK(!other);
}

TEST(a_descriptor_closes_itself_once) {
    int number;
    {
        Fd first(dup(0));
        number = first.get();
        Fd second(std::move(first));
        CHECK(!first);
        CHECK_EQUAL(second.get(), number);
        CHECK(fcntl(number, F_GETFD) >= 0);
    }
    CHECK(fcntl(number, F_GETFD) < 0);
    CHECK(usable_cores() >= 1);
    CHECK_EQUAL(generation(), 0);
}
