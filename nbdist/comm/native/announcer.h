// The thread that tells Python of finished work. Only it waits for Python's lock, so the threads that
// move data never do.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace nbdist {

class Announcer {
  public:
    ~Announcer() { close(); }
    void post(std::function<void()> then);
    // Announce what is left, then end the thread. Called without Python's lock. What is told may be what
    // lets go of a group, this one or another: an announcer's thread waits for none, not even itself.
    void close();
    // Wait for the threads that close() has not waited for.
    static void finish();

  private:
    // Outlives the announcer where its thread does.
    struct News {
        std::mutex mutex;
        std::condition_variable changed;
        std::deque<std::function<void()>> waiting;
        bool closing = false;
        bool lingers = false;  // nobody waits for the thread
    };

    static void tell(News& news);
    static void run(std::shared_ptr<News> news);

    std::shared_ptr<News> news_ = std::make_shared<News>();
    std::thread thread_;  // started by the first news
};

}  // namespace nbdist
