#include "announcer.h"

namespace nbdist {

void Announcer::post(std::function<void()> then) {
    std::lock_guard lock(mutex_);
    news_.push_back(std::move(then));
    if (!thread_.joinable() && !closing_) thread_ = std::thread(&Announcer::run, this);
    changed_.notify_one();
}

void Announcer::close() {
    std::thread thread;
    {
        std::lock_guard lock(mutex_);
        closing_ = true;
        changed_.notify_one();
        thread = std::move(thread_);
    }
    if (thread.joinable()) thread.join();
    for (auto& then : news_) then();
    news_.clear();
}

void Announcer::run() {
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [this] { return closing_ || !news_.empty(); });
        if (news_.empty()) return;
        std::function<void()> then = std::move(news_.front());
        news_.pop_front();
        lock.unlock();
        then();
        then = nullptr;
        lock.lock();
    }
}

}  // namespace nbdist
