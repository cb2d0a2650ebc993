#include "lookout.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace nbdist {

namespace {

// What goes over a control connection: a kind, then one of the three.
enum class Frame : std::uint64_t { presence, obituary, beat };

struct PresenceFrame {
    Frame kind = Frame::presence;
    std::int64_t leaving, left, skipped;
    std::uint64_t issued, posted, closed;
};

struct ObituaryFrame {
    Frame kind = Frame::obituary;
    std::int32_t rank;
    std::uint32_t mismatch;
    char reason[reason_bytes];
};

struct BeatFrame {
    Frame kind = Frame::beat;
    std::uint64_t felt;  // beats of the other side's that were heard
};

// A beat is unacknowledged for so long only if it was sent again three times and more, so a lost packet is no
// lost host; and with the wait for the first beat that is lost it is less than 3 s.
constexpr int silence_ms = 1800;
constexpr std::chrono::milliseconds between_beats{500};
// A process that is stopped hears none, and its socket shall not fill up: a full one counts as silence. Then
// the kernel's own questions (link.h) are enough.
constexpr std::uint64_t unheard_beats = 20;

// What an error of a control connection says. One other than these is the kernel's: it asked, and nobody
// answered.
Loss loss_by(int error) {
    return error == 0 || error == ECONNRESET || error == EPIPE ? Loss::died : Loss::silent;
}

constexpr std::uint64_t ending = ~std::uint64_t{0}, data = ending - 1;

}  // namespace

Lookout::Lookout(const Members& members, std::vector<Link>& links) : members_(members) {
    if (links.empty()) return;
    epoll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
    nudge_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    ending_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!epoll_ || !nudge_ || !ending_)
        throw std::system_error(errno, std::generic_category(), "watching over the other hosts");
    auto add = [this](int fd, std::uint64_t number) {
        epoll_event event{.events = EPOLLIN, .data = {.u64 = number}};
        if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
            throw std::system_error(errno, std::generic_category(), "watching a link");
    };
    add(ending_.get(), ending);
    for (Link& link : links) {
        link.control.keep_alive();
        link.control.limit_silence(silence_ms);
        lines_.push_back({.peer = link.peer, .socket = std::move(link.control), .heard = {}, .waiting = {}});
        add(lines_.back().socket.get(), lines_.size() - 1);
    }
    thread_ = std::thread(&Lookout::run, this);
}

void Lookout::tell_presence() {
    std::lock_guard lock(mutex_);
    for (Line& line : lines_) {
        const Presence& own = members_.own().presence;
        PresenceFrame frame;
        frame.leaving = own.leaving.load(std::memory_order_acquire);
        frame.left = own.left.load(std::memory_order_acquire);
        frame.skipped = own.skipped.load(std::memory_order_acquire);
        frame.closed = own.closed.load(std::memory_order_acquire);
        // Read after the points above: they are what makes these final.
        frame.issued = own.issued.load(std::memory_order_acquire);
        frame.posted = members_.cursor(members_.rank(), line.peer).posted.load(std::memory_order_acquire);
        tell(line, &frame, sizeof frame);
    }
}

void Lookout::tell_obituary() {
    std::lock_guard lock(mutex_);
    const Obituary& obituary = members_.obituary();
    ObituaryFrame frame;
    frame.rank = obituary.rank;
    frame.mismatch = obituary.mismatch;
    std::memcpy(frame.reason, obituary.reason, reason_bytes);
    for (Line& line : lines_) tell(line, &frame, sizeof frame);
    nudge();
}

// The caller holds the lock. Never waits: what finds no room goes when there is some.
void Lookout::tell(Line& line, const void* frame, std::size_t bytes) {
    if (line.loss != Loss::none) return;
    const std::byte* first = static_cast<const std::byte*>(frame);
    line.waiting.insert(line.waiting.end(), first, first + bytes);
    flush(line);
}

void Lookout::flush(Line& line) {
    const bool waited = !line.waiting.empty();
    while (!line.waiting.empty()) {
        const ssize_t sent = send(line.socket.get(), line.waiting.data(), line.waiting.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
            // The kernel tells the cause only once, so keep it for `listen`, which first hears what had come.
            line.loss = loss_by(errno);
            line.waiting.clear();
            break;
        }
        if (sent <= 0) break;
        line.waiting.erase(line.waiting.begin(), line.waiting.begin() + sent);
    }
    if (!waited) return;
    // Fails when the line is lost already, and then nothing is to be watched.
    epoll_event event{.events = line.waiting.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT,
                      .data = {.u64 = static_cast<std::uint64_t>(&line - lines_.data())}};
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, line.socket.get(), &event);
}

void Lookout::add(int fd) {
    epoll_event event{.events = EPOLLONESHOT, .data = {.u64 = data}};
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
        throw std::system_error(errno, std::generic_category(), "watching a link");
}

