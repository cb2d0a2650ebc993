// Messages between two ranks, outside the order of the collectives.
//
// Between two ranks of a host they go through shared memory, between hosts over a socket (channel.h,
// wire.h). Whoever waits moves everything that can move, in both directions, so two ranks that send to each
// other first both get on. Messages of one pair and tag arrive in the order sent.
#pragma once

#include <limits>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "announcer.h"
#include "ticket.h"
#include "wire.h"

namespace nbdist {

// Whose tags are whose. Users' are from 0 up.
constexpr std::int64_t exchange_tag = -1;   // exchange.cpp
constexpr std::int64_t roll_call_tag = -2;  // roll_call.py
constexpr std::int64_t meetings_tag = -3;   // letters.py: this one and, for other meetings, 2^56 below it
constexpr std::int64_t lane_tag = std::numeric_limits<std::int64_t>::min();  // lanes.cpp
constexpr std::int64_t accord_tag = lane_tag + 1;                            // lanes.cpp

class Mail {
  public:
    // `links` loses its data sockets.
    Mail(const Members& members, Vigil& vigil, Announcer& announcer, Lookout& lookout,
         std::vector<Link>& links);
    ~Mail() { close(); }
    int rank() const { return members_.rank(); }
    int size() const { return members_.size(); }

    // These throw nothing when the group is over: who waits finds out, for what has come by then counts.
    // A message that is held may go with the next one to that peer, for which it needs no wait.
    std::shared_ptr<Ticket> post_send(int to, const Envelope& envelope, const void* data, bool held = false);
    std::shared_ptr<Ticket> post_recv(int from, const Envelope& envelope, void* data);

    // Drive messages until this one is done.
    void wait(const std::shared_ptr<Ticket>& ticket, const Waiting& waiting);
    // Touch the memory of this one no more. If a part of it has moved, nothing can follow: then the group is
    // over, or about to be.
    void forget(const std::shared_ptr<Ticket>& ticket);
    // Let the courier thread drive it.
    void entrust(Promise promise, const Waiting& waiting);
    // Wait until the courier has nothing left to send, or to receive.
    void drain(Kind kind);

    void close();

  private:
    struct Outgoing {
        std::shared_ptr<Ticket> ticket;
        Envelope envelope;
        const std::byte* data;
        bool held;
        std::uint64_t done = 0;
        bool begun = false;
    };
    struct Incoming {  // posted by a receiver
        std::shared_ptr<Ticket> ticket;
        int from;
        Envelope envelope;
        std::byte* data;
    };
    struct Arrival {  // a message on its way in, or come before anybody asked for it
        Envelope envelope;
        std::shared_ptr<Incoming> receiver;  // null: kept aside
        std::vector<std::byte> aside;
        std::uint64_t done = 0;
    };
    struct Entrusted {
        Promise promise;
        Waiting waiting;
    };

    void give_up(const std::shared_ptr<Ticket>& ticket, Kind kind);
    void sever(int peer);
    void progress();
    void push(int to);
    void pull(int from);
    bool wanted(int from) const;
    void tell_finished();
    void find_broken();
    void linger();
    void watch_over(std::span<const Waiting> waiting, const Vigil::Check& ready);
    void nap(const Vigil::Check& ready);
    std::shared_ptr<Incoming> match(int from, const Envelope& envelope);
    bool fits(int from, const Incoming& incoming, const Envelope& envelope);
    void hand_over(int from, Arrival& arrival);
    bool is_owed_by(int peer);
    Waiting complete(Waiting waiting);
    void run();

    const Members& members_;
    Vigil& vigil_;
    Announcer& announcer_;
    Lookout& lookout_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<Channel>> channels_;  // by peer
    std::vector<Wire*> wires_;                        // the same, where they are wires
    bool spans_hosts_ = false;
    std::vector<bool> severed_;                  // by peer: nothing moves any more
    bool polling_ = false;                       // a thread sleeps on the wires themselves
    bool finished_ = false;                      // something others may wait for
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
