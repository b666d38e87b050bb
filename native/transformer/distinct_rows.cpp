#include "transformer/distinct_rows.h"

#include <algorithm>

namespace uwaga {

namespace {

// Whether a step may have rows with equal results: samples, shortlists and attention differ by row.
bool may_be_alike(const State& state, const Request& request, const Answer& answer) {
    const bool copied = !state.model->shape.recurrent || state.model->network;  // what a row leaves behind
    return state.beams > 1 && copied && !state.listed() && !request.whole && !request.uniform && !answer.attention;
}

bool asks_alike(const Request& request, int64_t one, int64_t other) {
    if (request.forced && request.forced[one] != request.forced[other]) return false;
    const int64_t *wanted = request.wanted, count = request.wanted_count;
    if (!std::equal(wanted + one * count, wanted + (one + 1) * count, wanted + other * count)) return false;
    if (request.banned_first.empty()) return true;
    const int32_t *banned = request.banned.data(), *first = request.banned_first.data();
    return std::equal(banned + first[one], banned + first[one + 1], banned + first[other], banned + first[other + 1]);
}

}  // namespace

DistinctRows::DistinctRows(const State& state, const int32_t* tokens, const Request& request, const Answer& answer)
    : beams_(state.beams), alone_(state.sentences.size()) {
    if (!may_be_alike(state, request, answer)) return;
    for (std::size_t s = 0; s < state.sentences.size(); ++s) {
        const int64_t first = static_cast<int64_t>(s) * beams_;
        bool alike = state.sentences[s].position == 0;
        for (int64_t row = first + 1; row < first + beams_ && alike; ++row) alike = tokens[row] == tokens[first] && asks_alike(request, first, row);
        alone_[s] = alike;
    }
    if (std::none_of(alone_.begin(), alone_.end(), [](bool alone) { return alone; })) return;
    request_.count = request.count;
    request_.renormalise = request.renormalise;
    if (!request.banned_first.empty()) request_.banned_first.push_back(0);
    for (int64_t row = 0; row < state.rows(); ++row) {
        if (alone_[static_cast<std::size_t>(row / beams_)] && row % beams_ != 0) continue;
        rows_.push_back(row);
        tokens_.push_back(tokens[row]);
        if (request.forced) forced_.push_back(request.forced[row]);
        wanted_.insert(wanted_.end(), request.wanted + row * request.wanted_count, request.wanted + (row + 1) * request.wanted_count);
        if (request.banned_first.empty()) continue;
        const auto first = request.banned.begin() + request.banned_first[static_cast<std::size_t>(row)];
        request_.banned.insert(request_.banned.end(), first, request.banned.begin() + request.banned_first[static_cast<std::size_t>(row) + 1]);
        request_.banned_first.push_back(static_cast<int32_t>(request_.banned.size()));
    }
    if (request.forced) request_.forced = forced_.data();
    if (request.wanted) request_.wanted = wanted_.data();
    request_.wanted_count = request.wanted_count;
    chosen_.resize(rows_.size() * static_cast<std::size_t>(answer.k + answer.wanted));
    log_probs_.resize(chosen_.size());
    answer_.k = answer.k;
    answer_.wanted = answer.wanted;
    answer_.tokens = chosen_.data();
    answer_.log_probs = log_probs_.data();
}

void DistinctRows::spread(const Answer& whole) const {
    const int64_t k = whole.k + whole.wanted;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
        const int64_t copies = alone_[static_cast<std::size_t>(rows_[i] / beams_)] ? beams_ : 1;
        for (int64_t row = rows_[i]; row < rows_[i] + copies; ++row) {
            std::copy_n(chosen_.data() + static_cast<int64_t>(i) * k, k, whole.tokens + row * k);
            std::copy_n(log_probs_.data() + static_cast<int64_t>(i) * k, k, whole.log_probs + row * k);
        }
    }
}

}  // namespace uwaga
