// Ranks as threads of one process, joined as processes are: through segments, each with an endpoint, and
// where they play to be on several hosts, through TCP.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "check.h"
#include "group.h"

namespace nbdist::test {

// The host of each rank.
using Hosts = std::vector<int>;

// A host for all of them.
Hosts one_host(int size);

// The ways in which ranks can lie that make a difference: alone, with others, on hosts with one or two ranks
// each, on unlike ones, in and out of order.
std::vector<Hosts> some_hosts();

struct Limits {
    std::chrono::milliseconds limit{0};
    std::chrono::milliseconds patience{0};
};

// What the ranks of one group must know of each other.
class Plan {
  public:
    explicit Plan(const Hosts& hosts);

    int size() const { return static_cast<int>(hosts_.size()); }
    const std::vector<Address>& addresses() const { return addresses_; }
    const std::vector<Digest>& digests() const { return digests_; }

    // Once by each rank, on a thread of its own: it blocks until all have come.
    std::shared_ptr<Group> form(int rank, std::shared_ptr<Group> parent = nullptr, Limits limits = {});
    // As one who holds another secret would.
    std::shared_ptr<Group> form_with(const std::vector<Digest>& digests, int rank,
                                     std::shared_ptr<Group> parent = nullptr, Limits limits = {});

    // Drop this rank's endpoint: a rank that gave up before it formed the group.
    void forget(int rank) { endpoints_[rank].reset(); }

  private:
    Hosts hosts_;
    std::vector<std::shared_ptr<Endpoint>> endpoints_;
    std::vector<Address> addresses_;
    std::vector<Digest> digests_;
    std::vector<std::vector<Link>> links_;
};

// Run `function(rank)` on a thread for each rank; rethrow what the first of them threw, a failed CHECK
// before anything that followed from it.
void on_threads(int size, const std::function<void(int rank)>& function);

// The same with a group formed by all of them.
void spawn(const Hosts& hosts, const std::function<void(Group&)>& function, Limits limits = {});
void spawn(int size, const std::function<void(Group&)>& function, Limits limits = {});

// Call a collective synchronously.
void run(Group& group, Kind kind, const Group::Collective& collective);

// Call it asynchronously; the ticket says when it is done.
std::shared_ptr<Ticket> submit(Group& group, const Signature& signature, Group::Collective collective);

}  // namespace nbdist::test
