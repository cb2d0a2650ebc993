#include "queue.h"

namespace nbdist {

// Take the order lock once everything queued before is done.
void Queue::acquire(std::unique_lock<std::mutex>& lock, Kind kind) {
    while (busy_ || !tasks_.empty()) {
        changed_.wait_for(lock, Vigil::slice);
        if (!busy_ && tasks_.empty()) break;
        lock.unlock();
        vigil_.run_signals(kind);
        lock.lock();
    }
    busy_ = true;
}

// The order lock, given back at the end of a scope.
class Queue::Turn {
  public:
    explicit Turn(Queue& queue) : queue_(queue) {}
    ~Turn() {
        std::lock_guard lock(queue_.mutex_);
        queue_.busy_ = false;
        queue_.changed_.notify_all();
    }
    Turn(const Turn&) = delete;

  private:
    Queue& queue_;
};

void Queue::run(Kind kind, const Task& task) {
    world_.issue();
    std::unique_lock lock(mutex_);
    acquire(lock, kind);
    lock.unlock();
    Turn turn(*this);
    task();
}

bool Queue::submit(const Signature& signature, std::chrono::milliseconds patience, Task task,
                   Promise promise) {
    std::unique_lock lock(mutex_);
    if (closing_) vigil_.check(signature.kind);
    world_.issue();
    if (patience.count() > 0 && !busy_ && tasks_.empty()) {
        busy_ = true;
        lock.unlock();
        {
            Turn turn(*this);
            world_.open(signature);
            if (world_.all_open(patience)) {
                task();
                promise.ticket->finish(nullptr);
                return true;
            }
            std::lock_guard again(mutex_);
            if (closing_) vigil_.check(signature.kind);
            start();
            // What other threads queued meanwhile comes after it: the operation is open already.
            tasks_.emplace_front(std::move(task), std::move(promise));
        }
        lock.lock();
    } else {
        start();
        tasks_.emplace_back(std::move(task), std::move(promise));
    }
    changed_.notify_all();
    return false;
}

// Before anything is queued: where there can be no thread, nothing shall wait for it. The caller holds the
// lock.
void Queue::start() {
    if (!thread_.joinable() && !closing_) thread_ = std::thread(&Queue::work, this);
}

// The announcer is left with the only hold on `then`: to let go of it may take Python's lock, for which
// this thread must not wait.
void Queue::settle(const Task& task, Promise promise) {
    std::exception_ptr error;
    try {
        task();
    } catch (...) {
        error = std::current_exception();
    }
    promise.ticket->finish(std::move(error));
    announcer_.post(std::move(promise.then));
}

void Queue::work() {
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [this] { return closing_ || (!busy_ && !tasks_.empty()); });
        if (tasks_.empty()) return;
        if (busy_) {
            changed_.wait_for(lock, Vigil::slice);
            continue;
        }
        busy_ = true;
        auto [task, promise] = std::move(tasks_.front());
        tasks_.pop_front();
        lock.unlock();
        settle(task, std::move(promise));
        task = nullptr;
        lock.lock();
        busy_ = false;
        changed_.notify_all();
    }
}

void Queue::drain(Kind kind) {
    std::unique_lock lock(mutex_);
    acquire(lock, kind);
    busy_ = false;
    changed_.notify_all();
}

void Queue::close() {
    std::thread thread;
    {
        std::lock_guard lock(mutex_);
        closing_ = true;
        changed_.notify_all();
        thread = std::move(thread_);
    }
    if (thread.joinable()) thread.join();
}

}  // namespace nbdist
