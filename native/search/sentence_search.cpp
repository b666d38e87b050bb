#include "search/sentence_search.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace uwaga {

namespace {

constexpr double nothing = -std::numeric_limits<double>::infinity();
constexpr double impossible = -1e6;  // what a forced token of probability 0 adds to a rank, so that it is kept
constexpr int32_t root = -1;         // the node before the first token

}  // namespace

SentenceSearch::SentenceSearch(int64_t number, const BeamRules& rules, Entry entry)
    : number_(number), rules_(&rules), entry_(std::move(entry)), beams_(static_cast<std::size_t>(rules.beams), Beam{nothing, root, rules.start}) {
    beams_[0].rank = 0;  // before the first token all beams are alike: one goes on
}

int64_t SentenceSearch::forced() const {
    if (rules_->force_end && steps_ == entry_.limit) return rules_->end;
    return steps_ <= static_cast<int64_t>(entry_.forced.size()) ? entry_.forced[static_cast<std::size_t>(steps_ - 1)] : -1;
}

double SentenceSearch::divisor(int64_t depth) const {
    return rules_->divisors[static_cast<std::size_t>(std::max<int64_t>(depth - entry_.uncounted, 0))];
}

bool SentenceSearch::advance(const int64_t* tokens, const float* log_probs, int64_t k, int64_t* came_from) {
    rank(tokens, log_probs, k);
    const int32_t first_node = static_cast<int32_t>(nodes_.size());
    for (const Candidate& one : candidates_) nodes_.push_back({beams_[static_cast<std::size_t>(one.beam)].node, one.token, one.log_prob});
    finish(first_node);
    run_on(first_node, came_from);
    return !is_done();
}

// The best continuations of all beams together, twice as many as beams.
void SentenceSearch::rank(const int64_t* tokens, const float* log_probs, int64_t k) {
    const bool bound = forced() >= 0;
    const auto rank_of = [&](int64_t i) {
        const double gain = log_probs[i], before = beams_[static_cast<std::size_t>(i / k)].rank;
        if (!bound || i % k) return before + gain;
        return before + (rules_->score_forced ? std::max(gain, impossible) : 0.0);
    };
    std::vector<Candidate> all(beams_.size() * static_cast<std::size_t>(k));
    for (std::size_t i = 0; i < all.size(); ++i) {
        const int64_t at = static_cast<int64_t>(i);
        all[i] = {rank_of(at), log_probs[i], static_cast<int32_t>(tokens[i]), static_cast<int32_t>(at / k), false, false};
    }
    const std::size_t kept = std::min(2 * beams_.size(), all.size());
    std::vector<int32_t> order(all.size());
    std::iota(order.begin(), order.end(), 0);
    // Of equals the one that comes first: that of the better beam.
    const auto better = [&](int32_t a, int32_t b) {
        const double first = all[static_cast<std::size_t>(a)].rank, second = all[static_cast<std::size_t>(b)].rank;
        return first > second || (first == second && a < b);
    };
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(), better);
    candidates_.clear();
    for (std::size_t i = 0; i < kept; ++i) {
        Candidate one = all[static_cast<std::size_t>(order[i])];
        const bool alive = one.rank > nothing, limited = alive && steps_ == entry_.limit, end = alive && one.token == rules_->end;
        one.ended = end || limited;
        one.cut = limited && (rules_->force_end || !end);
        candidates_.push_back(one);
    }
}

// Keep what ended among the best `beams`; and where nothing has ended and nothing goes on, what ran until now.
void SentenceSearch::finish(int32_t first_node) {
    bool goes_on = false;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
        const Candidate& one = candidates_[i];
        goes_on = goes_on || one.rank > nothing;
        if (i < beams_.size() && one.ended) add({one.rank / divisor(steps_), first_node + static_cast<int32_t>(i), steps_, one.cut});
    }
    if (goes_on || !finished_.empty()) return;
    for (const Beam& beam : beams_) {
        if (beam.rank > nothing) add({beam.rank / divisor(steps_ - 1), beam.node, steps_ - 1, true});
    }
}

void SentenceSearch::add(const Finished& one) {
    const auto better = [](const Finished& a, const Finished& b) { return a.score > b.score; };
    finished_.insert(std::upper_bound(finished_.begin(), finished_.end(), one, better), one);
    if (finished_.size() > beams_.size()) finished_.pop_back();
}

// The best candidates that did not end become the beams.
void SentenceSearch::run_on(int32_t first_node, int64_t* came_from) {
    std::size_t filled = 0;
    for (const bool stopped : {false, true}) {
        for (std::size_t i = 0; i < candidates_.size() && filled < beams_.size(); ++i) {
            const Candidate& one = candidates_[i];
            if ((one.ended || !(one.rank > nothing)) != stopped) continue;
            came_from[filled] = one.beam;
            beams_[filled++] = {stopped ? nothing : one.rank, first_node + static_cast<int32_t>(i), one.token};
        }
    }
}

bool SentenceSearch::is_done() const {
    const double best = beams_[0].rank;  // beams fall
    if (!(best > nothing)) return true;
    if (beams_.size() == 1) return false;
    const bool full = finished_.size() == beams_.size();
    const auto at = [&](std::size_t i) { return i < finished_.size() ? finished_[i].score : nothing; };
    if (rules_->stopping == Stopping::full) return full;
    if (rules_->stopping == Stopping::estimate) return full && best / divisor(steps_) <= finished_.back().score;
    // Log-probabilities only fall, and the divisor rises or falls steadily: the best is at one end of the lengths.
    return std::max(best / divisor(steps_ + 1), best / divisor(entry_.limit)) <= at(static_cast<std::size_t>(rules_->nbest - 1));
}

std::vector<FoundHypothesis> SentenceSearch::found() const {
    std::vector<FoundHypothesis> all;
    for (std::size_t i = 0; i < std::min(finished_.size(), static_cast<std::size_t>(rules_->nbest)); ++i) {
        const std::size_t depth = static_cast<std::size_t>(finished_[i].depth);
        FoundHypothesis one{std::vector<int32_t>(depth), std::vector<double>(depth), finished_[i].score, finished_[i].truncated};
        int32_t node = finished_[i].node;
        for (std::size_t at = depth; at-- > 0; node = nodes_[static_cast<std::size_t>(node)].parent) {
            one.tokens[at] = nodes_[static_cast<std::size_t>(node)].token;
            one.log_probs[at] = nodes_[static_cast<std::size_t>(node)].log_prob;
        }
        all.push_back(std::move(one));
    }
    return all;
}

}  // namespace uwaga
