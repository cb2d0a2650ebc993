#include "wire.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace nbdist {

namespace {

constexpr std::size_t small = 4096;  // cheaper to copy than to send for itself
constexpr std::size_t gulp = 16 * 1024;

bool would_block() {
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

}  // namespace

Wire::Wire(Socket socket) : socket_(std::move(socket)), read_(new std::byte[gulp]) {
    socket_.keep_alive();
}

bool Wire::send(const Envelope& envelope, const std::byte* data, std::uint64_t& done, bool held) {
    if (!begun_) {
        begun_ = true;
        auto append = [this](const void* from, std::size_t bytes) {
            const std::byte* first = static_cast<const std::byte*>(from);
            waiting_.insert(waiting_.end(), first, first + bytes);
        };
        append(&envelope, sizeof envelope);
        if (envelope.total <= small) {
            append(data, envelope.total);
            done = envelope.total;
        }
    }
    while (!(held && done == envelope.total) && (!waiting_.empty() || done < envelope.total)) {
        iovec parts[2] = {{waiting_.data() + gone_, waiting_.size() - gone_},
                          {const_cast<std::byte*>(data) + done, envelope.total - done}};
        msghdr message{};
        message.msg_iov = parts;
        message.msg_iovlen = 2;
        const ssize_t sent = sendmsg(fd(), &message, MSG_NOSIGNAL);
        if (sent < 0) {
            if (!would_block()) fail(deaf_);  // what the peer sent before may still be read
            return false;
        }
        const std::size_t first = std::min<std::size_t>(sent, parts[0].iov_len);
        gone_ += first;
        done += sent - first;
        if (gone_ < waiting_.size()) continue;
        waiting_.clear();
        gone_ = 0;
    }
    begun_ = false;
    return true;
}

const Envelope* Wire::head() {
    if (arriving_) return &head_;
    if (end_ - begin_ < sizeof head_) {
        std::memmove(read_.get(), read_.get() + begin_, end_ - begin_);
        end_ -= begin_;
        begin_ = 0;
        read(nullptr, 0);
        if (end_ - begin_ < sizeof head_) return nullptr;
    }
    std::memcpy(&head_, read_.get() + begin_, sizeof head_);
    begin_ += sizeof head_;
    arriving_ = true;
    return &head_;
}

bool Wire::receive(std::byte* place, std::uint64_t total, std::uint64_t& done) {
    while (done < total) {
        const std::size_t rest = total - done;
        if (begin_ < end_) {
            const std::size_t ready = std::min(end_ - begin_, rest);
            std::memcpy(place + done, read_.get() + begin_, ready);
            begin_ += ready;
            done += ready;
            continue;
        }
        begin_ = end_ = 0;
        const std::size_t got = read(place + done, rest);
        if (got == 0) return false;
        done += got;
    }
    arriving_ = false;
    return true;
}

void Wire::end() {
    shutdown(fd(), SHUT_WR);
}

// Read to a place and, what comes beyond it, into our own buffer. Returns the bytes at the place.
std::size_t Wire::read(std::byte* place, std::size_t bytes) {
    if (ended_) return 0;
    iovec parts[2] = {{place, bytes}, {read_.get() + end_, gulp - end_}};
    const ssize_t got = readv(fd(), parts, 2);
    if (got == 0 || (got < 0 && !would_block())) fail(ended_);
    if (got <= 0) return 0;
    const std::size_t first = std::min<std::size_t>(got, bytes);
    end_ += got - first;
    return first;
}

void Wire::fail(bool& how) {
    if (!failed()) failed_at_ = std::chrono::steady_clock::now();
    how = true;
}

bool Wire::acknowledged() const {
    int unacknowledged = 0;
    return failed() || ioctl(fd(), SIOCOUTQ, &unacknowledged) != 0 || unacknowledged == 0;
}

}  // namespace nbdist
