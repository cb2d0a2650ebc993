#include "group.h"

#include <stdexcept>

namespace nbdist {

namespace {

// Counts what the user called, however it ends.
class Turn {
  public:
    explicit Turn(World& world) : world_(world) {}
    ~Turn() { world_.end_turn(); }
    Turn(const Turn&) = delete;

  private:
    World& world_;
};

std::vector<Link>& checked(const Members& members, std::vector<Link>& links) {
    std::vector<int> linked(members.size());
    for (const Link& link : links)
        if (link.peer >= 0 && link.peer < members.size()) ++linked[link.peer];
    for (int peer = 0; peer < members.size(); ++peer)
        if (linked[peer] != members.is_remote(peer))
            throw std::invalid_argument("rank " + std::to_string(peer) + " has " +
                                        std::to_string(linked[peer]) +
                                        " links; give one to every rank of another host, and no other");
    return links;
}

}  // namespace

Group::Group(std::shared_ptr<Endpoint> endpoint, const std::vector<Address>& addresses, int rank,
             const std::vector<Digest>& digests, std::shared_ptr<Group> parent, GroupOptions options)
    : endpoint_(std::move(endpoint)),
      members_(*endpoint_, addresses, rank, digests, options.hosts),
      parent_(std::move(parent)),
      lookout_(members_, checked(members_, options.links)),
      vigil_(members_, lookout_, parent_ ? &parent_->vigil_ : nullptr, options.limit, options.signals),
      ending_(*this),
      world_(members_, vigil_),
      // Between hosts there is time to do something else.
      patience_(options.links.empty() ? options.patience : std::chrono::milliseconds{0}),
      queue_(world_, vigil_, announcer_),
      mail_(members_, vigil_, announcer_, lookout_, options.links) {
    if (members_.hosts().size() == 1) return;
    world_.connect(lanes_.emplace(members_, world_, mail_));
    // Nobody goes on before all have come, on the other hosts too.
    run({.kind = Kind::form}, [](World& world) { agree(world, {.kind = Kind::form}); });
}

Group::~Group() {
    close();
}

void Group::run(const Signature& signature, const Collective& collective) {
    Steps::Caller caller(steps_, signature.kind);
    queue_.run(signature.kind, [&] { take_turn(signature, collective); });
}

void Group::take_turn(const Signature& signature, const Collective& collective) {
    Turn turn(world_);
    Steps::Turn step(steps_, signature);
    try {
        collective(world_);
    } catch (...) {
        vigil_.abort_for_failure(signature.kind);
        throw;
    }
}

bool Group::submit(const Signature& signature, Collective collective, Promise promise) {
    Steps::Caller caller(steps_, signature.kind);
    auto task = [this, signature, collective = std::move(collective)] { take_turn(signature, collective); };
    try {
        return queue_.submit(signature, patience_, std::move(task), std::move(promise));
    } catch (...) {
        vigil_.abort_for_failure(signature.kind);
        throw;
    }
}

void Group::abort(const std::string& reason) {
    vigil_.abort(rank(), "rank " + std::to_string(rank()) + " ended the group: " + reason);
}

void Group::enter_cell(std::int64_t number) {
    steps_.restart();
    world_.set_ending(false);
    vigil_.enter_cell(number);
}

void Group::finish_collectives() {
    queue_.drain(Kind::barrier);
}

void Group::finish_receiving() {
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
    lookout_.close();
}

void leave_cell(const std::vector<std::shared_ptr<Group>>& groups, std::int64_t number) {
    for (const auto& group : groups) group->vigil().stop_issuing(number);
    try {
        // Nobody reads any more what is received when a rank leaves for good.
        for (const auto& group : groups) group->finish_collectives();
        for (const auto& group : groups)
            if (number != for_good) group->finish_receiving();
    } catch (...) {
        // Interrupted: this rank waits for nobody, and nobody for it.
        for (const auto& group : groups) group->vigil().leave_cell(number);
        throw;
    }
    for (const auto& group : groups) group->vigil().leave_cell(number);
    for (const auto& group : groups) group->finish_sending();
}

}  // namespace nbdist
