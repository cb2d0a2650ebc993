// The ranks of a group as this rank sees them: their mapped segments and their processes.
#pragma once

#include <string>
#include <vector>

#include "segment.h"

namespace nbdist {

class Members {
  public:
    // Map every segment and make the own one ready. Peers may still be on their way: touch nothing of
    // theirs beyond the control page before their `presence.ready` is set.
    Members(const Endpoint& own, const std::vector<Address>& addresses, int rank,
            const std::vector<Digest>& digests);

    int rank() const { return rank_; }
    int size() const { return static_cast<int>(segments_.size()); }
    Control& control(int rank) const { return segments_[rank].control(); }
    Control& own() const { return control(rank_); }
    const Address& address(int rank) const { return addresses_[rank]; }

    // Whether a peer that is ready was formed with the same secret, generation, rank and size.
    bool recognises(int peer) const;

    std::byte* slot(int rank, std::uint64_t block) const {
        return segments_[rank].at(layout_.slots + block % slot_count * slot_bytes);
    }
    MailCursor& cursor(int from, int to) const {
        return *reinterpret_cast<MailCursor*>(segments_[from].at(layout_.cursors + to * sizeof(MailCursor)));
    }
    std::byte* mail(int from, int to, std::uint64_t piece) const {
        return segments_[from].at(layout_.mail + (to * mail_count + piece % mail_count) * mail_bytes);
    }

    // The ranks whose processes have died.
    std::vector<int> find_dead() const;

    // Ring every bell of the group.
    void ring_all() const;

  private:
    int rank_;
    Layout layout_;
    std::vector<Address> addresses_;
    std::vector<Digest> digests_;
    std::vector<Segment> segments_;
    std::vector<Fd> watched_;
};

}  // namespace nbdist
