// Threads that share a step: the caller and up to n - 1 helpers.
//
// Other processes may want the same cores. What is computed never depends on who computes it, so nobody is waited for
// that has not begun, and a team that is held up becomes smaller for a while (pace.h).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/pace.h"

namespace uwaga {

// Threads that do the same rows together, each its slice of every matrix's columns.
class Team {
  public:
    explicit Team(int64_t size) : size_(size) {}
    int64_t size() const { return size_; }
    void wait();     // until all have come
    void abandon();  // after an error: whoever waits, or comes to wait, is let go with an error
    // Nanoseconds that members have waited for others beyond a short while, all of them together.
    int64_t late() const { return late_; }

  private:
    const int64_t size_;
    std::atomic<int64_t> late_{0};
    std::atomic<int64_t> arrived_{0};
    std::atomic<uint32_t> phase_{0};
    std::atomic<bool> abandoned_{false};
};

// What one of a team's threads does of work that all of them do together; the default is all of it.
struct ThreadSlice {
    Team* team = nullptr;
    int64_t index = 0, count = 1;

    void wait() const {
        if (team) team->wait();
    }
    int64_t first(int64_t size) const { return size * index / count; }
    int64_t last(int64_t size) const { return size * (index + 1) / count; }
};

// Runs a function of a part's number. One caller at a time has the helpers; another does its parts itself. A child
// process, in which none of its parent's threads live, gets helpers of its own. What is computed for a part must not
// depend on who computes it.
class Workers {
  public:
    Workers();
    ~Workers();
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;
    // `check_interrupt` is called by check(): it throws when the caller is to stop.
    void configure(int64_t threads, void (*check_interrupt)()) {
        threads_ = threads;
        check_interrupt_ = check_interrupt;
    }
    int64_t threads() const { return at_work_ > 1 ? 1 : threads_; }
    // A thread that works by itself for as long as this lives. Beside two of them nobody has helpers: cores are taken.
    class AtWork {
      public:
        explicit AtWork(Workers& workers) : workers_(workers) { ++workers_.at_work_; }
        ~AtWork() { --workers_.at_work_; }
        AtWork(const AtWork&) = delete;
        AtWork& operator=(const AtWork&) = delete;

      private:
        Workers& workers_;
    };
    void run(int64_t parts, const std::function<void(int64_t)>& work);
    // Up to eight threads at once on one piece of work, in which all of them wait equally often; fewer where cores are
    // busy, and the caller alone where the helpers are.
    void run_team(const std::function<void(const ThreadSlice&)>& work);
    // For long work to call now and then: throws when the caller is to stop, or another part of the work has failed.
    void check() const;

  private:
    struct ThreadPool;
    void run_helper(ThreadPool& pool);
    bool acquire_helpers(std::unique_lock<std::mutex>& owner);
    int64_t run_parts(int64_t parts, const std::function<void(int64_t)>& work);
    int64_t threads_ = 1;
    std::atomic<int64_t> at_work_{0};
    void (*check_interrupt_)() = nullptr;
    std::mutex owner_;
    std::unique_ptr<ThreadPool> pool_;  // this and what follows is for who holds owner_
    Pace pace_;
};

}  // namespace uwaga
