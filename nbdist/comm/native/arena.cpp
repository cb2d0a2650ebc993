#include "arena.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <system_error>

#include "collectives.h"
#include "fold.h"

namespace nbdist {

namespace {

struct Header {
    char magic[8];
    Nonce nonce;
};

constexpr char magic[8] = {'n', 'b', 'd', 'i', 's', 't', 'a', 'r'};

[[noreturn]] void fail(int error, const std::string& what) {
    throw std::system_error(error, std::generic_category(), what);
}

std::byte* map(int fd, std::size_t bytes) {
    void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) fail(errno, "mapping an arena");
    return static_cast<std::byte*>(base);
}

// Take the pages now: one that can't be had when it is first touched would end the process. The system
// would rather end processes than refuse, so look first at what there is.
void reserve(int fd, std::size_t bytes) {
    const std::string what = "reserving " + std::to_string(bytes >> 20) + " MiB of shared memory";
    if (bytes > available_memory()) fail(ENOMEM, what);
    int error;
    do {
        error = posix_fallocate(fd, 0, static_cast<off_t>(bytes));
    } while (error == EINTR);
    if (error != 0) fail(error, what);
}

// The arenas of this process, for a child to make its own. It may touch gradients, so it must find them;
// and it may write to them, so they must not be its parent's.
struct Mapped {
    std::byte* base;
    std::size_t bytes;
    int fd;
};
std::vector<Mapped> mapped;
std::mutex mapped_lock;

void make_private() {
    for (const Mapped& arena : mapped)
        if (mmap(arena.base, arena.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, arena.fd, 0) ==
            MAP_FAILED)
            munmap(arena.base, arena.bytes);
    mapped.clear();  // its own children inherit them as any memory
    mapped_lock.unlock();
}

[[maybe_unused]] const int registered =
    pthread_atfork([] { mapped_lock.lock(); }, [] { mapped_lock.unlock(); }, make_private);

}  // namespace

Arena::Arena(std::size_t bytes)
    : bytes_(bytes + header_bytes), fd_(memfd_create("nbdist-arena", MFD_CLOEXEC)) {
    if (!fd_) fail(errno, "making an arena");
    reserve(fd_.get(), bytes_);
    address_.pid = getpid();
    address_.fd = fd_.get();
    address_.started = start_time(address_.pid).value_or(0);
    if (getrandom(address_.nonce.data(), address_.nonce.size(), 0) < 0) fail(errno, "drawing a nonce");
    std::lock_guard lock(mapped_lock);  // no child may come between
    base_ = map(fd_.get(), bytes_);
    mapped.push_back({base_, bytes_, fd_.get()});
    Header& header = *reinterpret_cast<Header*>(base_);
    std::memcpy(header.magic, magic, sizeof magic);
    header.nonce = address_.nonce;
}

Arena::~Arena() {
    std::lock_guard lock(mapped_lock);
    std::erase_if(mapped, [this](const Mapped& arena) { return arena.base == base_; });
    munmap(base_, bytes_);
}

Window::Window(std::shared_ptr<Arena> own, const std::vector<Address>& addresses, int rank)
    : own_(std::move(own)), data_(addresses.size()), rank_(rank) {
    const std::size_t bytes = own_->bytes() + Arena::header_bytes;
    try {
        for (std::size_t peer = 0; peer < addresses.size(); ++peer) {
            const Address& address = addresses[peer];
            if (peer == rank_) {
                data_[peer] = own_->data();
                continue;
            }
            const Fd fd = open_file(address);
            if (lseek(fd.get(), 0, SEEK_END) != static_cast<off_t>(bytes))
                throw std::runtime_error("its arena has another size");
            std::byte* base = map(fd.get(), bytes);
            data_[peer] = base + Arena::header_bytes;
            madvise(base, bytes, MADV_DONTFORK);
            const Header& header = *reinterpret_cast<const Header*>(base);
            if (std::memcmp(header.magic, magic, sizeof magic) != 0 || header.nonce != address.nonce)
                throw std::runtime_error("process " + std::to_string(address.pid) +
                                         " has another file there");
        }
    } catch (...) {
        unmap();
        throw;
    }
}

Window::~Window() {
    if (generation_ == generation()) unmap();
}

void Window::unmap() {
    for (std::size_t peer = 0; peer < data_.size(); ++peer)
        if (peer != rank_ && data_[peer] != nullptr)
            munmap(data_[peer] - Arena::header_bytes, bytes() + Arena::header_bytes);
}

Signature signature_of(const Stretch& stretch, Op op) {
    // The place is told as a root would be; below -1 no root is printed.
    const auto place = static_cast<std::int32_t>(stretch.offset / 64);
    return {
        .kind = Kind::all_reduce, .op = op, .type = stretch.type, .root = -2 - place, .count = stretch.count};
}

void all_reduce(World& world, const Window* window, const Stretch& stretch, Op op,
                const std::vector<int>& among) {
    constexpr std::size_t line = 64;
    Operation operation(world, signature_of(stretch, op));
    const std::uint64_t block = world.take(1);
    world.agree();  // and so everybody's data is there
    const std::size_t mine = std::find(among.begin(), among.end(), world.rank()) - among.begin();
    if (mine < among.size() && among.size() > 1) {
        // A part of whole lines for each, so that no two ranks write into one.
        const std::size_t lines = (stretch.bytes() + line - 1) / line;
        const std::size_t begin = lines * mine / among.size() * line;
        const std::size_t end = std::min(lines * (mine + 1) / among.size() * line, stretch.bytes());
        std::vector<const void*> places;
        for (int peer : among) places.push_back(window->at(peer, stretch.offset + begin));
        fold_everywhere_for(stretch.type, op)(nullptr, places.data(), static_cast<int>(places.size()),
                                              (end - begin) / size_of(stretch.type));
        count_moved((end - begin) * (among.size() - 1));
    }
    world.publish(&Progress::finished, block);
    if (mine < among.size())
        for (int peer : among)
            if (peer != world.rank()) world.await(peer, &Progress::finished, block);
}

}  // namespace nbdist
