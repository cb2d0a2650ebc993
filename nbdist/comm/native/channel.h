// What carries messages between this rank and one peer, both ways, a part at a time.
#pragma once

#include "members.h"

namespace nbdist {

class Channel {
  public:
    virtual ~Channel() = default;

    // Move what there is room for now of a message, from `done` on. True once the peer can read all of it
    // without us. A message that is held may stay here until the next one goes.
    virtual bool send(const Envelope& envelope, const std::byte* data, std::uint64_t& done, bool held) = 0;

    // The message at the head, if it has begun to come; null else.
    virtual const Envelope* head() = 0;

    // Move what has come of the message at the head to `place`, which has room for the `total` that the head
    // told, from `done` on. True once it is whole.
    virtual bool receive(std::byte* place, std::uint64_t total, std::uint64_t& done) = 0;

    // Tell the peer that nothing more will come from here.
    virtual void end() {}
};

// In shared memory: two pieces a direction, in the sender's segment.
class Pieces : public Channel {
  public:
    Pieces(const Members& members, int peer) : members_(members), peer_(peer) {}
    bool send(const Envelope& envelope, const std::byte* data, std::uint64_t& done, bool held) override;
    const Envelope* head() override;
    bool receive(std::byte* place, std::uint64_t total, std::uint64_t& done) override;

  private:
    const Members& members_;
    int peer_;
};

}  // namespace nbdist
