// Texts to translations: tokens, search, texts again, alignment, attention and insight.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/model_files.h"

namespace uwaga {

// A given translation: its text, or its tokens without the end symbol.
struct Target {
    std::string_view text;
    std::optional<std::vector<int32_t>> tokens;
};

struct TranslateRequest {
    Decoding decoding;
    std::string tag;        // of the target language, put before texts without one; "" for none
    int32_t language = -1;  // the token of the texts' language in the model's frame; -1 for none
    bool alignment = false, attention = false, tree = false, streams = false;
    Edits edits = {};
    std::optional<std::vector<std::string>> insight = {};  // names of arrays of the best translations; none:
                                                           // all of them
    std::optional<std::vector<Target>> targets = {};  // targets that the decoder is forced along, one for
                                                      // each text
};

struct TextTranslation {
    std::string text;
    double score = 0;
    bool truncated = false;
    std::vector<int32_t> tokens;
    std::vector<double> log_probs;
    std::vector<NamedArray> arrays;
};
struct TextResult {
    std::vector<int32_t> source;
    std::vector<NamedArray> arrays;  // of all translations
    std::vector<TextTranslation> translations;
};

// Memory that calls have reserved of a bound.
class Budget {
  public:
    explicit Budget(int64_t bound) : bound_(bound) {}
    bool take(int64_t bytes) {
        if ((used_ += bytes) <= bound_ || !bound_) return true;
        used_ -= bytes;
        return false;
    }
    void release(int64_t bytes) { used_ -= bytes; }

  private:
    const int64_t bound_;  // 0: none
    std::atomic<int64_t> used_{0};
};

struct Hooks {
    std::function<bool()> cancelled;
    std::function<bool(std::size_t text, int32_t token, double log_prob, const std::string& translation)>
        on_token;  // false: cancel
};

// Throws Failure. `bound` in bytes is of this call, 0 for none.
std::vector<TextResult> translate(const OpenedModel& opened, const std::vector<std::string_view>& texts,
                                  const TranslateRequest& request, Budget& budget, int64_t bound,
                                  const Hooks& hooks);

}  // namespace uwaga
