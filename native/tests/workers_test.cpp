// Tests of the threads that share work: `make -C native/tests workers`.
//
// Members are made late by sleeping, many times longer than a busy machine delays a thread.
#include "runtime/workers.h"
#include "require.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <pthread.h>
#include <stdexcept>
#include <string>

using namespace uwaga;

namespace {

void sleep() { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }

// ---- The policy, step by step -----------------------------------------------------------------------------

// Pieces of work until a team of `size` is tried; smaller teams are not delayed.
int64_t until(Pace& pace, int64_t max, int64_t size) {
    for (int64_t count = 0;; ++count) {
        const int64_t members = pace.members(max);
        if (members >= size) return count;
        pace.note(members, false);
    }
}

void test_team_stays_full_without_delays() {
    Pace pace;
    for (int i = 0; i < 2000; ++i) {
        REQUIRE(pace.members(8) == 8);
        pace.note(8, false);
    }
}

void test_pauses_double_while_trying_fails() {
    for (const int64_t max : {2, 3, 8}) {
        Pace pace;
        REQUIRE(pace.members(max) == max);
        for (int64_t expected = Pace::shortest, i = 0; i < 12;
             ++i, expected = std::min(2 * expected, Pace::longest)) {
            pace.note(max, true);
            REQUIRE(until(pace, max, max) == expected);
        }
    }
}

void test_team_shrinks_to_undelayed_size() {
    for (int64_t free = 1; free < 8; ++free) {
        Pace pace;
        int64_t held_up = 0;
        for (int64_t i = 0; i < 10000; ++i) {
            const int64_t members = pace.members(8);
            REQUIRE(1 <= members && members <= free + 1 + 8 * (i < 8));
            pace.note(members, members > free);
            held_up += members > free;
        }
        REQUIRE(held_up <= 8 + 10000 / Pace::longest + 8);
    }
}

void test_excluded_member_is_readmitted() {
    Pace pace;
    for (int i = 0; i < 20; ++i) {
        const int64_t members = pace.members(4);
        pace.note(members, members > 1);
        if (members == 1) until(pace, 4, 2), pace.note(2, true);
    }
    REQUIRE(until(pace, 4, 4) < 2 * Pace::longest);
    pace.note(4, false);
    for (int i = 0; i < 6 * Pace::undelayed; ++i) {
        REQUIRE(pace.members(4) == 4);
        pace.note(4, false);
    }
    REQUIRE(pace.members(4) == 4);
    pace.note(4, true);  // as if there had been no delays
    REQUIRE(until(pace, 4, 4) == Pace::shortest);
}

void test_member_that_is_awaited_without_running_is_a_delay() {
    REQUIRE(!Pace::delayed(2, 900, 0, 0));
    REQUIRE(Pace::delayed(2, 900, 301, 301));
    REQUIRE(!Pace::delayed(2, 900, 300, 900));     // a third is the most that a team of two costs
    REQUIRE(!Pace::delayed(2, 900, 600, 10));      // waited for, but running
    REQUIRE(!Pace::delayed(2, 900, 10, 600));      // not running, but not waited for
    REQUIRE(Pace::delayed(8, 900, 7 * 101, 101));  // waited for by all the others
    REQUIRE(!Pace::delayed(8, 900, 7 * 100, 100));
}

// ---- The threads ------------------------------------------------------------------------------------------

// The size of the team. With `late`, one of its members is late.
int64_t members(Workers& workers, bool late) {
    std::atomic<int64_t> size{0}, came{0};
    workers.run_team([&](const ThreadSlice& slice) {
        size = slice.count;
        if (late && slice.index + 1 == slice.count && slice.count > 1) sleep();
        slice.wait();
        ++came;
        slice.wait();
        REQUIRE(came == slice.count);
    });
    return size;
}

void test_late_member_is_excluded_temporarily() {
    Workers workers;
    workers.configure(2, nullptr);
    REQUIRE(members(workers, true) == 2);
    for (const int64_t expected : {8, 16, 32, 64}) {
        for (int64_t i = 0; i < expected; ++i) REQUIRE(members(workers, true) == 1);
        REQUIRE(members(workers, true) == 2);
    }
}

void test_team_shrinks_by_single_members() {
    Workers workers;
    workers.configure(4, nullptr);
    for (const int64_t expected : {4, 3, 2, 1, 1, 1}) REQUIRE(members(workers, true) == expected);
}

// Each part is done once, whoever is late, in many rounds in quick succession.
void test_every_part_runs_once() {
    for (const int64_t threads : {1, 2, 3, 5}) {
        Workers workers;
        workers.configure(threads, nullptr);
        for (int64_t round = 0; round < 20000; ++round) {
            const int64_t parts = round % 7;
            int64_t counts[7] = {};  // not atomic: the thread sanitizer detects helpers that stay in a round
            workers.run(parts, [&](int64_t part) { counts[part] += round + 1; });
            for (int64_t part = 0; part < 7; ++part) REQUIRE(counts[part] == (part < parts ? round + 1 : 0));
            if (round % 5 == 0) members(workers, false);
        }
    }
}

std::atomic<bool> held{false}, released{false};

void hold(int) {
    held = true;
    while (!released) {
    }
}

// The only helper is held in a signal handler, like a thread that is preempted.
void test_unstarted_helpers_are_not_awaited() {
    Workers workers;
    workers.configure(2, nullptr);
    std::atomic<bool> started{false};
    const pthread_t caller = pthread_self();
    pthread_t helper{};
    workers.run_team([&](const ThreadSlice& slice) {
        if (pthread_self() != caller) helper = pthread_self(), started = true;
        slice.wait();
    });
    REQUIRE(started);
    std::signal(SIGUSR1, hold);
    REQUIRE(pthread_kill(helper, SIGUSR1) == 0);
    while (!held) std::this_thread::yield();
    int64_t counts[3] = {};
    for (int round = 0; round < 100; ++round) workers.run(3, [&](int64_t part) { ++counts[part]; });
    for (const int64_t times : counts) REQUIRE(times == 100);
    released = true;
    REQUIRE(members(workers, false) >= 1);  // and the helper joins again when it can
}

void test_errors_reach_the_caller_and_leave_the_threads_usable() {
    Workers workers;
    workers.configure(3, nullptr);
    for (int i = 0; i < 500; ++i) {
        for (int64_t who = 0; who < 3; ++who) {
            try {
                workers.run_team([&](const ThreadSlice& slice) {
                    if (slice.index == who % slice.count) throw std::runtime_error("mine");
                    slice.wait();
                });
                REQUIRE(false);
            } catch (const std::runtime_error& error) {
                REQUIRE(std::string(error.what()) == "mine");
            }
        }
        members(workers, false);
        try {
            workers.run(4, [](int64_t part) {
                if (part == 2) throw std::runtime_error("mine");
            });
            REQUIRE(false);
        } catch (const std::runtime_error&) {
        }
    }
}

void test_concurrent_callers() {
    Workers workers;
    workers.configure(3, nullptr);
    std::vector<std::thread> callers;
    for (int caller = 0; caller < 3; ++caller) {
        callers.emplace_back([&] {
            for (int i = 0; i < 300; ++i) {
                members(workers, i % 100 == 0);
                int64_t counts[4] = {};
                workers.run(4, [&](int64_t part) { counts[part] = part; });
                REQUIRE(std::accumulate(counts, counts + 4, int64_t{0}) == 6);
            }
        });
    }
    for (std::thread& caller : callers) caller.join();
}

}  // namespace

int main() {
    test_team_stays_full_without_delays();
    test_pauses_double_while_trying_fails();
    test_team_shrinks_to_undelayed_size();
    test_excluded_member_is_readmitted();
    test_member_that_is_awaited_without_running_is_a_delay();
    std::printf("pace: passed\n");
    test_late_member_is_excluded_temporarily();
    test_team_shrinks_by_single_members();
    std::printf("late members: passed\n");
    test_every_part_runs_once();
    test_unstarted_helpers_are_not_awaited();
    test_errors_reach_the_caller_and_leave_the_threads_usable();
    test_concurrent_callers();
    std::printf("threads: passed\n");
}
