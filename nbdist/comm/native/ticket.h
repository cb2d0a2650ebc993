// The outcome of work that another thread does.
#pragma once

#include <exception>
#include <functional>
#include <memory>

#include "vigil.h"

namespace nbdist {

class Ticket {
  public:
    explicit Ticket(Kind kind) : kind_(kind) {}

    Kind kind() const { return kind_; }
    bool done() const { return done_.load(std::memory_order_acquire); }
    // Wait for the end, and rethrow the error if that was one.
    void wait(Vigil& vigil);
    void rethrow() const;

    void finish(std::exception_ptr error);

    // The rank a message came from; set before the end.
    int source = -1;

  private:
    Kind kind_;
    std::atomic<bool> done_{false};
    std::exception_ptr error_;
    Bell bell_{};
};

// Work with somebody to tell when it is done. `then` runs on the announcer's thread, exactly once.
struct Promise {
    std::shared_ptr<Ticket> ticket;
    std::function<void()> then;
};

}  // namespace nbdist
