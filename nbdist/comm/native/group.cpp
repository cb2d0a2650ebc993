#include "group.h"

namespace nbdist {

Group::Group(std::shared_ptr<Endpoint> endpoint, const std::vector<Address>& addresses, int rank,
             const std::vector<Digest>& digests, std::shared_ptr<Group> parent, GroupOptions options)
    : endpoint_(std::move(endpoint)),
      members_(*endpoint_, addresses, rank, digests),
      parent_(std::move(parent)),
      vigil_(members_, parent_ ? &parent_->vigil_ : nullptr, options.limit, options.signals),
      world_(members_, vigil_),
      patience_(options.patience),
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

void Group::finish_receiving() {
    queue_.drain(Kind::barrier);
    mail_.drain(Kind::recv);
}

void Group::finish_sending() {
    mail_.drain(Kind::send);
}

void Group::close() {
    vigil_.leave();
    queue_.close();
    mail_.close();
    announcer_.close();
}

void leave_cell(const std::vector<std::shared_ptr<Group>>& groups, std::int64_t number) {
    for (const auto& group : groups) group->vigil().stop_issuing(number);
    try {
        for (const auto& group : groups) group->finish_receiving();
    } catch (...) {
        // Interrupted: this rank waits for nobody, and nobody for it.
        for (const auto& group : groups) group->vigil().leave_cell(number);
        throw;
    }
    for (const auto& group : groups) group->vigil().leave_cell(number);
    for (const auto& group : groups) group->finish_sending();
}

}  // namespace nbdist
