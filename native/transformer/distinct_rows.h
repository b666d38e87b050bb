// Rows of a step that need not be computed, because another one is the same.
#pragma once

#include <cstdint>
#include <vector>

#include "transformer/state.h"

namespace uwaga {

// Before a sentence's first token all its beams are alike: one is computed for all. A search of five beams and a dozen
// tokens saves a row in sixteen by it. What a step is given and gives is made small, and spread out again behind it.
class DistinctRows {
  public:
    DistinctRows(const State& state, const int32_t* tokens, const Request& request, const Answer& answer);

    bool all() const { return rows_.empty(); }
    // Whether of a sentence only the first row is computed.
    bool one_of(std::size_t sentence) const { return !all() && alone_[sentence]; }

    // Of those that are computed: which rows of the state they are, and what the step is given for them.
    const std::vector<int64_t>& rows() const { return rows_; }
    const int32_t* tokens() const { return tokens_.data(); }
    const Request& request() const { return request_; }
    const Answer& answer() const { return answer_; }

    // Give all rows their answers.
    void spread(const Answer& whole) const;

  private:
    int64_t beams_;
    std::vector<bool> alone_;    // (sentences,)
    std::vector<int64_t> rows_;  // empty if all are to be computed
    std::vector<int32_t> tokens_;
    std::vector<int64_t> forced_, wanted_, chosen_;
    std::vector<float> log_probs_;
    Request request_;
    Answer answer_;
};

}  // namespace uwaga
