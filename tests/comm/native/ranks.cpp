#include "ranks.h"

#include <thread>

namespace nbdist::test {

Plan::Plan(int size) {
    for (int rank = 0; rank < size; ++rank) {
        endpoints_.push_back(std::make_shared<Endpoint>());
        addresses_.push_back(Address::parse(endpoints_.back()->address().text()));
        digests_.emplace_back().fill(static_cast<std::uint8_t>(100 + rank));
    }
}

std::shared_ptr<Group> Plan::form(int rank, std::shared_ptr<Group> parent, GroupOptions options) const {
    return std::make_shared<Group>(endpoints_[rank], addresses_, rank, digests_, std::move(parent), options);
}

std::shared_ptr<Group> Plan::form_with(const std::vector<Digest>& digests, int rank) const {
    return std::make_shared<Group>(endpoints_[rank], addresses_, rank, digests, nullptr, GroupOptions{});
}

void on_threads(int size, const std::function<void(int rank)>& function) {
    std::vector<std::exception_ptr> errors(size);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank)
        threads.emplace_back([&, rank] {
            try {
                function(rank);
            } catch (...) {
                errors[rank] = std::current_exception();
            }
        });
    for (std::thread& thread : threads) thread.join();
    std::exception_ptr first;
    for (const std::exception_ptr& error : errors) {
        if (error == nullptr) continue;
        if (first == nullptr) first = error;
        try {
            std::rethrow_exception(error);
        } catch (const Failed&) {
            throw;
        } catch (...) {
        }
    }
    if (first != nullptr) std::rethrow_exception(first);
}

void spawn(int size, const std::function<void(Group&)>& function, GroupOptions options) {
    const Plan plan(size);
    on_threads(size, [&](int rank) { function(*plan.form(rank, nullptr, options)); });
}

void run(Group& group, Kind kind, const Group::Collective& collective) {
    group.run({.kind = kind}, collective);
}

std::shared_ptr<Ticket> submit(Group& group, const Signature& signature, Group::Collective collective) {
    auto ticket = std::make_shared<Ticket>(signature.kind);
    group.submit(signature, std::move(collective), {ticket, [] {}});
    return ticket;
}

}  // namespace nbdist::test
