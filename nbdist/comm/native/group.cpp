#include "group.h"

#include <unistd.h>

namespace nbdist {

Group::Group(std::shared_ptr<Endpoint> endpoint, const std::vector<Address>& addresses, int rank,
             const std::vector<Digest>& digests, std::shared_ptr<Group> parent, GroupOptions options)
    : endpoint_(std::move(endpoint)),
      members_(*endpoint_, addresses, rank, digests),
      parent_(std::move(parent)),
      vigil_(members_, parent_ ? &parent_->vigil_ : nullptr, options.limit, options.signals),
      world_(members_, vigil_),
      patience_(options.patience),
      owner_(getpid()),
      queue_(world_, vigil_, announcer_),
      mail_(members_, vigil_, announcer_) {}

Group::~Group() {
    close();
}

void Group::run(const Signature& signature, const Collective& collective) {
    queue_.run(signature.kind, [&] { collective(world_); });
}

bool Group::submit(const Signature& signature, Collective collective, Promise promise) {
    auto task = [this, collective = std::move(collective)] { collective(world_); };
    return queue_.submit(signature, patience_, std::move(task), std::move(promise));
}

void Group::abort(const std::string& reason) {
    vigil_.abort(rank(), "rank " + std::to_string(rank()) + " ended the group: " + reason);
}

void Group::leave_cell(std::int64_t number) {
    queue_.drain(Kind::barrier);
    mail_.drain(Kind::barrier);
    vigil_.leave_cell(number);
}

void Group::close() {
    if (getpid() != owner_) return;  // a forked child: the mapping, and the threads, are its parent's
    vigil_.leave();
    queue_.close();
    mail_.close();
    announcer_.close();
}

}  // namespace nbdist
