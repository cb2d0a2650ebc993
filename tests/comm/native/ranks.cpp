#include "ranks.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <thread>

namespace nbdist::test {

namespace {

// The two ends of a TCP connection through the loopback interface.
std::pair<Socket, Socket> connect() {
    const Fd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    sockaddr* where = reinterpret_cast<sockaddr*>(&address);
    const int here = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener.get(), where, length) != 0 || listen(listener.get(), 1) != 0 ||
        getsockname(listener.get(), where, &length) != 0 || ::connect(here, where, length) != 0)
        throw std::runtime_error("no connection through the loopback interface");
    return {Socket(here), Socket(accept(listener.get(), nullptr, nullptr))};
}

}  // namespace

Hosts one_host(int size) {
    return Hosts(size, 0);
}

std::vector<Hosts> some_hosts() {
    return {{0},       {0, 0},       {0, 0, 0},    {0, 0, 0, 0, 0}, {0, 1},
            {0, 1, 2}, {0, 0, 1, 1}, {0, 1, 0, 1}, {0, 0, 1}};
}

Plan::Plan(const Hosts& hosts) : hosts_(hosts), links_(hosts.size()) {
    for (int rank = 0; rank < size(); ++rank) {
        endpoints_.push_back(std::make_shared<Endpoint>());
        addresses_.push_back(Address::parse(endpoints_.back()->address().text()));
        digests_.emplace_back().fill(static_cast<std::uint8_t>(100 + rank));
        for (int peer = 0; peer < rank; ++peer) {
            if (hosts[peer] == hosts[rank]) continue;
            auto [control, their_control] = connect();
            auto [data, their_data] = connect();
            links_[rank].push_back({peer, std::move(control), std::move(data)});
            links_[peer].push_back({rank, std::move(their_control), std::move(their_data)});
        }
    }
}

std::shared_ptr<Group> Plan::form(int rank, std::shared_ptr<Group> parent, Limits limits) {
    return form_with(digests_, rank, std::move(parent), limits);
}

std::shared_ptr<Group> Plan::form_with(const std::vector<Digest>& digests, int rank,
                                       std::shared_ptr<Group> parent, Limits limits) {
    GroupOptions options;
    options.limit = limits.limit;
    options.patience = limits.patience;
    options.hosts = hosts_;
    options.links = std::move(links_[rank]);
    return std::make_shared<Group>(endpoints_[rank], addresses_, rank, digests, std::move(parent),
                                   std::move(options));
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

void spawn(const Hosts& hosts, const std::function<void(Group&)>& function, Limits limits) {
    Plan plan(hosts);
    on_threads(plan.size(), [&](int rank) { function(*plan.form(rank, nullptr, limits)); });
}

void spawn(int size, const std::function<void(Group&)>& function, Limits limits) {
    spawn(one_host(size), function, limits);
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
