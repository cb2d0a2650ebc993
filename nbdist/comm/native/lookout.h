// The thread that hears the ranks of other hosts while this rank computes, sends or sleeps.
//
// On the control connections ranks tell where they are in a cell, that they leave, and why a group has
// ended. The lookout writes it into their mirrors, so that whoever waits looks at a peer of another host
// as at one of its own; a connection that ends without a farewell is a rank that has died. It also beats:
// what it sends twice a second the other host's kernel has to acknowledge, or is known to be gone.
#pragma once

#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "link.h"
#include "members.h"

namespace nbdist {

class Lookout {
  public:
    // `links` loses its control sockets. There is a thread only if there are links.
    Lookout(const Members& members, std::vector<Link>& links);
    ~Lookout() { close(); }
    Lookout(const Lookout&) = delete;

    // Tell every other host's ranks where this rank is, or what the obituary says.
    void tell_presence();
    void tell_obituary();

    // Ring our own mail bell as soon as one of these sockets is ready (EPOLLIN, EPOLLOUT): for a thread
    // that must sleep on the bell.
    void add(int fd);
    void ring_when_ready(int fd, std::uint32_t events);

    // A descriptor to poll beside sockets; it becomes readable when something else is to be looked at.
    int nudged() const { return nudge_.get(); }
    void nudge() const;
    void calm() const;

    void close();

  private:
    struct Line {
        int peer;
        Socket socket;
        std::vector<std::byte> heard;    // not yet a whole frame
        std::vector<std::byte> waiting;  // what the socket had no room for
        Loss loss = Loss::none;          // nothing goes to that rank any more
        std::uint64_t beats = 0;         // sent
        std::uint64_t answered = 0;      // of these, heard by the peer as far as we know
        std::uint64_t felt = 0;          // of the peer's, heard here
    };

    void tell(Line& line, const void* frame, std::size_t bytes);
    void flush(Line& line);
    void beat();
    void listen(Line& line);
    void obey(Line& line);
    void lose(Line& line, Loss how);
    void ring_own() const;
    void run();

    const Members& members_;
    std::mutex mutex_;
    std::vector<Line> lines_;
    Fd epoll_, nudge_, ending_;
    std::thread thread_;
};

}  // namespace nbdist
