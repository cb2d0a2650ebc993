// The thread that tells Python of finished work. Only it waits for Python's lock, so the threads that
// move data never do.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace nbdist {

class Announcer {
  public:
    ~Announcer() { close(); }
    void post(std::function<void()> then);
    // Announce what is left, then end the thread. Called without Python's lock.
    void close();

  private:
    void run();

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> news_;
    std::thread thread_;  // started by the first news
    bool closing_ = false;
};

}  // namespace nbdist
