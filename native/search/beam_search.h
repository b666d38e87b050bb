// Beam search over a batch of sentences, without Python between steps. Sentences can enter while others are
// decoded.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "network/network.h"
#include "search/sentence_search.h"

namespace uwaga {

// Thrown if log-probabilities are NaN, with the sentences affected. The search is as it was before the step.
struct NotNumbers : std::domain_error {
    NotNumbers(const std::string& message, std::vector<int64_t> numbers)
        : std::domain_error(message), sentences(std::move(numbers)) {}
    std::vector<int64_t> sentences;
};

// A finished sentence; a token decided for a sentence that streams.
struct FinishedSentence {
    int64_t sentence;
    std::vector<Hypothesis> hypotheses;
    std::vector<TreeNode> tree = {};  // if the rules keep the tree
};
struct DecidedToken {
    int64_t sentence;
    int32_t token;
    float log_prob;
};

class BeamSearch {
  public:
    BeamSearch(NetworkPtr network, BeamRules rules);
    BeamSearch(const BeamSearch&) = delete;
    BeamSearch& operator=(const BeamSearch&) = delete;

    const BeamRules& rules() const { return rules_; }
    // Add one entry per sentence of the memory; returns the number of the first. Numbers are consecutive.
    int64_t enter(const Memory& memory, std::vector<Entry> entries);
    // Stop decoding the sentences for whose number `removed` returns true.
    void leave(const std::function<bool(int64_t)>& removed);
    // Extend all hypotheses of all running sentences by one token.
    void step();
    // After a failed step: the running sentences whose step fails even by itself. Empty if none does, or if
    // the search has lost its state.
    std::vector<int64_t> failing_sentences();
    // Make at least one step, then more until the running sentences have at most `tokens` source tokens in
    // total.
    void run(int64_t tokens);
    const std::vector<SentenceSearch>& running() const { return running_; }
    // Results since the last call.
    std::vector<FinishedSentence> take_finished() { return std::exchange(finished_, {}); }
    std::vector<DecidedToken> take_decided() { return std::exchange(decided_, {}); }

  private:
    State next_state(int64_t& k, int64_t& requested);
    Request request();
    void add_requested(Request& request);
    void propose(std::vector<int32_t>& last_tokens);
    void apply_draft_bias(int64_t width);
    bool accepted(std::size_t row, std::size_t last, int64_t width) const;
    void check_numbers(int64_t width);
    void apply_candidates(State state, int64_t k, int64_t requested);
    bool advance(SentenceSearch& sentence, std::size_t row, int64_t k, int64_t requested, int64_t* parents);

    NetworkPtr network_;
    const BeamRules rules_;
    std::vector<int32_t> banned_before_end_;  // rules_.never and the end symbols
    State state_;
    std::vector<SentenceSearch> running_;
    int64_t entered_ = 0;
    bool consistent_ = true;  // whether state_ and running_ are consistent, as after a completed step
    std::vector<FinishedSentence> finished_;
    std::vector<DecidedToken> decided_;
    std::vector<int64_t> forced_, requested_, tokens_;  // of a step: (rows,), (rows, requested), (rows, k +
                                                        // requested)
    std::vector<float> log_probs_;                      // (rows, k + requested)
    std::vector<int64_t> first_rows_;    // (sentences + 1,): a sentence has a row for each beam, or for each
                                         // token of a draft
    std::vector<int32_t> input_tokens_;  // (rows,)
    bool drafts_ = false;                // whether a sentence has rows of a draft
};

}  // namespace uwaga
