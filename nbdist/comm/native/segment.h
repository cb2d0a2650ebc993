// A rank's shared memory: a file without a name, mapped by every process of the group.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "control.h"
#include "process.h"

namespace nbdist {

using Nonce = std::array<std::uint8_t, 16>;
using Digest = std::array<std::uint8_t, digest_bytes>;

// What tells another process how to map a segment. It travels as printable text.
struct Address {
    pid_t pid = 0;
    int fd = -1;
    std::uint64_t started = 0;
    Nonce nonce{};

    std::string text() const;
    static Address parse(const std::string& text);  // throws std::invalid_argument
};

// A mapping of a segment; unmaps itself.
class Segment {
  public:
    Segment(int fd, std::size_t bytes);
    // Memory of this process alone, zeroed, for what is known of a rank of another host.
    static Segment mirror(std::size_t bytes);
    ~Segment();
    Segment(Segment&& other) noexcept;
    Segment(const Segment&) = delete;

    Control& control() const { return *reinterpret_cast<Control*>(base_); }
    std::byte* at(std::size_t offset) const { return base_ + offset; }

  private:
    Segment(void* base, std::size_t bytes);

    std::byte* base_;
    std::size_t bytes_;
    int generation_;
};

// This rank's own segment, opened before it is known who else will be in the group. It lives in no
// file system: when the last process that maps it is gone, however it went, nothing is left.
class Endpoint {
  public:
    Endpoint();
    ~Endpoint();
    Endpoint(const Endpoint&) = delete;
    const Address& address() const { return address_; }

    // Tell whoever still waits for this rank to form or go on with a group that it won't.
    void close();

    // End the group that is formed from this endpoint: at once, or as soon as there is one. Any thread may.
    void abort(const std::string& reason);
    // Say how; a null one takes that back, and returns when it is not running.
    using End = std::function<void(const std::string& reason)>;
    void ends_by(End end);

    // Give the segment the size a group of that many ranks needs, and map it.
    Segment map(int size) const;

  private:
    Fd fd_;
    Segment page_;  // the control page alone
    Address address_;
    int generation_ = generation();
    std::mutex ending_;
    std::optional<std::string> reason_;
    End end_;
};

// Open the file behind an address; throws std::system_error when it is not there (any more).
Fd open_file(const Address& address);

// Map a peer's segment; throws std::runtime_error, saying why, when it is not there (any more).
Segment map_peer(const Address& address, int size);

}  // namespace nbdist
