#include "search/sentence_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace uwaga {

namespace {

constexpr double nothing = -std::numeric_limits<double>::infinity();
constexpr double impossible = -1e6;  // least gain of a forced token, so that one of probability 0 keeps its hypothesis
constexpr int32_t root = -1;         // the node before the first token

}  // namespace

SentenceSearch::SentenceSearch(int64_t number, const BeamRules& rules, Entry entry)
    : number_(number), rules_(&rules), entry_(std::move(entry)), enough_(rules.enough), beams_(static_cast<std::size_t>(rules.beams), Beam{nothing, root, rules.start}) {
    beams_[0].rank = 0;  // before the first token all beams are equal: only one counts
    if (!entry_.draft.empty() && rules.beams == 1 && !entry_.phrases) draft_.emplace(std::move(entry_.draft));
    if (!entry_.phrases) return;
    phrases_.emplace(entry_.phrases, rules.beams);
    enough_ = std::min(rules.enough, std::max(rules.nbest, phrases_->last() + 1));
}

int64_t SentenceSearch::forced(int64_t ahead) const {
    const int64_t step = steps_ + ahead;
    if (rules_->force_end && step == entry_.limit) return rules_->end;
    return step <= static_cast<int64_t>(entry_.forced.size()) ? entry_.forced[static_cast<std::size_t>(step - 1)] : -1;
}

std::pair<const int32_t*, int64_t> SentenceSearch::proposal(int64_t most) const {
    if (!draft_) return {nullptr, 0};
    return draft_->proposal(std::min(most, entry_.limit - steps_));
}

int64_t SentenceSearch::favoured(int64_t ahead) const {
    const int64_t at = steps_ + ahead - 1;
    if (!draft_ || !(entry_.bias > 0) || !draft_->follows() || at >= std::min(entry_.shown, draft_->size())) return -1;
    return draft_->tokens()[static_cast<std::size_t>(at)];
}

// Arivazhagan et al. 2020, equation 2: (1 - bias) p(token) + bias for the favoured token, (1 - bias) p(token) for others.
void SentenceSearch::favour(int64_t token, int64_t* tokens, float* log_probs, int64_t k) const {
    if (token < 0 || tokens[0] == token || !(log_probs[k] > static_cast<float>(nothing))) return;
    if (std::exp(static_cast<double>(log_probs[0])) - std::exp(static_cast<double>(log_probs[k])) >= entry_.bias / (1 - entry_.bias)) return;
    tokens[0] = token;
    log_probs[0] = log_probs[k];
}

void SentenceSearch::count(int64_t proposed, int64_t accepted) {
    if (draft_) draft_->count(proposed, accepted);
}

double SentenceSearch::divisor(int64_t depth) const {
    return rules_->divisors[static_cast<std::size_t>(std::max<int64_t>(depth - entry_.uncounted, 0))];
}

void SentenceSearch::wanted(int64_t beam, std::vector<int32_t>& tokens) const {
    tokens.clear();
    if (phrases_ && beams_[static_cast<std::size_t>(beam)].rank > nothing) phrases_->wanted(beam, tokens);
}

bool SentenceSearch::advance(const int64_t* tokens, const float* log_probs, int64_t k, int64_t wanted, int64_t* came_from) {
    if (phrases_) rank_by_banks(tokens, log_probs, k, k + wanted);
    else rank(tokens, log_probs, k, k + wanted);
    const int32_t first_node = static_cast<int32_t>(nodes_.size());
    for (const Candidate& one : candidates_) nodes_.push_back({beams_[static_cast<std::size_t>(one.beam)].node, one.token, one.log_prob});
    finish(first_node);
    run_on(first_node, came_from);
    if (draft_) draft_->take(beams_[0].token);
    return !is_done();
}

double SentenceSearch::rank_of(int64_t beam, int64_t column, double gain) const {
    const double before = beams_[static_cast<std::size_t>(beam)].rank;
    if (column || forced() < 0) return before + gain;
    return before + (rules_->score_forced ? std::max(gain, impossible) : 0.0);
}

