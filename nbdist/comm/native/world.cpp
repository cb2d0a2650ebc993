#include "world.h"

#include <algorithm>

namespace nbdist {

namespace {

std::atomic<std::uint64_t> moved{0};

std::string describe(const Signature& signature) {
    std::string text = name_of(signature.kind);
    std::string arguments;
    auto add = [&](const std::string& argument) { arguments += (arguments.empty() ? "" : ", ") + argument; };
    if (signature.op != Op::none) add(name_of(signature.op));
    if (signature.count > 0)
        add(std::to_string(signature.count) + " x " + name_of(signature.type));
    else if (signature.type != DType::bytes)
        add(name_of(signature.type));  // each rank has a share of its own
    if (signature.root >= 0) add("root " + std::to_string(signature.root));
    return text + "(" + arguments + ")";
}

}  // namespace

World::World(const Members& members, Vigil& vigil)
    : members_(members), vigil_(vigil), ranks_(members.neighbours()) {
    rank_ = static_cast<int>(std::find(ranks_.begin(), ranks_.end(), members.rank()) - ranks_.begin());
    for (int peer : ranks_) {
        Control& control = members.control(peer);
        vigil.wait(control.progress_bell, Waiting{Kind::form, peer},
                   [&] { return control.presence.ready.load(std::memory_order_acquire) != 0; });
        if (members.recognises(peer)) continue;
        const std::string reason = "rank " + std::to_string(peer) +
                                   " belongs to another group (its secret, " +
                                   "generation, rank or world size differs)";
        vigil.abort(peer, reason);
        throw Aborted("the group was not formed: " + reason + "; form it anew with one secret on every rank",
                      peer, "init_process_group");
    }
}

void World::issue() {
    members_.own().presence.issued.fetch_add(1, std::memory_order_release);
}

void World::open(const Signature& signature) {
    const Kind called = named_ <= turn_ ? signature.kind : called_;
    vigil_.check(called);
    Progress& own = members_.own().progress;
    signature_ = told(signature);
    called_ = called;
    named_ = turn_ + 1;
    if (own.opened.load(std::memory_order_relaxed) > sequence_) return;  // peers are reading it already
    own.signatures[sequence_ % 2] = signature_;
    publish(&Progress::opened, sequence_);
}

bool World::all_open(std::chrono::milliseconds patience) {
    const auto until = std::chrono::steady_clock::now() + patience;
    for (int peer = 0; peer < size(); ++peer) {
        Control& control = this->control(peer);
        auto here = [&] { return control.progress.opened.load(std::memory_order_acquire) > sequence_; };
        while (!here()) {
            const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(
                until - std::chrono::steady_clock::now());
            if (rest.count() <= 0) return false;
            control.progress_bell.sleep(rest, here);
        }
    }
    return true;
}

void World::agree() {
    for (int peer = 0; peer < size(); ++peer) {
        await(peer, &Progress::opened, sequence_);
        const Signature theirs = control(peer).progress.signatures[sequence_ % 2];
        if (theirs == signature_) continue;
        // Told from the lower rank's side, so that both ranks of a pair say the same.
        if (peer < rank())
            refuse(ranks_[peer], theirs, members_.rank(), signature_);
        else
            refuse(members_.rank(), signature_, ranks_[peer], theirs);
    }
}

void World::refuse(int member, const Signature& theirs, int other, const Signature& others) {
    const std::string first = "rank " + std::to_string(member), second = "rank " + std::to_string(other);
    std::string reason;
    if (theirs.ending == others.ending)
        reason = "ranks issued different collectives: " + first + " " + describe(theirs) + ", " + second +
                 " " + describe(others) + "; call the same ones in the same order on every rank";
    else
        reason = (others.ending ? first + " waits in " + describe(theirs) + ", but " + second
                                : second + " waits in " + describe(others) + ", but " + first) +
                 " has come to the end of the cell without it; call it on every rank, or among those of a "
                 "torch.distributed.new_group";
    vigil_.abort(other, reason, true);
    vigil_.check(called_);
    throw Mismatch(reason);
}

bool World::all_through(Counter counter, std::uint64_t block) const {
    for (int peer = 0; peer < size(); ++peer)
        if (peer != rank() && (control(peer).progress.*counter).load(std::memory_order_acquire) <= block)
            return false;
    return true;
}

void World::await_free(std::uint64_t block) {
    if (block < slot_count) return;
    await_all(&Progress::finished, block - slot_count);
}

void World::await(int peer, Counter counter, std::uint64_t block) {
    Control& control = this->control(peer);
    auto through = [&] { return (control.progress.*counter).load(std::memory_order_acquire) > block; };
    if (through()) return;
    vigil_.wait(control.progress_bell, waiting_for(ranks_[peer]), through);
}

Waiting World::waiting_for(int member) const {
    auto owes = [this](int peer) {
        const Presence& presence = members_.control(peer).presence;
        return presence.issued.load(std::memory_order_acquire) > turn_ && !vigil_.has_left(peer);
    };
    return {called_, member, owes};
}

void World::await_all(Counter counter, std::uint64_t block) {
    for (int peer = 0; peer < size(); ++peer)
        if (peer != rank()) await(peer, counter, block);
}

void World::publish(Counter counter, std::uint64_t block) {
    Control& own = members_.own();
    (own.progress.*counter).store(block + 1, std::memory_order_release);
    own.progress_bell.ring();
}

void count_moved(std::uint64_t bytes) {
    moved.fetch_add(bytes, std::memory_order_relaxed);
}

std::uint64_t bytes_moved() {
    return moved.load(std::memory_order_relaxed);
}

}  // namespace nbdist
