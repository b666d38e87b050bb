// A batch of sentences decoded without Python between the steps; sentences may enter while others are decoded.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "search/sentence_search.h"
#include "transformer/state.h"

namespace uwaga {

// Log-probabilities that are no numbers, and of which sentences. The search is as it was before the step.
struct NotNumbers : std::domain_error {
    NotNumbers(const std::string& message, std::vector<int64_t> of) : std::domain_error(message), sentences(std::move(of)) {}
    std::vector<int64_t> sentences;
};

// A sentence that is done; a token that was decided of one that streams.
struct Done {
    int64_t sentence;
    std::vector<FoundHypothesis> found;
};
struct Decided {
    int64_t sentence;
    int32_t token;
    float log_prob;
};

class BeamSearch {
  public:
    BeamSearch(ModelPtr model, BeamRules rules);
    BeamSearch(const BeamSearch&) = delete;
    BeamSearch& operator=(const BeamSearch&) = delete;

    const Model& model() const { return *model_; }
    const BeamRules& rules() const { return rules_; }
    // One entry for each sentence of the memory; the number of the first. Numbers rise by one.
    int64_t enter(const Memory& memory, std::vector<Entry> entries);
    // Sentences that are being decoded are so no longer: those for whose number `gone` is true.
    void leave(const std::function<bool(int64_t)>& gone);
    // One more token of every hypothesis of every sentence that is being decoded.
    void step();
    // After a step that has failed: the sentences of which none can be made even alone. None where the search has lost
    // its state, or where each can be made.
    std::vector<int64_t> failing();
    // At least one step, and then until the sentences that are being decoded have `tokens` source tokens or fewer.
    void run(int64_t tokens);
    const std::vector<SentenceSearch>& running() const { return running_; }
    // What is new since the last call.
    std::vector<Done> take_done() { return std::exchange(done_, {}); }
    std::vector<Decided> take_decided() { return std::exchange(decided_, {}); }

  private:
    State next_state(int64_t& k, int64_t& wanted);
    Request request();
    void add_wanted(Request& request);
    void check_numbers(std::size_t of_each);
    void settle(State state, int64_t k, int64_t wanted);

    ModelPtr model_;
    const BeamRules rules_;
    std::vector<int32_t> never_yet_;  // what may never be produced, and the end symbol
    State state_;
    std::vector<SentenceSearch> running_;
    int64_t entered_ = 0;
    bool whole_ = true;  // whether state_ and running_ are those of a step's end
    std::vector<Done> done_;
    std::vector<Decided> decided_;
    std::vector<int64_t> forced_, wanted_, tokens_;  // (rows,), (rows, wanted) and (rows, k + wanted), of a step
    std::vector<float> log_probs_;                   // (rows, k + wanted)
};

}  // namespace uwaga
