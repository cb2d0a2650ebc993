// Ranks as threads of one process, joined as processes are: through segments, each with an endpoint.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "check.h"
#include "group.h"

namespace nbdist::test {

// What the ranks of one group must know of each other.
class Plan {
  public:
    explicit Plan(int size);

    int size() const { return static_cast<int>(addresses_.size()); }
    const std::vector<Address>& addresses() const { return addresses_; }
    // Called by each rank on a thread of its own: it blocks until all have come.
    std::shared_ptr<Group> form(int rank, std::shared_ptr<Group> parent = nullptr,
                                GroupOptions options = {}) const;
    // As one who holds another secret would.
    std::shared_ptr<Group> form_with(const std::vector<Digest>& digests, int rank) const;
    const std::vector<Digest>& digests() const { return digests_; }

    // Drop this rank's endpoint: a rank that gave up before it formed the group.
    void forget(int rank) { endpoints_[rank].reset(); }

  private:
    mutable std::vector<std::shared_ptr<Endpoint>> endpoints_;
    std::vector<Address> addresses_;
    std::vector<Digest> digests_;
};

// Run `function(rank)` on a thread for each rank; rethrow what the first of them threw, a failed CHECK
// before anything that followed from it.
void on_threads(int size, const std::function<void(int rank)>& function);

// The same with a group formed by all of them.
void spawn(int size, const std::function<void(Group&)>& function, GroupOptions options = {});

// Call a collective synchronously.
void run(Group& group, Kind kind, const Group::Collective& collective);

// Call it asynchronously; the ticket says when it is done.
std::shared_ptr<Ticket> submit(Group& group, const Signature& signature, Group::Collective collective);

}  // namespace nbdist::test
