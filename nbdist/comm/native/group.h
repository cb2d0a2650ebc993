// One group of ranks, with its threads: what Python holds.
#pragma once

#include <optional>

#include "announcer.h"
#include "collectives.h"
#include "exchange.h"
#include "lanes.h"
#include "queue.h"
#include "steps.h"

namespace nbdist {

struct GroupOptions {
    std::chrono::milliseconds limit{0};     // give a wait up after this; 0 never
    std::chrono::milliseconds patience{0};  // run asynchronous work inline if all come within this
    Vigil::Signals signals = nullptr;
    std::vector<int> hosts;   // the number of each rank's host; empty when there is one
    std::vector<Link> links;  // to every rank of another host
};

class Group {
  public:
    // Meet the other ranks. Blocks until all have come.
    Group(std::shared_ptr<Endpoint> endpoint, const std::vector<Address>& addresses, int rank,
          const std::vector<Digest>& digests, std::shared_ptr<Group> parent, GroupOptions options);
    ~Group();

    using Collective = std::function<void(World&)>;

    // Run a collective here and now, or hand it over: then `promise` says when it is done, unless it was
    // done here after all (true).
    void run(const Signature& signature, const Collective& collective);
    bool submit(const Signature& signature, Collective collective, Promise promise);

    void enter_cell(std::int64_t number);
    // The lines of the cell are through; what follows is part of no user's program.
    void end_lines() { world_.set_ending(true); }

    Mail& mail() { return mail_; }
    Vigil& vigil() { return vigil_; }
    Steps& steps() { return steps_; }
    int rank() const { return members_.rank(); }
    int size() const { return members_.size(); }
    bool spans_hosts() const { return lanes_.has_value(); }
    void abort(const std::string& reason);

    // What a rank does at the end of a cell, in all of its groups (the function below).
    void finish_collectives();
    void finish_receiving();
    void finish_sending();

    // Leave the group: end what this rank still does in it, and its threads. Never waits for a peer.
    void close();

  private:
    // While the group is being formed nobody has it yet, but for its endpoint.
    class Ending {
      public:
        explicit Ending(Group& group) : endpoint_(*group.endpoint_) {
            endpoint_.ends_by([&group](const std::string& reason) { group.abort(reason); });
        }
        ~Ending() { endpoint_.ends_by(nullptr); }
        Ending(const Ending&) = delete;

      private:
        Endpoint& endpoint_;
    };
    void take_turn(const Signature& signature, const Collective& collective);

    std::shared_ptr<Endpoint> endpoint_;
    Members members_;
    std::shared_ptr<Group> parent_;
    Lookout lookout_;
    Vigil vigil_;
    Ending ending_;
    World world_;
    Steps steps_;
    std::chrono::milliseconds patience_;
    Announcer announcer_;
    Queue queue_;
    Mail mail_;
    std::optional<Lanes> lanes_;
};

// Leave a cell in all of a rank's groups, once what was issued in it is done. Ranks that leave never wait
// for one another in vain, because each does it in three rounds over all its groups:
//
// 1. It says that it issues nothing more, and shows how many collectives and messages it has issued. Who
//    waits for one beyond that is released.
// 2. So its own collectives and receives come to an end, whether the others leave or not; and once they
//    have, it says that it has left. Who still sends to it is released.
// 3. So its own sends come to an end.
void leave_cell(const std::vector<std::shared_ptr<Group>>& groups, std::int64_t number);

}  // namespace nbdist
