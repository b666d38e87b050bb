// A batch of sentences decoded without Python between the steps; sentences may enter while others are decoded.
#pragma once

#include <stdexcept>
#include <vector>

#include "search/sentence_search.h"
#include "transformer/state.h"

namespace uwaga {

// Log-probabilities that are no numbers.
struct NotNumbers : std::domain_error {
    using std::domain_error::domain_error;
};

class BeamSearch {
  public:
    BeamSearch(ModelPtr model, BeamRules rules);
    BeamSearch(const BeamSearch&) = delete;
    BeamSearch& operator=(const BeamSearch&) = delete;

    const Model& model() const { return *model_; }
    const BeamRules& rules() const { return rules_; }
    // One entry for each sentence of the memory.
    void enter(const Memory& memory, std::vector<Entry> entries);
    // At least one step, and then until the sentences that are being decoded have `tokens` source tokens or fewer.
    void run(int64_t tokens);
    const std::vector<SentenceSearch>& running() const { return running_; }
    // By order of entry; empty for a sentence that is being decoded.
    const std::vector<std::vector<FoundHypothesis>>& found() const { return found_; }

  private:
    void step();
    Request request();
    void add_wanted(Request& request);
    void settle(State state, int64_t k, int64_t wanted);

    ModelPtr model_;
    const BeamRules rules_;
    std::vector<int32_t> never_yet_;  // what may never be produced, and the end symbol
    State state_;
    std::vector<SentenceSearch> running_;
    std::vector<std::vector<FoundHypothesis>> found_;
    std::vector<int64_t> forced_, wanted_, tokens_;  // (rows,), (rows, wanted) and (rows, k + wanted), of a step
    std::vector<float> log_probs_;                   // (rows, k + wanted)
};

}  // namespace uwaga
