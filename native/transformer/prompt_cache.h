// A cache of prompts: a decoder-only model keeps their keys and values, so that later calls need not compute
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace uwaga {

struct Prompt;

// Remembers the tokens of the latest prompts. A prefix that a new prompt shares with one of them gets a
// separate store, which is cached: a template is computed twice, and memory holds no keys of the texts
// inserted into it. Thread-safe.
class PromptCache {
  public:
    static constexpr int64_t max_tokens = 2048;  // maximum of cached tokens, in total
    static constexpr std::size_t max_prompts = 8;

    struct Match {
        std::shared_ptr<const Prompt> prompt;  // the cached prompt with the longest common prefix; null: none
        int64_t cached = 0;                    // length of that prefix
        int64_t repeated = 0;                  // tokens that an earlier prompt starts with too
    };
    Match find(const int32_t* tokens, int64_t count);
    // `prompt`: the computed prefix of the tokens, or null.
    void remember(std::vector<int32_t> tokens, std::shared_ptr<const Prompt> prompt);
    int64_t cached_tokens();

  private:
    struct Entry {
        std::vector<int32_t> tokens;
        std::shared_ptr<const Prompt> prompt;

        int64_t cached() const;
    };
    int64_t count_cached() const;

    std::mutex mutex_;
    std::vector<Entry> entries_;  // latest last
};

}  // namespace uwaga
