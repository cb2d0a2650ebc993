#include "process.h"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

namespace nbdist {

namespace {

int forks = 0;

// Never destroyed: threads may still fork while the process ends.
struct Kept {
    std::mutex mutex;
    std::vector<int> fds;
};
Kept& kept = *new Kept;

[[maybe_unused]] const int registered = pthread_atfork([] { kept.mutex.lock(); }, [] { kept.mutex.unlock(); },
                                                       [] {
                                                           ++forks;
                                                           for (int fd : kept.fds) close(fd);
                                                           kept.fds.clear();
                                                           kept.mutex.unlock();
                                                       });

}  // namespace

Fd::~Fd() {
    if (fd_ >= 0) close(fd_);
}

void keep_from_children(int fd) {
    std::lock_guard lock(kept.mutex);
    kept.fds.push_back(fd);
}

void close_kept(int fd) {
    std::lock_guard lock(kept.mutex);
    std::erase(kept.fds, fd);
    close(fd);
}

std::optional<std::uint64_t> start_time(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string line;
    if (!std::getline(file, line)) return std::nullopt;
    // The second field, the program's name, may hold anything: count from the last parenthesis.
    std::istringstream rest(line.substr(line.rfind(')') + 2));
    std::string field;
    for (int i = 3; i <= 22; ++i) rest >> field;
    return std::stoull(field);
}

Fd watch(pid_t pid, std::uint64_t started) {
    Fd fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    // Looked up after the descriptor is held: a process id used anew shows another start.
    if (!fd || start_time(pid) != started) return Fd();
    return fd;
}

bool on_main_thread() {
    return getpid() == static_cast<pid_t>(syscall(SYS_gettid));
}

int usable_cores() {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    return std::max(1, CPU_COUNT(&set));
}

std::size_t available_memory() {
    std::ifstream file("/proc/meminfo");
    std::string name;
    std::size_t kib = 0;
    while (file >> name >> kib) {
        if (name == "MemAvailable:") return kib * 1024;
        file.ignore(80, '\n');
    }
    return std::numeric_limits<std::size_t>::max();
}

int generation() {
    return forks;
}

}  // namespace nbdist
