// A draft: a target that the model would probably write. A step checks several of its tokens at once (M42).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

namespace uwaga {

// How a sentence used its draft: tokens that were proposed, those that the model chose too, and passes of the model.
struct DraftUse {
    int64_t proposed = 0, accepted = 0, passes = 0;
};

// The twin of uwaga.search.drafts.DraftCursor.
//
// After a rejected token the target may rejoin the draft: at the next place if one token was replaced, where the draft
// has the token that was decided, or at the draft's last token, which often ends a longer sentence too. The number of proposed tokens doubles while all are accepted and halves when
// none is, down to 0: then only plain steps are made, until a decided token is in the draft again.
class DraftCursor {
  public:
    explicit DraftCursor(std::vector<int32_t> tokens) : tokens_(std::move(tokens)) {}

    int64_t size() const { return static_cast<int64_t>(tokens_.size()); }
    const std::vector<int32_t>& tokens() const { return tokens_; }
    const DraftUse& use() const { return use_; }
    // Whether the target has been the draft so far.
    bool follows() const { return follows_; }

    // The tokens to propose, at most `most`.
    std::pair<const int32_t*, int64_t> proposal(int64_t most) const {
        return {tokens_.data() + next_, std::max<int64_t>(0, std::min({window_, size() - next_, most}))};
    }

    // Take a decided token.
    void take(int32_t token) {
        if (next_ < size() && tokens_[static_cast<std::size_t>(next_)] == token) {
            confirmed_ = ++next_;
            window_ = std::max<int64_t>(window_, 1);
            return;
        }
        follows_ = false;
        const int64_t from = std::max(confirmed_, next_ - reach), to = std::min(size(), next_ + reach);
        int64_t found = -1;
        for (int64_t at = from; at < to; ++at) {  // the nearest; the later of two
            if (tokens_[static_cast<std::size_t>(at)] == token && (found < 0 || std::abs(at - next_) <= std::abs(found - next_))) found = at;
        }
        if (found >= 0) window_ = std::max<int64_t>(window_, 1);
        if (found >= 0) next_ = found + 1;
        else if (next_ < size()) next_ = std::min(next_ + 1, size() - 1);
    }

    // Count a pass and adapt the number of proposed tokens.
    void count(int64_t proposed, int64_t accepted) {
        ++use_.passes;
        use_.proposed += proposed;
        use_.accepted += accepted;
        if (!proposed) return;
        if (accepted == proposed) window_ = std::min(2 * window_ + 1, most_window);
        else window_ = accepted ? std::clamp<int64_t>(2 * accepted, 2, window_) : window_ / 2;
    }

  private:
    static constexpr int64_t reach = 16, first_window = 7, most_window = 63;  // with the last token, whole blocks of 8 rows of a product

    std::vector<int32_t> tokens_;
    int64_t next_ = 0;       // the draft's token that is expected next
    int64_t confirmed_ = 0;  // after the last token that was expected and decided
    int64_t window_ = first_window;
    bool follows_ = true;
    DraftUse use_;
};

}  // namespace uwaga
