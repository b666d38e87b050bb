#include "workers.h"

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <system_error>
#include <unistd.h>
#include <utility>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace uwaga {

namespace {
constexpr int64_t largest_team = 8;  // more would have a panel or two of most matrices each
thread_local const std::atomic<bool>* failed_here = nullptr;  // of the crew whose work this thread is at
constexpr int spins = 4000;  // about 50 microseconds: the pause between two steps of a busy search

inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
    _mm_pause();
#else
    std::this_thread::yield();
#endif
}
}  // namespace

struct Workers::Crew {
    pid_t process = 0;
    std::vector<std::thread> helpers;
    std::mutex mutex;
    std::condition_variable changed;
    std::atomic<uint64_t> round{0};
    std::atomic<bool> stop{false};
    const std::function<void(int64_t)>* work = nullptr;
    int64_t parts = 0;
    std::atomic<int64_t> next{0};
    std::atomic<int64_t> busy{0};  // helpers that have not finished this round
    std::mutex error_mutex;
    std::exception_ptr error;
    std::atomic<bool> failed{false};

    void share() {
        failed_here = &failed;
        for (;;) {
            const int64_t part = next.fetch_add(1);
            if (part >= parts || failed) break;
            try {
                (*work)(part);
            } catch (...) {
                const std::lock_guard<std::mutex> lock(error_mutex);
                if (!error) error = std::current_exception();
                failed = true;
            }
        }
        failed_here = nullptr;
    }
};

Workers::Workers() = default;

Workers::~Workers() {
    if (!crew_) return;
    if (crew_->process != getpid()) {
        crew_.release();  // the threads stayed in the parent process; nothing can be joined
        return;
    }
    {
        const std::lock_guard<std::mutex> lock(crew_->mutex);
        crew_->stop = true;
    }
    crew_->changed.notify_all();
    for (std::thread& helper : crew_->helpers) helper.join();
}

void Workers::help(Crew& crew) {
    uint64_t seen = 0;
    for (;;) {
        for (int i = 0; i < spins && crew.round.load() == seen && !crew.stop; ++i) pause();
        if (crew.round.load() == seen && !crew.stop) {
            std::unique_lock<std::mutex> lock(crew.mutex);
            crew.changed.wait(lock, [&] { return crew.stop || crew.round.load() != seen; });
        }
        if (crew.stop) return;
        seen = crew.round.load();
        crew.share();
        crew.busy.fetch_sub(1);
    }
}

// Whether the helpers are there and the caller's alone for as long as it holds `owner`.
bool Workers::gather(std::unique_lock<std::mutex>& owner) {
    if (threads_ < 2 || !owner.try_lock()) return false;
    if (crew_ && crew_->process != getpid()) crew_.release();
    if (!crew_) {
        crew_ = std::make_unique<Crew>();
        crew_->process = getpid();
        try {
            for (int64_t i = 1; i < threads_; ++i) crew_->helpers.emplace_back([this, crew = crew_.get()] { help(*crew); });
        } catch (const std::system_error&) {
            // The system gives this process no more threads: the work is done by those that there are.
        }
    }
    return !crew_->helpers.empty();
}

void Workers::run(int64_t parts, const std::function<void(int64_t)>& work) {
    std::unique_lock<std::mutex> owner(owner_, std::defer_lock);
    if (parts < 2 || !gather(owner)) {
        for (int64_t part = 0; part < parts; ++part) work(part);
        return;
    }
    lead(parts, work);
}

void Workers::together(const std::function<void(const Share&)>& work) {
    std::unique_lock<std::mutex> owner(owner_, std::defer_lock);
    if (!gather(owner)) return work(Share{});
    Team team(std::min(static_cast<int64_t>(crew_->helpers.size()) + 1, largest_team));
    // Nobody takes a second part: whoever has one waits in it for the others.
    lead(team.size(), [&](int64_t part) {
        try {
            work(Share{&team, part, team.size()});
        } catch (...) {
            team.abandon();
            throw;
        }
        team.wait();
    });
}

void Workers::lead(int64_t parts, const std::function<void(int64_t)>& work) {
    Crew& crew = *crew_;
    crew.work = &work;
    crew.parts = parts;
    crew.failed = false;
    crew.next = 0;
    crew.busy = static_cast<int64_t>(crew.helpers.size());
    {
        const std::lock_guard<std::mutex> lock(crew.mutex);
        crew.round.fetch_add(1);
    }
    crew.changed.notify_all();
    crew.share();
    for (int i = 0; crew.busy.load() > 0; ++i) {
        if (i < spins) pause();
        else std::this_thread::yield();
    }
    if (crew.error) std::rethrow_exception(std::exchange(crew.error, nullptr));
}

void Workers::check() const {
    if (failed_here && *failed_here) throw std::runtime_error("another thread of this call has failed");
    if (look_) look_();
}

void Team::wait() {
    const uint32_t phase = phase_.load();
    if (arrived_.fetch_add(1) + 1 == size_) {
        arrived_ = 0;
        phase_.fetch_add(1);
    }
    for (int i = 0; phase_.load() == phase; ++i) {
        if (abandoned_) throw std::runtime_error("another thread of this step has failed");
        if (i < spins) pause();
        else std::this_thread::yield();
    }
}

void Team::abandon() { abandoned_ = true; }

}  // namespace uwaga
