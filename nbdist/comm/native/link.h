// The two connections to a rank of another host. Whoever makes them has authenticated both.
#pragma once

#include "process.h"

namespace nbdist {

// A connected socket that doesn't block, and that no child of this process keeps open.
class Socket {
  public:
    Socket() = default;
    explicit Socket(int fd);
    ~Socket();
    Socket(Socket&& other) noexcept = default;
    Socket& operator=(Socket&& other) noexcept = default;
    int get() const { return fd_.get(); }

    // Have the kernel ask the other host whether it is there, every second while nothing moves.
    void keep_alive() const;
    // Give up what the other host does not acknowledge for so long. For a connection that its process
    // always reads: a full receiver counts as silence, too.
    void limit_silence(int milliseconds) const;

  private:
    Fd fd_;
    int generation_ = generation();
};

struct Link {
    int peer = -1;
    Socket control;  // presence and obituaries; a thread of its own reads it
    Socket data;     // messages; whoever waits for one reads it
};

}  // namespace nbdist
