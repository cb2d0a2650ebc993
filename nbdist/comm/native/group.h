// One group of ranks, with its threads: what Python holds.
#pragma once

#include <optional>

#include "announcer.h"
#include "collectives.h"
#include "exchange.h"
#include "queue.h"

namespace nbdist {

struct GroupOptions {
    std::chrono::milliseconds limit{0};     // give a wait up after this; 0 never
    std::chrono::milliseconds patience{0};  // run asynchronous work inline if all come within this
    Vigil::Signals signals = nullptr;
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

    Mail& mail() { return mail_; }
    Vigil& vigil() { return vigil_; }
    int rank() const { return members_.rank(); }
    int size() const { return members_.size(); }
    void abort(const std::string& reason);

    // Leave the cell once nothing queued is left to do.
    void leave_cell(std::int64_t number);

    // Leave the group: end what this rank still does in it, and its threads. Never waits for a peer.
    void close();

  private:
    std::shared_ptr<Endpoint> endpoint_;
    Members members_;
    std::shared_ptr<Group> parent_;
    Vigil vigil_;
    World world_;
    std::chrono::milliseconds patience_;
    pid_t owner_;
    Announcer announcer_;
    Queue queue_;
    Mail mail_;
};

}  // namespace nbdist
