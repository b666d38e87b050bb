#include "network/distinct_rows.h"

#include <algorithm>

namespace uwaga {

namespace {

// Whether a step may have rows with equal results: samples, shortlists and attention differ by row. Where it
// has, choose() does not know the sentences of the rows, which datastores need.
bool may_have_equal_rows(const State& state, const Request& request, const Answer& answer) {
    return state.beams > 1 && !state.has_shortlist() && !request.full_vocabulary && !request.uniform &&
           !answer.attention && !answer.features &&
           std::none_of(state.sentences.begin(), state.sentences.end(),
                        [](const State::Sentence& sentence) { return sentence.memory.datastore != nullptr; });
}

bool same_request(const Request& request, int64_t row, int64_t other) {
    if (request.forced && request.forced[row] != request.forced[other]) return false;
    const int64_t *requested = request.requested, count = request.requested_count;
    if (!std::equal(requested + row * count, requested + (row + 1) * count, requested + other * count))
        return false;
    if (request.banned_first.empty()) return true;
    const int32_t *banned = request.banned.data(), *first = request.banned_first.data();
    return std::equal(banned + first[row], banned + first[row + 1], banned + first[other],
                      banned + first[other + 1]);
}

}  // namespace

DistinctRows::DistinctRows(const State& state, const int32_t* tokens, const Request& request,
                           const Answer& answer, bool copied)
    : beams_(state.beams), count_(state.rows()), all_tokens_(tokens), all_request_(request),
      all_answer_(answer), single_(state.sentences.size()) {
    if (!copied || !may_have_equal_rows(state, request, answer)) return;
    for (std::size_t s = 0; s < state.sentences.size(); ++s) {
        const int64_t first = static_cast<int64_t>(s) * beams_;
        bool equal = state.sentences[s].position == 0;
        for (int64_t row = first + 1; row < first + beams_ && equal; ++row)
            equal = tokens[row] == tokens[first] && same_request(request, first, row);
        single_[s] = equal;
    }
    if (std::none_of(single_.begin(), single_.end(), [](bool single) { return single; })) return;
    request_.count = request.count;
    request_.renormalise = request.renormalise;
    if (!request.banned_first.empty()) request_.banned_first.push_back(0);
    for (int64_t row = 0; row < state.rows(); ++row) {
        if (single_[static_cast<std::size_t>(row / beams_)] && row % beams_ != 0) continue;
        rows_.push_back(row);
        tokens_.push_back(tokens[row]);
        if (request.forced) forced_.push_back(request.forced[row]);
        requested_.insert(requested_.end(), request.requested + row * request.requested_count,
                          request.requested + (row + 1) * request.requested_count);
        if (request.banned_first.empty()) continue;
        const auto first = request.banned.begin() + request.banned_first[static_cast<std::size_t>(row)];
        request_.banned.insert(request_.banned.end(), first,
                               request.banned.begin() +
                                   request.banned_first[static_cast<std::size_t>(row) + 1]);
        request_.banned_first.push_back(static_cast<int32_t>(request_.banned.size()));
    }
    if (request.forced) request_.forced = forced_.data();
    if (request.requested) request_.requested = requested_.data();
    request_.requested_count = request.requested_count;
    answer_tokens_.resize(rows_.size() * static_cast<std::size_t>(answer.k + answer.requested));
    log_probs_.resize(answer_tokens_.size());
    answer_.k = answer.k;
    answer_.requested = answer.requested;
    answer_.tokens = answer_tokens_.data();
    answer_.log_probs = log_probs_.data();
}

StepInput DistinctRows::input() const {
    if (rows_.empty()) return {all_tokens_, all_request_, all_answer_, nullptr, count_};
    return {tokens_.data(), request_, answer_, rows_.data(), static_cast<int64_t>(rows_.size())};
}

void DistinctRows::spread() const {
    const Answer& full = all_answer_;
    const int64_t k = full.k + full.requested;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
        const int64_t copies = single_[static_cast<std::size_t>(rows_[i] / beams_)] ? beams_ : 1;
        for (int64_t row = rows_[i]; row < rows_[i] + copies; ++row) {
            std::copy_n(answer_tokens_.data() + static_cast<int64_t>(i) * k, k, full.tokens + row * k);
            std::copy_n(log_probs_.data() + static_cast<int64_t>(i) * k, k, full.log_probs + row * k);
        }
    }
}

}  // namespace uwaga
