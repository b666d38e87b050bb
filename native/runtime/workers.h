// Threads that share the work of a step: the caller and up to n - 1 helpers.
//
// Other processes may compete for the same cores. Results do not depend on which thread computes them, so
// nobody waits for a helper that has not started, and a team that was delayed becomes smaller for a while
// (pace.h).
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
#include "runtime/process.h"

namespace uwaga {

// Threads that process the same rows together, each a slice of every matrix's columns.
class Team {
  public:
    explicit Team(int64_t size) : size_(size) {}
    int64_t size() const { return size_; }
    void wait();     // barrier: returns when all members have arrived
    void abandon();  // after an error: makes current and later waits throw
    // Nanoseconds that members waited for others beyond a short spin, in total.
    int64_t late() const { return late_; }

  private:
    const int64_t size_;
    std::atomic<int64_t> late_{0};
    std::atomic<int64_t> arrived_{0};
    std::atomic<uint32_t> phase_{0};
    std::atomic<bool> abandoned_{false};
};

// One member's share of the team's work; by default all of it.
struct ThreadSlice {
    Team* team = nullptr;
    int64_t index = 0, count = 1;

    void wait() const {
        if (has_threads && team) team->wait();
    }
    int64_t first(int64_t size) const { return size * index / count; }
    int64_t last(int64_t size) const { return size * (index + 1) / count; }
};

// Runs a function for each part number. One caller at a time has the helpers; others run their parts
// themselves. A forked child, in which the parent's threads do not exist, gets helpers of its own. The result
// of a part must not depend on the thread that computes it.
class Workers {
  public:
    Workers();
    ~Workers();
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;
    // `check_interrupt` is called by check(); it throws if the caller should stop.
    void configure(int64_t threads, void (*check_interrupt)()) {
        threads_ = threads;
        check_interrupt_ = check_interrupt;
    }
    int64_t threads() const { return active_threads_ > 1 ? 1 : threads_; }
    // Marks a thread as working independently while this object exists. With two or more, no caller gets
    // helpers: cores are busy.
    class ActiveThread {
      public:
        explicit ActiveThread(Workers& workers) : workers_(workers) { ++workers_.active_threads_; }
        ~ActiveThread() { --workers_.active_threads_; }
        ActiveThread(const ActiveThread&) = delete;
        ActiveThread& operator=(const ActiveThread&) = delete;

      private:
        Workers& workers_;
    };
    void run(int64_t parts, const std::function<void(int64_t)>& work);
    // Run `work` on up to eight threads at once; all must wait equally often. Fewer threads run while cores
    // are busy, and only the caller while another caller has the helpers.
    void run_team(const std::function<void(const ThreadSlice&)>& work);
    // To be called now and then by long work: throws if the caller should stop or another part has failed.
    void check() const;

  private:
    struct ThreadPool;
    void run_helper(ThreadPool& pool);
    bool acquire_helpers(std::unique_lock<std::mutex>& owner);
    int64_t run_parts(int64_t parts, const std::function<void(int64_t)>& work);
    int64_t threads_ = 1;
    std::atomic<int64_t> active_threads_{0};
    void (*check_interrupt_)() = nullptr;
    std::mutex owner_;
    std::unique_ptr<ThreadPool> pool_;  // pool_ and pace_ are guarded by owner_
    Pace pace_;
};

}  // namespace uwaga
