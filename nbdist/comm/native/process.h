// Other processes of this host: who they are, and whether they live.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <utility>

namespace nbdist {

// A file descriptor that closes itself.
class Fd {
  public:
    Fd() = default;
    explicit Fd(int fd) : fd_(fd) {}
    Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Fd& operator=(Fd&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~Fd();
    int get() const { return fd_; }
    explicit operator bool() const { return fd_ >= 0; }
    // Let go of it without closing it.
    int release() { return std::exchange(fd_, -1); }

  private:
    int fd_ = -1;
};

// Close a descriptor in whatever children this process forks, until it is closed here: a connection must
// end with its rank, not with the last of the rank's children. `close_kept` closes it here, at no moment
// between a fork and what the child does about it.
void keep_from_children(int fd);
void close_kept(int fd);

// When a process started, in clock ticks since boot; nothing when there is no such process. With the
// process id it names one process for ever.
std::optional<std::uint64_t> start_time(pid_t pid);

// A descriptor that polls readable once the process has died; empty when it is dead already.
Fd watch(pid_t pid, std::uint64_t started);

// Whether this is the thread on which Python runs its signal handlers.
bool on_main_thread();

// How many cores this process may use.
int usable_cores();

// How many bytes of memory this host can still give; as many as can be said where it does not tell.
std::size_t available_memory();

// How many forks lie between this process and the one that loaded us. What was made at another
// generation belongs to a forebear: its threads don't exist here, and its segments aren't mapped.
int generation();

}  // namespace nbdist