void Lookout::ring_when_ready(int fd, std::uint32_t events) {
    epoll_event event{.events = events | EPOLLONESHOT, .data = {.u64 = data}};
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void Lookout::nudge() const {
    eventfd_write(nudge_.get(), 1);
}

void Lookout::calm() const {
    eventfd_t ignored;
    eventfd_read(nudge_.get(), &ignored);
}

void Lookout::listen(Line& line) {
    std::byte buffer[4096];
    while (true) {
        const ssize_t got = recv(line.socket.get(), buffer, sizeof buffer, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
        if (got <= 0) {
            lose(line, loss_by(got == 0 ? 0 : errno));
            break;
        }
        line.heard.insert(line.heard.end(), buffer, buffer + got);
        obey(line);
    }
}

void Lookout::obey(Line& line) {
    std::size_t begin = 0;
    auto next = [&](auto& frame) {
        if (line.heard.size() - begin < sizeof frame) return false;
        std::memcpy(&frame, line.heard.data() + begin, sizeof frame);
        begin += sizeof frame;
        return true;
    };
    while (line.heard.size() - begin >= sizeof(Frame)) {
        Frame kind;
        std::memcpy(&kind, line.heard.data() + begin, sizeof kind);
        if (kind == Frame::presence) {
            PresenceFrame frame;
            if (!next(frame)) break;
            Presence& mirror = members_.control(line.peer).presence;
            mirror.issued.store(frame.issued, std::memory_order_release);
            members_.cursor(line.peer, members_.rank()).posted.store(frame.posted, std::memory_order_release);
            mirror.skipped.store(frame.skipped, std::memory_order_release);
            mirror.leaving.store(frame.leaving, std::memory_order_release);
            mirror.left.store(frame.left, std::memory_order_release);
            mirror.closed.store(static_cast<std::uint32_t>(frame.closed), std::memory_order_release);
        } else if (kind == Frame::beat) {
            BeatFrame frame;
            if (!next(frame)) break;
            ++line.felt;
            line.answered = frame.felt;
            continue;  // nobody waits for that
        } else {
            ObituaryFrame frame;
            if (!next(frame)) break;
            frame.reason[reason_bytes - 1] = '\0';
            members_.bury(frame.rank, frame.reason, frame.mismatch != 0);
        }
        ring_own();
    }
    line.heard.erase(line.heard.begin(), line.heard.begin() + begin);
}

void Lookout::lose(Line& line, Loss how) {
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, line.socket.get(), nullptr);
    {
        std::lock_guard lock(mutex_);
        if (line.loss == Loss::none) line.loss = how;
        how = line.loss;
        line.waiting.clear();
    }
    Presence& mirror = members_.control(line.peer).presence;
    // Whoever said farewell has left, not died.
    if (mirror.closed.load(std::memory_order_acquire) == 0)
        mirror.lost.store(static_cast<std::uint32_t>(how), std::memory_order_release);
    ring_own();
}

void Lookout::ring_own() const {
    members_.own().progress_bell.ring();
    members_.own().mail_bell.ring();
    nudge();
}

void Lookout::beat() {
    std::lock_guard lock(mutex_);
    for (Line& line : lines_) {
        if (line.beats - line.answered >= unheard_beats) continue;
        ++line.beats;
        BeatFrame frame;
        frame.felt = line.felt;
        tell(line, &frame, sizeof frame);
    }
}

void Lookout::run() {
    epoll_event events[16];
    auto next = std::chrono::steady_clock::now() + between_beats;
    while (true) {
        const auto rest =
            std::chrono::ceil<std::chrono::milliseconds>(next - std::chrono::steady_clock::now());
        const int number = epoll_wait(epoll_.get(), events, 16, std::max(0, static_cast<int>(rest.count())));
        if (const auto now = std::chrono::steady_clock::now(); now >= next) {
            beat();
            next = now + between_beats;
        }
        for (int i = 0; i < number; ++i) {
            const std::uint64_t what = events[i].data.u64;
            if (what == ending) return;
            if (what == data) {
                members_.own().mail_bell.ring();
                continue;
            }
            Line& line = lines_[what];
            if ((events[i].events & EPOLLOUT) != 0) {
                std::lock_guard lock(mutex_);
                flush(line);
            }
            if ((events[i].events & ~EPOLLOUT) != 0) listen(line);
        }
    }
}

void Lookout::close() {
    if (!thread_.joinable()) return;
    eventfd_write(ending_.get(), 1);
    thread_.join();
    // The farewell is in the kernel's hands; what it cannot deliver, the end of the connection tells.
    std::lock_guard lock(mutex_);
    for (Line& line : lines_) {
        // A socket closed with something unread in it resets the connection, and the farewell may be lost.
        std::byte unread[4096];
        while (recv(line.socket.get(), unread, sizeof unread, 0) > 0) {
        }
    }
    lines_.clear();
}

}  // namespace nbdist