// Rank the continuations of all beams; keep twice as many as there are beams.
void SentenceSearch::rank(const int64_t* tokens, const float* log_probs, int64_t k, int64_t stride) {
    std::vector<Candidate> all(beams_.size() * static_cast<std::size_t>(k));
    for (std::size_t i = 0; i < all.size(); ++i) {
        const int64_t beam = static_cast<int64_t>(i) / k, column = static_cast<int64_t>(i) % k, at = beam * stride + column;
        all[i] = {rank_of(beam, column, log_probs[at]), log_probs[at], static_cast<int32_t>(tokens[at]), static_cast<int32_t>(beam), false, false};
    }
    const std::size_t kept = std::min(2 * beams_.size(), all.size());
    std::vector<int32_t> order(all.size());
    std::iota(order.begin(), order.end(), 0);
    // Ties go to the one that comes first, of the better beam.
    const auto better = [&](int32_t a, int32_t b) {
        const double first = all[static_cast<std::size_t>(a)].rank, second = all[static_cast<std::size_t>(b)].rank;
        return first > second || (first == second && a < b);
    };
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(), better);
    candidates_.clear();
    for (std::size_t i = 0; i < kept; ++i) {
        Candidate one = all[static_cast<std::size_t>(order[i])];
        const bool alive = one.rank > nothing, limited = alive && steps_ == entry_.limit, end = alive && rules_->ends(one.token);
        one.ended = end || limited;
        one.cut = limited && (rules_->force_end || !end);
        candidates_.push_back(one);
    }
}

// Rank the continuations; keep those that get places in the banks of the sentence's phrases, best first.
void SentenceSearch::rank_by_banks(const int64_t* tokens, const float* log_probs, int64_t k, int64_t stride) {
    const Phrases& phrases = phrases_->phrases();
    std::vector<Candidate> all;
    counts_.clear();
    for (int64_t beam = 0; beam < static_cast<int64_t>(beams_.size()); ++beam) {
        const int64_t *from = tokens + beam * stride;
        const float* given = log_probs + beam * stride;
        for (int64_t i = 0; i < stride; ++i) {
            double rank = rank_of(beam, i, given[i]);
            if (!(rank > nothing)) continue;
            bool twice = false;  // a wanted token may also be one of the k best
            for (int64_t j = 0; i >= k && j < k && !twice; ++j) twice = from[j] == from[i] && given[j] > static_cast<float>(nothing);
            if (twice) continue;
            const int32_t token = static_cast<int32_t>(from[i]);
            const int64_t counts = static_cast<int64_t>(counts_.size());
            counts_.resize(counts_.size() + static_cast<std::size_t>(phrases.count));
            const bool inside = !rules_->inside.empty() && rules_->inside[static_cast<std::size_t>(token)];
            const Held held = phrases_->reach(beam, token, inside, counts_.data() + counts);
            rank += phrases.reward() * static_cast<double>(held.bank - phrases_->held(beam).bank);
            all.push_back({rank, given[i], token, static_cast<int32_t>(beam), false, false, held, counts});
        }
    }
    std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return a.rank > b.rank; });
    share(all);
}

void SentenceSearch::share(std::vector<Candidate>& all) {
    const Phrases& phrases = phrases_->phrases();
    const bool limited = steps_ == entry_.limit;
    int64_t needed = phrases.forced() ? phrases.total : 0, most = 0;
    for (Candidate& one : all) {
        const bool end = rules_->ends(one.token);
        one.ended = end || limited;
        one.cut = limited && (rules_->force_end || !end);
        most = std::max(most, one.held.bank);
    }
    if (limited && finished_.empty()) needed = std::min(needed, most);  // best effort if none is complete at the limit
    std::vector<Claim> claims;
    for (const Candidate& one : all) claims.push_back({one.held.bank, !one.ended || one.held.bank >= needed});
    std::vector<uint8_t> taken(all.size());
    phrases_->share(claims, taken);
    for (std::size_t i = 0; i < all.size(); ++i) claims[i].eligible = claims[i].eligible && !all[i].ended;
    phrases_->share(claims, taken);
    candidates_.clear();
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (taken[i]) candidates_.push_back(all[i]);
    }
}

