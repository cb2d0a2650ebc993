#include "link.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <system_error>

namespace nbdist {

namespace {

// Tests connect ranks by sockets that are not TCP, which know no such option; that is no error.
void set(int fd, int level, int option, int value) {
    setsockopt(fd, level, option, &value, sizeof value);
}

}  // namespace

Socket::Socket(int fd) : fd_(fd) {
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
        throw std::system_error(errno, std::generic_category(), "taking a link over");
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    keep_from_children(fd);
}

Socket::~Socket() {
    const int fd = fd_.release();
    // A child has closed it already, and the number may be something else's there.
    if (fd >= 0 && generation_ == generation()) close_kept(fd);
}

void Socket::keep_alive() const {
    set(get(), SOL_SOCKET, SO_KEEPALIVE, 1);
    set(get(), IPPROTO_TCP, TCP_KEEPIDLE, 1);
    set(get(), IPPROTO_TCP, TCP_KEEPINTVL, 1);
    set(get(), IPPROTO_TCP, TCP_KEEPCNT, 3);
}

void Socket::limit_silence(int milliseconds) const {
    set(get(), IPPROTO_TCP, TCP_USER_TIMEOUT, milliseconds);
}

}  // namespace nbdist
