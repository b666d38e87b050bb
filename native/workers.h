// Threads that share a step: the caller and up to n - 1 helpers.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace uwaga {

// Runs a function of a part's number. One caller at a time has the helpers; another does its parts itself, as does
// a child process, in which no helpers live. What is computed for a part must not depend on who computes it.
class Workers {
  public:
    Workers();
    ~Workers();
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;
    void configure(int64_t threads) { threads_ = threads; }
    int64_t threads() const { return threads_; }
    void run(int64_t parts, const std::function<void(int64_t)>& work);

  private:
    struct Crew;
    void help(Crew& crew);
    int64_t threads_ = 1;
    std::mutex owner_;
    std::unique_ptr<Crew> crew_;
};

}  // namespace uwaga
