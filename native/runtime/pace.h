// How many threads work together while other processes compete for the same cores.
#pragma once

#include <algorithm>
#include <cstdint>

namespace uwaga {

// A team synchronises at every matrix, so one preempted member delays all. After a delayed piece of work the
// team is one member smaller for a pause, down to only the caller; then the larger team is tried again. Each
// failed try doubles the pause. Only speed depends on this.
class Pace {
  public:
    static constexpr int64_t shortest = 8, longest = 512;  // limits of a pause, in pieces of work between two
                                                           // tries
    static constexpr int64_t undelayed = 16;  // undelayed pieces after which the next pause is halved

    // Size of the next team, at most `max`.
    int64_t members(int64_t max) {
        if (limit_ >= max) return max;
        if (remaining_-- > 0) return limit_;
        remaining_ = pause_;
        trying_ = true;
        return ++limit_;
    }

    // Record whether a team of this size was delayed; the caller by itself never is.
    void note(int64_t members, bool delayed) {
        if (delayed) {
            limit_ = std::max<int64_t>(1, members - 1);
            remaining_ = pause_;
            pause_ = std::min(2 * pause_, longest);
            trying_ = false;
            successes_ = 0;
        } else if (trying_ && ++successes_ == undelayed) {  // success of a smaller team says nothing about
                                                            // the larger one
            pause_ = std::max(pause_ / 2, shortest);
            remaining_ = std::min(remaining_, pause_);
            successes_ = 0;
        }
    }

    // Whether a team one member smaller would have been no slower. Its loss is taken as 1 / (members + 1) of
    // the time, less than a member's share, because a team has overhead. `late` is the total time that
    // members waited for others beyond a short spin; `not_running` is the total time that they did not run.
    // Both must be large: a member with more work is waited for but runs; a preempted member does not run but
    // may not be waited for.
    static bool delayed(int64_t members, int64_t elapsed, int64_t late, int64_t not_running) {
        return std::min(late / (members - 1), not_running) > elapsed / (members + 1);
    }

  private:
    int64_t limit_ = INT64_MAX;
    int64_t remaining_ = 0;
    int64_t pause_ = shortest;
    int64_t successes_ = 0;
    bool trying_ = false;
};

}  // namespace uwaga
