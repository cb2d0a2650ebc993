// Messages over a socket. Each is an envelope and its bytes; they go straight from the sender's memory and
// into the receiver's. What nobody asks for stays in the kernel, where it holds the sender back.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "channel.h"
#include "link.h"

namespace nbdist {

class Wire : public Channel {
  public:
    explicit Wire(Socket socket);

    bool send(const Envelope& envelope, const std::byte* data, std::uint64_t& done, bool held) override;
    const Envelope* head() override;
    bool receive(std::byte* place, std::uint64_t total, std::uint64_t& done) override;
    void end() override;

    int fd() const { return socket_.get(); }
    // Whether nothing will come any more.
    bool ended() const { return ended_; }
    // Whether it has ended or takes nothing any more, and since when.
    bool failed() const { return ended_ || deaf_; }
    std::chrono::steady_clock::time_point failed_at() const { return failed_at_; }

    // Whether the other host's kernel has everything that was sent.
    bool acknowledged() const;

  private:
    std::size_t read(std::byte* place, std::size_t bytes);
    void fail(bool& how);

    Socket socket_;
    bool ended_ = false, deaf_ = false;
    std::chrono::steady_clock::time_point failed_at_;

    bool begun_ = false;              // the outgoing message's envelope is on its way
    std::vector<std::byte> waiting_;  // envelopes and small messages, to go with what follows
    std::size_t gone_ = 0;            // bytes of that

    std::unique_ptr<std::byte[]> read_;  // what came in one gulp with what was asked for
    std::size_t begin_ = 0, end_ = 0;
    bool arriving_ = false;
    Envelope head_{};
};

}  // namespace nbdist