// Keep hypotheses that ended among the best `beams`. If none ever ended and none continues, keep the running ones.
void SentenceSearch::finish(int32_t first_node) {
    bool goes_on = false;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
        const Candidate& one = candidates_[i];
        goes_on = goes_on || one.rank > nothing;
        if ((phrases_ || i < beams_.size()) && one.ended) add({one.rank / divisor(steps_), first_node + static_cast<int32_t>(i), steps_, one.cut});
    }
    if (goes_on || !finished_.empty()) return;
    for (const Beam& beam : beams_) {
        if (beam.rank > nothing) add({beam.rank / divisor(steps_ - 1), beam.node, steps_ - 1, true});
    }
}

void SentenceSearch::add(const Finished& one) {
    const auto better = [](const Finished& a, const Finished& b) { return a.score > b.score; };
    finished_.insert(std::upper_bound(finished_.begin(), finished_.end(), one, better), one);
    if (finished_.size() > static_cast<std::size_t>(enough_)) finished_.pop_back();
}

// The best candidates that did not end become the beams.
void SentenceSearch::run_on(int32_t first_node, int64_t* came_from) {
    std::size_t filled = 0;
    std::vector<Held> held;
    std::vector<int32_t> counts;
    for (const bool stopped : {false, true}) {
        for (std::size_t i = 0; i < candidates_.size() && filled < beams_.size(); ++i) {
            const Candidate& one = candidates_[i];
            if ((one.ended || !(one.rank > nothing)) != stopped) continue;
            came_from[filled] = one.beam;
            beams_[filled++] = {stopped ? nothing : one.rank, first_node + static_cast<int32_t>(i), one.token};
            if (!phrases_) continue;
            held.push_back(one.held);
            counts.insert(counts.end(), counts_.begin() + one.counts, counts_.begin() + one.counts + phrases_->phrases().count);
        }
    }
    if (!phrases_) return;
    for (; filled < beams_.size(); ++filled) {  // fewer candidates than places
        came_from[filled] = 0;
        beams_[filled] = {nothing, root, rules_->start};
    }
    held.resize(beams_.size());
    counts.resize(beams_.size() * static_cast<std::size_t>(phrases_->phrases().count));
    phrases_->follow(std::move(held), std::move(counts));
}

bool SentenceSearch::is_done() const {
    double best = beams_[0].rank;  // beams are sorted by descending rank
    if (!(best > nothing)) return true;
    if (phrases_) {  // plus the bonus that can still be earned
        best = nothing;
        for (std::size_t i = 0; i < beams_.size(); ++i) {
            const int64_t left = phrases_->phrases().total - phrases_->held(static_cast<int64_t>(i)).bank;
            best = std::max(best, beams_[i].rank + phrases_->phrases().reward() * static_cast<double>(left));
        }
    }
    if (beams_.size() == 1) return false;
    const bool full = finished_.size() == static_cast<std::size_t>(enough_);
    const auto at = [&](std::size_t i) { return i < finished_.size() ? finished_[i].score : nothing; };
    if (rules_->stopping == Stopping::full) return full;
    if (rules_->stopping == Stopping::estimate) return full && best / divisor(steps_) <= finished_.back().score;
    // Log-probabilities only fall and the divisor is monotonic, so the best case is at one end of the lengths.
    return std::max(best / divisor(steps_ + 1), best / divisor(entry_.limit)) <= at(static_cast<std::size_t>(rules_->nbest - 1));
}

std::pair<int32_t, float> SentenceSearch::decided() const {
    if (candidates_.empty() || !(candidates_[0].rank > nothing) || rules_->ends(candidates_[0].token)) return {-1, 0.0f};
    return {candidates_[0].token, candidates_[0].log_prob};
}

std::vector<FoundHypothesis> SentenceSearch::found() const {
    std::vector<FoundHypothesis> all;
    for (std::size_t i = 0; i < std::min(finished_.size(), static_cast<std::size_t>(rules_->nbest)); ++i) {
        const std::size_t depth = static_cast<std::size_t>(finished_[i].depth);
        FoundHypothesis one{std::vector<int32_t>(depth), std::vector<double>(depth), finished_[i].score, finished_[i].truncated, draft_ ? draft_->use() : DraftUse{}};
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
