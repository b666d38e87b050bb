// How many threads work together while other processes want the same cores.
#pragma once

#include <algorithm>
#include <cstdint>

namespace uwaga {

// A team waits for each of its members at every matrix, so that one whose core is taken away holds up all. After work
// that was held up the team is one smaller for a while, down to the caller alone, and then tried again; while trying
// fails, the while doubles. Only speed depends on any of this.
class Pace {
  public:
    static constexpr int64_t shortest = 8, longest = 512;  // pieces of work between two tries of a larger team
    static constexpr int64_t enough = 16;                  // pieces that go well until the next while is halved

    // Members of the next team, of at most `most`.
    int64_t members(int64_t most) {
        if (limit_ >= most) return most;
        if (left_-- > 0) return limit_;
        left_ = pause_;
        trying_ = true;
        return ++limit_;
    }

    // Held up or not is what a team of that many was; the caller alone never is.
    void note(int64_t members, bool held_up) {
        if (held_up) {
            limit_ = std::max<int64_t>(1, members - 1);
            left_ = pause_;
            pause_ = std::min(2 * pause_, longest);
            trying_ = false;
            well_ = 0;
        } else if (trying_ && ++well_ == enough) {  // of a smaller team that goes well nothing follows for the larger one
            pause_ = std::max(pause_ / 2, shortest);
            left_ = std::min(left_, pause_);
            well_ = 0;
        }
    }

    // Whether a team one smaller would have been no slower, of which 1 / (members + 1) is taken to be the loss: less
    // than its share of the work, for a team does not work without friction. `late` is the sum of what members waited
    // for others beyond a short while; `away` of what members did not run. Who only has more to do than others is
    // waited for, but runs; who waits for his turn on a core does not run, but may not be waited for.
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
