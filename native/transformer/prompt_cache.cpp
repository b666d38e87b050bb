#include "transformer/prompt_cache.h"

#include <algorithm>
#include <utility>

#include "network/state.h"

namespace uwaga {

int64_t PromptCache::Entry::cached() const {
    return prompt ? static_cast<int64_t>(prompt->offsets.size()) : 0;
}

PromptCache::Match PromptCache::find(const int32_t* tokens, int64_t count) {
    Match match;
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Entry& entry : entries_) {
        const int64_t common = std::mismatch(tokens, tokens + count, entry.tokens.begin(), entry.tokens.end())
                                   .first -
                               tokens;
        const int64_t cached = std::min(common, entry.cached());
        match.repeated = std::max(match.repeated, common);
        // Of two equally long matches, the shorter prompt: only a complete prompt can be continued and
        // cached.
        if (cached > match.cached || (cached && cached == match.cached && cached == entry.cached())) {
            match.prompt = entry.prompt;
            match.cached = cached;
        }
    }
    return match;
}

void PromptCache::remember(std::vector<int32_t> tokens, std::shared_ptr<const Prompt> prompt) {
    if (static_cast<int64_t>(tokens.size()) < page_entries) return;  // too short to share
    Entry added{std::move(tokens), std::move(prompt)};
    if (added.cached() > max_tokens) added.prompt = nullptr;
    std::vector<Entry> dropped;  // freed after the lock is released
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto drop = [&](auto entry) {
        dropped.push_back(std::move(*entry));
        entries_.erase(entry);
    };
    const auto duplicate = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
        return entry.prompt ? entry.prompt == added.prompt : entry.tokens == added.tokens;
    });
    if (duplicate != entries_.end()) drop(duplicate);
    entries_.push_back(std::move(added));
    while (entries_.size() > max_prompts || count_cached() > max_tokens) drop(entries_.begin());
}

int64_t PromptCache::cached_tokens() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return count_cached();
}

// Tokens whose keys and values are cached. Needs the mutex. A prompt that continues another counts both.
int64_t PromptCache::count_cached() const {
    int64_t tokens = 0;
    for (const Entry& entry : entries_) tokens += entry.cached();
    return tokens;
}

}  // namespace uwaga
