// Linked in the place of mmap and munmap: a second mapping of the same file is the first one's. So the ranks,
// which are threads here, meet at one address, and ThreadSanitizer sees every store and load they share.
#include <sys/mman.h>
#include <sys/stat.h>

#include <map>
#include <mutex>
#include <utility>

extern "C" {
void* __real_mmap(void* address, size_t bytes, int protection, int flags, int fd, off_t offset);
int __real_munmap(void* address, size_t bytes);
}

namespace {

using Key = std::pair<ino_t, size_t>;

struct Mapping {
    void* base;
    int users;
};

std::mutex mutex;
std::map<Key, Mapping> mappings;

}  // namespace

extern "C" void* __wrap_mmap(void* address, size_t bytes, int protection, int flags, int fd, off_t offset) {
    struct stat file{};
    if ((flags & MAP_SHARED) == 0 || fd < 0 || fstat(fd, &file) != 0)
        return __real_mmap(address, bytes, protection, flags, fd, offset);
    std::lock_guard lock(mutex);
    Mapping& mapping = mappings[{file.st_ino, bytes}];
    if (mapping.users == 0) mapping.base = __real_mmap(address, bytes, protection, flags, fd, offset);
    if (mapping.base != MAP_FAILED) ++mapping.users;
    return mapping.base;
}

extern "C" int __wrap_munmap(void* address, size_t bytes) {
    std::lock_guard lock(mutex);
    for (auto it = mappings.begin(); it != mappings.end(); ++it) {
        if (it->second.base != address || it->first.second != bytes) continue;
        if (--it->second.users > 0) return 0;
        mappings.erase(it);
        break;
    }
    return __real_munmap(address, bytes);
}
