// Messages between two ranks, outside the order of the collectives.
//
// Each direction between two ranks has a channel of two pieces in the sender's segment. Whoever waits
// moves everything that can move, in both directions, so two ranks that send to each other first both
// get on. Messages of one pair and tag arrive in the order sent.
#pragma once

#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "announcer.h"
#include "ticket.h"

namespace nbdist {

constexpr std::int64_t exchange_tag = -1;  // of messages inside a collective; users' tags are >= 0

class Mail {
  public:
    Mail(const Members& members, Vigil& vigil, Announcer& announcer);
    ~Mail() { close(); }

    std::shared_ptr<Ticket> post_send(int to, std::int64_t tag, const void* data, std::size_t bytes);
    std::shared_ptr<Ticket> post_recv(int from, std::int64_t tag, void* data, std::size_t bytes);

    // Drive messages until this one is done.
    void wait(const std::shared_ptr<Ticket>& ticket, const Waiting& waiting);
    // Let the courier thread drive it.
    void entrust(Promise promise, const Waiting& waiting);
    // Wait until the courier has nothing left to send, or to receive.
    void drain(Kind kind);

    void close();

  private:
    struct Outgoing {
        std::shared_ptr<Ticket> ticket;
        std::int64_t tag;
        const std::byte* data;
        std::size_t total, done;
    };
    struct Incoming {  // posted by a receiver
        std::shared_ptr<Ticket> ticket;
        int from;
        std::int64_t tag;
        std::byte* data;
        std::size_t total;
    };
    struct Arrival {  // a message on its way in, or come before anybody asked for it
        std::int64_t tag;
        std::size_t total, done;
        std::shared_ptr<Incoming> receiver;  // null: kept aside
        std::vector<std::byte> aside;
    };
    struct Entrusted {
        Promise promise;
        Waiting waiting;
    };

    void progress();
    void push(int to);
    void pull(int from);
    std::shared_ptr<Incoming> match(int from, std::int64_t tag, std::size_t total);
    bool fits(int from, const Incoming& incoming, std::size_t total);
    void hand_over(int from, Arrival& arrival);
    void forget(const std::shared_ptr<Ticket>& ticket);
    bool is_owed_by(int peer);
    Waiting complete(Waiting waiting);
    void run();

    const Members& members_;
    Vigil& vigil_;
    Announcer& announcer_;
    std::mutex mutex_;
    std::vector<std::list<Outgoing>> outgoing_;  // by destination
    std::vector<std::list<Arrival>> arrivals_;   // by source; the last may be incomplete
    std::vector<std::uint64_t> arrived_;         // by source; whole messages
    std::list<std::shared_ptr<Incoming>> posted_;
    std::list<Entrusted> entrusted_;
    std::uint64_t entrustments_ = 0;
    std::condition_variable work_;
    std::thread courier_;  // started by the first message entrusted
    bool closing_ = false;
};

}  // namespace nbdist
