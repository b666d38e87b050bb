// Rows of a step that need not be computed because they equal another row.
#pragma once

#include <cstdint>
#include <vector>

#include "network/request.h"
#include "network/state.h"

namespace uwaga {

// Rows of a step to compute, with their input.
struct StepInput {
    const int32_t* tokens;
    const Request& request;
    const Answer& answer;
    const int64_t* numbers;  // of the rows in the state; null: all rows
    int64_t rows;
};

// Before a sentence's first token all its beams are equal, so one is computed for all. With five beams and a
// dozen tokens this saves one row in sixteen. The step gets a reduced request, and its answer is then copied
// to all rows.
class DistinctRows {
  public:
    // copied: the results of a row, its cells included, may be copied to others.
    DistinctRows(const State& state, const int32_t* tokens, const Request& request, const Answer& answer,
                 bool copied);

    // Whether only the first row of the sentence is computed.
    bool first_only(std::size_t sentence) const { return !rows_.empty() && single_[sentence]; }
    StepInput input() const;
    // Copy the answers to all rows.
    void spread() const;

  private:
    const int64_t beams_, count_;
    const int32_t* const all_tokens_;
    const Request& all_request_;
    const Answer& all_answer_;
    std::vector<bool> single_;   // (sentences,): only the first row is computed
    std::vector<int64_t> rows_;  // empty if all rows are computed
    std::vector<int32_t> tokens_;
    std::vector<int64_t> forced_, requested_, answer_tokens_;
    std::vector<float> log_probs_;
    Request request_;
    Answer answer_;
};

}  // namespace uwaga
