// How many threads work together while other processes compete for the same cores.
#pragma once

#include <algorithm>
#include <cstdint>

namespace uwaga {

// A team synchronises at every matrix, so one preempted member delays all. After a delayed piece of work the team is
// one member smaller for a pause, down to the caller alone; then the larger team is tried again. Each failed try
// doubles the pause. Only speed depends on this.
class Pace {
  public:
    static constexpr int64_t shortest = 8, longest = 512;  // limits of a pause, in pieces of work between two tries
    static constexpr int64_t enough = 16;                  // undelayed pieces after which the next pause is halved

    // Size of the next team, at most `most`.
    int64_t members(int64_t most) {
        if (limit_ >= most) return most;
        if (left_-- > 0) return limit_;
        left_ = pause_;
        trying_ = true;
        return ++limit_;
    }

    // Record whether a team of this size was delayed; the caller alone never is.
    void note(int64_t members, bool held_up) {
        if (held_up) {
            limit_ = std::max<int64_t>(1, members - 1);
            left_ = pause_;
            pause_ = std::min(2 * pause_, longest);
            trying_ = false;
            well_ = 0;
        } else if (trying_ && ++well_ == enough) {  // success of a smaller team says nothing about the larger one
            pause_ = std::max(pause_ / 2, shortest);
            left_ = std::min(left_, pause_);
            well_ = 0;
        }
    }

    // Whether a team one member smaller would have been no slower. Its loss is taken as 1 / (members + 1) of the time,
    // less than a member's share, because a team has overhead. `late` is the total time that members waited for others
    // beyond a short spin; `away` is the total time that they did not run. Both must be large: a member with more work
    // is waited for but runs; a preempted member does not run but may not be waited for.
    static bool held_up(int64_t members, int64_t took, int64_t late, int64_t away) {
        return std::min(late / (members - 1), away) > took / (members + 1);
    }

  private:
    int64_t limit_ = INT64_MAX;
    int64_t left_ = 0;
    int64_t pause_ = shortest;
    int64_t well_ = 0;
    bool trying_ = false;
};

}  // namespace uwaga
