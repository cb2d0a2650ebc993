// The ranks of a group as this rank sees them: segments and processes on its own host, and on the others
// what they tell of themselves.
#pragma once

#include <string>
#include <vector>

#include "segment.h"

namespace nbdist {

class Members {
  public:
    // Map every segment of this host and make the own one ready. Peers may still be on their way: touch
    // nothing of theirs beyond the control page before their `presence.ready` is set. `hosts` has the
    // number of every rank's host, and is empty where there is but one.
    Members(const Endpoint& own, const std::vector<Address>& addresses, int rank,
            const std::vector<Digest>& digests, const std::vector<int>& hosts);

    int rank() const { return rank_; }
    int size() const { return static_cast<int>(segments_.size()); }
    // Of a rank on another host this is a mirror, private to this process: the lookout keeps its presence.
    Control& control(int rank) const { return segments_[rank].control(); }
    Control& own() const { return control(rank_); }
    const Address& address(int rank) const { return addresses_[rank]; }

    // The ranks of each host, in order.
    const std::vector<std::vector<int>>& hosts() const { return hosts_; }
    int host() const { return host_of_[rank_]; }
    const std::vector<int>& neighbours() const { return hosts_[host()]; }  // this rank among them
    bool is_remote(int rank) const { return host_of_[rank] != host(); }

    // Whether a peer that is ready was formed with the same secret, generation, rank and size.
    bool recognises(int peer) const;

    std::byte* slot(int rank, std::uint64_t block) const {
        return segments_[rank].at(layout_.slots + block % slot_count * slot_bytes);
    }
    // In a mirror only `posted` is true, and `taken` counts the whole messages that have come.
    MailCursor& cursor(int from, int to) const {
        return *reinterpret_cast<MailCursor*>(segments_[from].at(layout_.cursors + to * sizeof(MailCursor)));
    }
    std::byte* mail(int from, int to, std::uint64_t piece) const {
        return segments_[from].at(layout_.mail + (to * mail_count + piece % mail_count) * mail_bytes);
    }

    // The ranks that have died, or can't be reached any more.
    std::vector<int> find_dead() const;

    // Write this host's obituary, unless somebody has: true if it was us. Then ring every bell.
    bool bury(int rank, const std::string& reason, bool mismatch) const;
    Obituary& obituary() const { return control(neighbours().front()).obituary; }

    // Ring every bell of this host.
    void ring_all() const;

  private:
    void map(const Endpoint& own, int peer);

    int rank_;
    Layout layout_;
    std::vector<Address> addresses_;
    std::vector<Digest> digests_;
    std::vector<int> host_of_;
    std::vector<std::vector<int>> hosts_;
    std::vector<Segment> segments_;
    std::vector<Fd> watched_;
};

}  // namespace nbdist
