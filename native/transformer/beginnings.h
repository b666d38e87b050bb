// The beginnings of prompts whose keys and values a decoder-only model keeps, so that later calls need not compute them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace uwaga {

struct Prompt;

// Remembers the latest prompts, as tokens. A beginning that a new prompt has in common with one of them is read into a
// store of its own and kept: a template costs two calls, and memory holds no keys of the texts in it. Thread-safe.
class Beginnings {
  public:
    static constexpr int64_t most_tokens = 2048;  // whose keys and values are kept, in all
    static constexpr std::size_t most_prompts = 8;

    struct Known {
        std::shared_ptr<const Prompt> kept;  // the beginning with the longest part that fits; null: none
        int64_t read = 0;                    // tokens of that part
        int64_t seen = 0;                    // tokens that are the beginning of an earlier prompt too
    };
    Known known(const int32_t* tokens, int64_t count);
    // `kept`: what was read of the tokens' beginning, or null.
    void remember(std::vector<int32_t> tokens, std::shared_ptr<const Prompt> kept);
    int64_t kept_tokens();

  private:
    struct Seen {
        std::vector<int32_t> tokens;
        std::shared_ptr<const Prompt> kept;

        int64_t read() const;
    };
    int64_t counted() const;

    std::mutex mutex_;
    std::vector<Seen> seen_;  // latest last
};

}  // namespace uwaga
