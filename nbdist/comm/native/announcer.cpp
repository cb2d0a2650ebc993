#include "announcer.h"

#include <pthread.h>

#include <atomic>

namespace nbdist {

namespace {

thread_local bool announcing = false;

std::atomic<int> lingering{0};

[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] { lingering = 0; });

}  // namespace

void Announcer::post(std::function<void()> then) {
    std::lock_guard lock(news_->mutex);
    news_->waiting.push_back(std::move(then));
    if (!thread_.joinable() && !news_->closing) thread_ = std::thread(&Announcer::run, news_);
    news_->changed.notify_one();
}

void Announcer::close() {
    std::thread thread;
    {
        std::lock_guard lock(news_->mutex);
        news_->closing = true;
        news_->changed.notify_one();
        thread = std::move(thread_);
        if (announcing && thread.joinable()) {
            news_->lingers = true;
            ++lingering;
            thread.detach();
        }
    }
    if (thread.joinable()) thread.join();
    tell(*news_);
}

void Announcer::finish() {
    while (const int number = lingering) lingering.wait(number);
}

// Tell what there is, and what comes until the end.
void Announcer::tell(News& news) {
    std::unique_lock lock(news.mutex);
    while (true) {
        news.changed.wait(lock, [&] { return news.closing || !news.waiting.empty(); });
        if (news.waiting.empty()) return;
        std::function<void()> then = std::move(news.waiting.front());
        news.waiting.pop_front();
        lock.unlock();
        then();
        then = nullptr;
        lock.lock();
    }
}

void Announcer::run(std::shared_ptr<News> news) {
    announcing = true;
    tell(*news);
    if (!news->lingers) return;
    --lingering;
    lingering.notify_all();
}

}  // namespace nbdist
