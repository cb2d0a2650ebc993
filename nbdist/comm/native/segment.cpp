#include "segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include "errors.h"

namespace nbdist {

namespace {

constexpr char magic[8] = {'n', 'b', 'd', 'i', 's', 't', 's', 'h'};
constexpr std::uint32_t version = 3;

[[noreturn]] void fail(const std::string& what) {
    throw std::system_error(errno, std::generic_category(), what);
}

// Says as much of the text as can be printed: it may be anything.
std::invalid_argument no_endpoint(const std::string& text) {
    std::string shown = text.substr(0, 80);
    std::replace_if(shown.begin(), shown.end(), [](unsigned char c) { return c < ' ' || c > '~'; }, '?');
    return std::invalid_argument("'" + shown + "' is no endpoint; pass what open_endpoint() returned");
}

template <class Number>
Number number(const std::string& text, const std::string& whole) {
    Number value{};
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) throw no_endpoint(whole);
    return value;
}

}  // namespace

std::string Address::text() const {
    std::string hex;
    for (std::uint8_t byte : nonce) {
        hex += "0123456789abcdef"[byte >> 4];
        hex += "0123456789abcdef"[byte & 15];
    }
    return "shm:" + std::to_string(pid) + ":" + std::to_string(fd) + ":" + std::to_string(started) + ":" +
           hex;
}

Address Address::parse(const std::string& text) {
    std::vector<std::string> parts(1);
    for (char c : text) {
        if (c == ':')
            parts.emplace_back();
        else
            parts.back() += c;
    }
    if (parts.size() != 5 || parts[0] != "shm" || parts[4].size() != 32) throw no_endpoint(text);
    Address address;
    address.pid = number<pid_t>(parts[1], text);
    address.fd = number<int>(parts[2], text);
    address.started = number<std::uint64_t>(parts[3], text);
    for (std::size_t i = 0; i < address.nonce.size(); ++i) {
        const char* digits = parts[4].data() + 2 * i;
        auto [end, error] = std::from_chars(digits, digits + 2, address.nonce[i], 16);
        if (error != std::errc() || end != digits + 2) throw no_endpoint(text);
    }
    return address;
}

Segment::Segment(int fd, std::size_t bytes)
    : Segment(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0), bytes) {}

Segment Segment::mirror(std::size_t bytes) {
    return Segment(
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
        bytes);
}

Segment::Segment(void* base, std::size_t bytes) : bytes_(bytes), generation_(generation()) {
    if (base == MAP_FAILED) fail("mapping a segment of shared memory");
    base_ = static_cast<std::byte*>(base);
    // A forked child (a DataLoader's worker) is no rank.
    madvise(base, bytes, MADV_DONTFORK);
}

Segment::~Segment() {
    // In a forked child something else may have been mapped at that address since.
    if (base_ != nullptr && generation_ == generation()) munmap(base_, bytes_);
}

Segment::Segment(Segment&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), bytes_(other.bytes_), generation_(other.generation_) {}

namespace {

Fd make_file() {
    Fd fd(memfd_create("nbdist", MFD_CLOEXEC));
    if (!fd) fail("making a segment of shared memory");
    if (ftruncate(fd.get(), sizeof(Control)) != 0) fail("sizing a segment of shared memory");
    return fd;
}

}  // namespace

Endpoint::Endpoint() : fd_(make_file()), page_(fd_.get(), sizeof(Control)) {
    address_.pid = getpid();
    address_.fd = fd_.get();
    address_.started = start_time(address_.pid).value_or(0);
    if (getrandom(address_.nonce.data(), address_.nonce.size(), 0) < 0) fail("drawing a nonce");

    // The file begins as zeros, which is what every counter, bell and state begins with.
    Control& control = page_.control();
    std::memcpy(control.magic, magic, sizeof magic);
    control.version = version;
    std::memcpy(control.nonce, address_.nonce.data(), address_.nonce.size());
}

Endpoint::~Endpoint() {
    close();
}

void Endpoint::close() {
    if (generation_ != generation()) return;
    Control& control = page_.control();
    control.presence.closed.store(1, std::memory_order_release);
    control.progress_bell.ring();
}

void Endpoint::abort(const std::string& reason) {
    std::lock_guard lock(ending_);
    if (reason_) return;
    reason_ = reason;
    if (end_) end_(reason);
}

void Endpoint::ends_by(End end) {
    std::lock_guard lock(ending_);
    end_ = std::move(end);
    if (end_ && reason_) end_(*reason_);
}

Segment Endpoint::map(int size) const {
    if (generation_ != generation()) throw Forked();
    const std::size_t total = Layout(size).total;
    if (ftruncate(fd_.get(), static_cast<off_t>(total)) != 0) fail("sizing a segment of shared memory");
    return Segment(fd_.get(), total);
}

Fd open_file(const Address& address) {
    const std::string path = "/proc/" + std::to_string(address.pid) + "/fd/" + std::to_string(address.fd);
    Fd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!fd) fail("opening shared memory of process " + std::to_string(address.pid));
    return fd;
}

Segment map_peer(const Address& address, int size) {
    const Fd fd = open_file(address);
    if (lseek(fd.get(), 0, SEEK_END) < static_cast<off_t>(sizeof(Control)))
        throw std::runtime_error("process " + std::to_string(address.pid) + " has another file there");
    // The peer may not have grown its file yet. Mapping beyond the end is allowed; `ready` says when
    // touching it is.
    Segment segment(fd.get(), Layout(size).total);
    const Control& control = segment.control();
    if (std::memcmp(control.magic, magic, sizeof magic) != 0 || control.version != version ||
        std::memcmp(control.nonce, address.nonce.data(), address.nonce.size()) != 0)
        throw std::runtime_error("process " + std::to_string(address.pid) + " has another file there");
    return segment;
}

}  // namespace nbdist
