#include "runtime/workers.h"

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "runtime/process.h"

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace uwaga {

namespace {
constexpr int64_t max_team_size = 8;  // a larger team would have only a panel or two of most matrices per
                                      // member
thread_local const std::atomic<bool>* current_failed = nullptr;  // error flag of the pool that this thread
                                                                 // works for
constexpr int spins = 4000;  // about 50 microseconds, the gap between two steps of a busy search

inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
    _mm_pause();
#else
    std::this_thread::yield();
#endif
}

// Thrown by a wait in a team in which another member has failed; that member reports the error.
struct Abandoned {};

// Spin until `done()`; return the nanoseconds spent beyond a short spin.
template <typename Predicate>
int64_t spin_wait(const Predicate& predicate) {
    for (int i = 0; i < spins; ++i) {
        if (predicate()) return 0;
        pause();
    }
    const int64_t start = now();
    while (!predicate()) std::this_thread::yield();
    return now() - start;
}
}  // namespace

// A round is one piece of work. `round_state` holds the round's number, an open flag and the number of
// helpers inside. Helpers enter while it is open; the caller closes it when no part is left and waits only
// for the helpers inside. The data of a round changes only while it is closed and no helper is inside.
struct Workers::ThreadPool {
    static constexpr uint64_t open = uint64_t{1} << 16, inside = open - 1, round = 2 * open;

    int process = 0;
    std::vector<std::thread> helpers;
    std::mutex mutex;
    std::condition_variable changed;
    std::atomic<uint64_t> round_state{0};
    std::atomic<bool> stop{false};
    const std::function<void(int64_t)>* work = nullptr;
    int64_t parts = 0;
    std::atomic<int64_t> next{0};
    std::mutex error_mutex;
    std::exception_ptr error;
    std::atomic<bool> failed{false};

    // Whether a round other than `last_round` is open.
    bool has_new_round(uint64_t last_round) const {
        const uint64_t state = round_state.load();
        return (state & open) && state / round != last_round;
    }

    void take_parts() {
        current_failed = &failed;
        for (;;) {
            const int64_t part = next.fetch_add(1);
            if (part >= parts || failed) break;
            try {
                (*work)(part);
            } catch (const Abandoned&) {
                failed = true;
            } catch (...) {
                const std::lock_guard<std::mutex> lock(error_mutex);
                if (!error) error = std::current_exception();
                failed = true;
            }
        }
        current_failed = nullptr;
    }
};

Workers::Workers() = default;

Workers::~Workers() {
    if (!has_threads || !pool_) return;
    if (pool_->process != this_process()) {
        pool_.release();  // after a fork: the threads exist in the parent only, there is nothing to join
        return;
    }
    {
        const std::lock_guard<std::mutex> lock(pool_->mutex);
        pool_->stop = true;
    }
    pool_->changed.notify_all();
    for (std::thread& helper : pool_->helpers) helper.join();
}

void Workers::run_helper(ThreadPool& pool) {
    uint64_t last_round = 0;
    for (;;) {
        for (int i = 0; i < spins && !pool.has_new_round(last_round) && !pool.stop; ++i) pause();
        if (!pool.has_new_round(last_round) && !pool.stop) {
            std::unique_lock<std::mutex> lock(pool.mutex);
            pool.changed.wait(lock, [&] { return pool.stop || pool.has_new_round(last_round); });
        }
        if (pool.stop) return;
        uint64_t state = pool.round_state.load();
        if (!(state & ThreadPool::open) || state / ThreadPool::round == last_round ||
            !pool.round_state.compare_exchange_strong(state, state + 1))
            continue;
        last_round = state / ThreadPool::round;
        pool.take_parts();
        pool.round_state.fetch_sub(1);
    }
}

// Take the helpers for as long as `owner` is locked. False if another caller has them or there are none.
bool Workers::acquire_helpers(std::unique_lock<std::mutex>& owner) {
    if (threads() < 2 || !owner.try_lock()) return false;
    if (pool_ && pool_->process != this_process()) pool_.release();
    if (!pool_) {
        pool_ = std::make_unique<ThreadPool>();
        pool_->process = this_process();
        try {
            for (int64_t i = 1; i < threads_; ++i)
                pool_->helpers.emplace_back([this, pool = pool_.get()] { run_helper(*pool); });
        } catch (const std::system_error&) {
            // The system allows no more threads: continue with those created so far.
        }
    }
    return !pool_->helpers.empty();
}

void Workers::run(int64_t parts, const std::function<void(int64_t)>& work) {
    std::unique_lock<std::mutex> owner(owner_, std::defer_lock);
    if (!has_threads || parts < 2 || !acquire_helpers(owner)) {
        for (int64_t part = 0; part < parts; ++part) work(part);
        return;
    }
    run_parts(parts, work);
}

void Workers::run_team(const std::function<void(const ThreadSlice&)>& work) {
    std::unique_lock<std::mutex> owner(owner_, std::defer_lock);
    if (!has_threads || !acquire_helpers(owner)) return work(ThreadSlice{});
    const int64_t size = pace_.members(std::min(static_cast<int64_t>(pool_->helpers.size()) + 1,
                                                max_team_size));
    if (size == 1) {
        owner.unlock();
        return work(ThreadSlice{});
    }
    Team team(size);
    std::atomic<int64_t> not_running{0};
    const int64_t start = now();
    // A member waits inside its part until all parts are taken, so no thread gets two (unless `work` never
    // waits).
    const int64_t late = run_parts(size, [&](int64_t part) {
        const int64_t cpu_before = thread_time();
        try {
            work(ThreadSlice{&team, part, size});
        } catch (...) {
            team.abandon();
            throw;
        }
        not_running += now() - start - (thread_time() - cpu_before);
    });
    pace_.note(size, Pace::delayed(size, now() - start, team.late() + late * (size - 1), not_running));
}

// Returns the nanoseconds that the caller waited for helpers after its own last part, beyond a short spin.
int64_t Workers::run_parts(int64_t parts, const std::function<void(int64_t)>& work) {
    ThreadPool& pool = *pool_;
    pool.work = &work;
    pool.parts = parts;
    pool.failed = false;
    pool.next = 0;
    {
        const std::lock_guard<std::mutex> lock(pool.mutex);
        pool.round_state = (pool.round_state / ThreadPool::round + 1) * ThreadPool::round + ThreadPool::open;
    }
    pool.changed.notify_all();
    pool.take_parts();
    pool.round_state.fetch_and(~ThreadPool::open);
    const int64_t late = spin_wait([&] { return (pool.round_state.load() & ThreadPool::inside) == 0; });
    if (pool.error) std::rethrow_exception(std::exchange(pool.error, nullptr));
    return late;
}

void Workers::check() const {
    if (current_failed && *current_failed) throw std::runtime_error("another thread of this call has failed");
    if (check_interrupt_) check_interrupt_();
}

void Team::wait() {
    const uint32_t phase = phase_.load();
    if (arrived_.fetch_add(1) + 1 == size_) {
        arrived_ = 0;
        phase_.fetch_add(1);
    }
    const int64_t late = spin_wait([&] {
        if (abandoned_) throw Abandoned();
        return phase_.load() != phase;
    });
    if (late) late_ += late;
}

void Team::abandon() { abandoned_ = true; }

}  // namespace uwaga
