// A draft: a target that the model would probably write. A step checks several of its tokens at once (M42).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

namespace uwaga {

// How a sentence used its draft: tokens that were proposed, those that the model chose too, and passes of the
// model.
struct DraftUse {
    int64_t proposed = 0, accepted = 0, passes = 0;
};

// The counterpart of uwaga.search.drafts.DraftCursor.
//
// After a rejected token the draft is resumed where the edit distance from the target so far to a prefix of
// the draft is least (Wagner & Fischer 1974). Leaving out a token of the draft costs 1; a token of the target
// that the draft lacks, in place of one of the draft or between two, costs `missing`. The last token is
// proposed again after it was rejected: it often ends a longer sentence too.
//
// The number of proposed tokens doubles while all are accepted, follows the number of accepted ones when some
// are, and halves when none is, down to 0: then only plain steps are made, until a decided token is in the
// draft again.
class DraftCursor {
  public:
    explicit DraftCursor(std::vector<int32_t> tokens)
        : tokens_(std::move(tokens)), distances_(tokens_.size() + 1) {
        std::iota(distances_.begin(), distances_.end(), 0);
    }

    int64_t size() const { return static_cast<int64_t>(tokens_.size()); }
    const std::vector<int32_t>& tokens() const { return tokens_; }
    const DraftUse& use() const { return use_; }
    // Whether the target has been the draft so far.
    bool follows() const { return follows_; }

    // The tokens to propose, at most `max`.
    std::pair<const int32_t*, int64_t> proposal(int64_t max) const {
        return {tokens_.data() + next_, std::max<int64_t>(0, std::min({window_, size() - next_, max}))};
    }

    // Take a decided token.
    void take(int32_t token) {
        const Alignment nearest = align(token);
        const bool expected = next_ < size() && tokens_[static_cast<std::size_t>(next_)] == token;
        follows_ = follows_ && expected;
        if (expected) ++next_;
        else if (nearest.equal) next_ = nearest.position;
        else if (next_ < size()) next_ = std::min(nearest.position, size() - 1);
        if (expected || nearest.equal) window_ = std::max<int64_t>(window_, 1);
    }

    // Count a pass and adapt the number of proposed tokens.
    void count(int64_t proposed, int64_t accepted) {
        ++use_.passes;
        use_.proposed += proposed;
        use_.accepted += accepted;
        if (!proposed) return;
        if (accepted == proposed) window_ = std::min(2 * window_ + 1, max_window);
        else window_ = accepted ? std::clamp<int64_t>(2 * accepted, 3, first_window) : window_ / 2;
    }

  private:
    static constexpr int64_t first_window = 7, max_window = 63;  // with the last token, whole blocks of 8
                                                                 // rows of a product
    static constexpr int64_t missing = 5;

    struct Alignment {
        int64_t position;
        bool equal;  // the draft's token before it is the target's last
    };

    // Count a token of the target in the distances. Return the position with the least; of several, one
    // behind an equal token, and then the nearest to the one that would be next if a token had been replaced.
    Alignment align(int32_t token) {
        const int64_t replaced = std::min(next_ + 1, size());
        int64_t before = distances_[0];
        distances_[0] += missing;
        Alignment best{0, false};
        int64_t best_distance = distances_[0];
        for (int64_t position = 1; position <= size(); ++position) {
            int64_t& distance = distances_[static_cast<std::size_t>(position)];
            const bool equal = tokens_[static_cast<std::size_t>(position - 1)] == token;
            const int64_t substituted = before + (equal ? 0 : missing);
            before = distance;
            distance = std::min({substituted, before + missing,
                                 distances_[static_cast<std::size_t>(position - 1)] + 1});
            const Alignment candidate{position, equal && distance == substituted};
            const auto rank = [&](const Alignment& alignment, int64_t cost) {
                return std::make_tuple(cost, !alignment.equal, std::abs(alignment.position - replaced),
                                       -alignment.position);
            };
            if (rank(candidate, distance) < rank(best, best_distance))
                best = candidate, best_distance = distance;
        }
        return best;
    }

    std::vector<int32_t> tokens_;
    std::vector<int64_t> distances_;  // from the target so far to the prefixes of the draft
    int64_t next_ = 0;                // the draft's token that is expected next
    int64_t window_ = first_window;
    bool follows_ = true;
    DraftUse use_;
};

}  // namespace uwaga
