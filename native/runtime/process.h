// The process and a thread's CPU time, by the calls of each operating system.
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>

#if !defined(_WIN32)
#include <unistd.h>
#endif

namespace uwaga {

// Whether threads can be started; without, nothing of them is in the program.
#if defined(__EMSCRIPTEN__) && !defined(__EMSCRIPTEN_PTHREADS__)
constexpr bool has_threads = false;
#else
constexpr bool has_threads = true;
#endif

// Nanoseconds on a clock that all threads share.
inline int64_t now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now()
                                                                    .time_since_epoch())
        .count();
}

// CPU time of the calling thread in nanoseconds; elapsed time where that is not measured.
inline int64_t thread_time() {
#if defined(CLOCK_THREAD_CPUTIME_ID)
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return int64_t{1000000000} * time.tv_sec + time.tv_nsec;
#else
    return now();
#endif
}

// A number that differs between a process and its forks.
inline int this_process() {
#if defined(_WIN32)
    return 0;  // Windows has no forks
#else
    return static_cast<int>(getpid());
#endif
}

}  // namespace uwaga
