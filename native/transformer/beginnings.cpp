#include "transformer/beginnings.h"

#include <algorithm>
#include <utility>

#include "transformer/state.h"

namespace uwaga {

int64_t Beginnings::Seen::read() const { return kept ? static_cast<int64_t>(kept->offsets.size()) : 0; }

Beginnings::Known Beginnings::known(const int32_t* tokens, int64_t count) {
    Known found;
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Seen& one : seen_) {
        const int64_t common = std::mismatch(tokens, tokens + count, one.tokens.begin(), one.tokens.end()).first - tokens;
        const int64_t read = std::min(common, one.read());
        found.seen = std::max(found.seen, common);
        // Of two that fit as far, the shorter: only a whole one can be gone on from and kept.
        if (read > found.read || (read && read == found.read && read == one.read())) {
            found.kept = one.kept;
            found.read = read;
        }
    }
    return found;
}

void Beginnings::remember(std::vector<int32_t> tokens, std::shared_ptr<const Prompt> kept) {
    if (static_cast<int64_t>(tokens.size()) < page_entries) return;  // too short to share
    Seen added{std::move(tokens), std::move(kept)};
    if (added.read() > most_tokens) added.kept = nullptr;
    std::vector<Seen> dropped;  // freed after the lock is released
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto drop = [&](auto at) {
        dropped.push_back(std::move(*at));
        seen_.erase(at);
    };
    const auto same = std::find_if(seen_.begin(), seen_.end(), [&](const Seen& one) { return one.kept ? one.kept == added.kept : one.tokens == added.tokens; });
    if (same != seen_.end()) drop(same);
    seen_.push_back(std::move(added));
    while (seen_.size() > most_prompts || counted() > most_tokens) drop(seen_.begin());
}

int64_t Beginnings::kept_tokens() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return counted();
}

// Tokens whose keys and values are kept. Needs the mutex. A beginning that goes on from another counts both.
int64_t Beginnings::counted() const {
    int64_t tokens = 0;
    for (const Seen& one : seen_) tokens += one.read();
    return tokens;
}

}  // namespace uwaga
