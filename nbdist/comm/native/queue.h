// The order of a group's collectives: those queued run one after another on the progress thread, and one
// called synchronously runs on its caller's thread, but never before what was queued earlier.
#pragma once

#include <deque>

#include "announcer.h"
#include "ticket.h"
#include "world.h"

namespace nbdist {

class Queue {
  public:
    using Task = std::function<void()>;

    Queue(World& world, Vigil& vigil, Announcer& announcer)
        : world_(world), vigil_(vigil), announcer_(announcer) {}
    ~Queue() { close(); }

    // Run on this thread, in order.
    void run(Kind kind, const Task& task);

    // Run on the progress thread. With `patience`, first wait that long for all ranks to open the same
    // operation, and if they do, run it here: where ranks fill the cores a hand-over only costs. A rank
    // that is late is left to the progress thread, for our caller may be the one it waits for. Returns
    // whether it ran here; then it throws what the task throws, and announces nothing.
    bool submit(const Signature& signature, std::chrono::milliseconds patience, Task task, Promise promise);

    // Wait until nothing is queued or running.
    void drain(Kind kind);

    // End the progress thread. The vigil has been left, so nothing on it can last.
    void close();

  private:
    void acquire(std::unique_lock<std::mutex>& lock, Kind kind);
    class Turn;
    void settle(const Task& task, Promise promise);
    void start();
    void work();

    World& world_;
    Vigil& vigil_;
    Announcer& announcer_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::pair<Task, Promise>> tasks_;
    bool busy_ = false;  // an operation is running, here or there
    bool closing_ = false;
    std::thread thread_;  // started by the first task
};

}  // namespace nbdist
