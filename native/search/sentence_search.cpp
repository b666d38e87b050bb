#include "search/sentence_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace uwaga {

namespace {

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();
constexpr double min_forced_gain = -1e6;  // least gain of a forced token, so that one of probability 0 keeps
                                          // its hypothesis
constexpr int32_t root = -1;              // the node before the first token

}  // namespace

SentenceSearch::SentenceSearch(int64_t number, const BeamRules& rules, Entry entry)
    : number_(number), rules_(&rules), entry_(std::move(entry)), pool_size_(rules.pool_size),
      beams_(static_cast<std::size_t>(rules.beams), Beam{minus_infinity, root, rules.start}) {
    beams_[0].rank = 0;  // before the first token all beams are equal: only one counts
    if (!entry_.draft.empty() && rules.beams == 1 && !entry_.phrases) draft_.emplace(std::move(entry_.draft));
    if (!entry_.phrases) return;
    phrases_.emplace(entry_.phrases, rules.beams);
    pool_size_ = std::min(rules.pool_size, std::max(rules.nbest, phrases_->last_bank_size() + 1));
}

int64_t SentenceSearch::forced(int64_t ahead) const {
    const int64_t step = steps_ + ahead;
    if (rules_->force_end && step == entry_.limit) return rules_->end;
    return step <= static_cast<int64_t>(entry_.forced.size())
               ? entry_.forced[static_cast<std::size_t>(step - 1)]
               : -1;
}

std::pair<const int32_t*, int64_t> SentenceSearch::proposal(int64_t max) const {
    if (!draft_) return {nullptr, 0};
    return draft_->proposal(std::min(max, entry_.limit - steps_));
}

int64_t SentenceSearch::favoured(int64_t ahead) const {
    const int64_t index = steps_ + ahead - 1;
    if (!draft_ || !(entry_.bias > 0) || !draft_->follows() ||
        index >= std::min(entry_.favoured_tokens, draft_->size()))
        return -1;
    return draft_->tokens()[static_cast<std::size_t>(index)];
}

// Arivazhagan et al. 2020, equation 2: (1 - bias) p(token) + bias for the favoured token, (1 - bias) p(token)
// for others.
void SentenceSearch::favour(int64_t token, int64_t* tokens, float* log_probs, int64_t k) const {
    if (token < 0 || tokens[0] == token || !(log_probs[k] > static_cast<float>(minus_infinity))) return;
    if (std::exp(static_cast<double>(log_probs[0])) - std::exp(static_cast<double>(log_probs[k])) >=
        entry_.bias / (1 - entry_.bias))
        return;
    tokens[0] = token;
    log_probs[0] = log_probs[k];
}

void SentenceSearch::count(int64_t proposed, int64_t accepted) {
    if (draft_) draft_->count(proposed, accepted);
}

double SentenceSearch::divisor(int64_t depth) const {
    return rules_->divisors[static_cast<std::size_t>(std::max<int64_t>(depth - entry_.uncounted, 0))];
}

void SentenceSearch::requested_tokens(int64_t beam, std::vector<int32_t>& tokens) const {
    tokens.clear();
    if (phrases_ && beams_[static_cast<std::size_t>(beam)].rank > minus_infinity)
        phrases_->requested_tokens(beam, tokens);
}

bool SentenceSearch::advance(const int64_t* tokens, const float* log_probs, int64_t k, int64_t requested,
                             int64_t* parents) {
    if (phrases_) rank_by_banks(tokens, log_probs, k, k + requested);
    else rank(tokens, log_probs, k, k + requested);
    const int32_t first_node = static_cast<int32_t>(nodes_.size());
    for (const Candidate& candidate : candidates_)
        nodes_.push_back({beams_[static_cast<std::size_t>(candidate.beam)].node, candidate.token,
                          candidate.log_prob});
    finish(first_node);
    continue_beams(first_node, parents);
    if (draft_) draft_->take(beams_[0].token);
    return !is_finished();
}

double SentenceSearch::rank_of(int64_t beam, int64_t column, double gain) const {
    const double before = beams_[static_cast<std::size_t>(beam)].rank;
    if (column || forced() < 0) return before + gain;
    return before + (rules_->score_forced ? std::max(gain, min_forced_gain) : 0.0);
}

// Rank the continuations of all beams; keep twice as many as there are beams.
void SentenceSearch::rank(const int64_t* tokens, const float* log_probs, int64_t k, int64_t stride) {
    std::vector<Candidate> candidates(beams_.size() * static_cast<std::size_t>(k));
    for (std::size_t i = 0; i < candidates.size(); ++i) {
        const int64_t beam = static_cast<int64_t>(i) / k, column = static_cast<int64_t>(i) % k,
                      offset = beam * stride + column;
        candidates[i] = {rank_of(beam, column, log_probs[offset]),
                         log_probs[offset],
                         static_cast<int32_t>(tokens[offset]),
                         static_cast<int32_t>(beam),
                         false,
                         false};
    }
    const std::size_t count = std::min(2 * beams_.size(), candidates.size());
    std::vector<int32_t> order(candidates.size());
    std::iota(order.begin(), order.end(), 0);
    // Ties go to the first candidate, of the better beam.
    const auto better = [&](int32_t a, int32_t b) {
        const double first = candidates[static_cast<std::size_t>(a)].rank,
                     second = candidates[static_cast<std::size_t>(b)].rank;
        return first > second || (first == second && a < b);
    };
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(), better);
    candidates_.clear();
    for (std::size_t i = 0; i < count; ++i) {
        Candidate candidate = candidates[static_cast<std::size_t>(order[i])];
        const bool alive = candidate.rank > minus_infinity, limited = alive && steps_ == entry_.limit,
                   end = alive && rules_->ends(candidate.token);
        candidate.ended = end || limited;
        candidate.cut = limited && (rules_->force_end || !end);
        candidates_.push_back(candidate);
    }
}

// Rank the continuations; keep those that get slots in the banks of the sentence's phrases, best first.
void SentenceSearch::rank_by_banks(const int64_t* tokens, const float* log_probs, int64_t k, int64_t stride) {
    const Phrases& phrases = phrases_->phrases();
    std::vector<Candidate> candidates;
    counts_.clear();
    for (int64_t beam = 0; beam < static_cast<int64_t>(beams_.size()); ++beam) {
        const int64_t* from = tokens + beam * stride;
        const float* beam_log_probs = log_probs + beam * stride;
        for (int64_t i = 0; i < stride; ++i) {
            double rank = rank_of(beam, i, beam_log_probs[i]);
            if (!(rank > minus_infinity)) continue;
            bool duplicate = false;  // a requested token may also be one of the k best
            for (int64_t j = 0; i >= k && j < k && !duplicate; ++j)
                duplicate = from[j] == from[i] && beam_log_probs[j] > static_cast<float>(minus_infinity);
            if (duplicate) continue;
            const int32_t token = static_cast<int32_t>(from[i]);
            const int64_t counts = static_cast<int64_t>(counts_.size());
            counts_.resize(counts_.size() + static_cast<std::size_t>(phrases.count));
            const bool continues_word = !rules_->continues_word.empty() &&
                                        rules_->continues_word[static_cast<std::size_t>(token)];
            const PhraseState phrase_state = phrases_->advance(beam, token, continues_word,
                                                               counts_.data() + counts);
            rank += phrases.reward() * static_cast<double>(phrase_state.bank - phrases_->state(beam).bank);
            candidates.push_back({rank, beam_log_probs[i], token, static_cast<int32_t>(beam), false, false,
                                  phrase_state, counts});
        }
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.rank > b.rank; });
    allocate(candidates);
}

void SentenceSearch::allocate(std::vector<Candidate>& candidates) {
    const Phrases& phrases = phrases_->phrases();
    const bool limited = steps_ == entry_.limit;
    int64_t required = phrases.forced() ? phrases.total : 0, largest_bank = 0;
    for (Candidate& candidate : candidates) {
        const bool end = rules_->ends(candidate.token);
        candidate.ended = end || limited;
        candidate.cut = limited && (rules_->force_end || !end);
        largest_bank = std::max(largest_bank, candidate.phrase_state.bank);
    }
    if (limited && finished_.empty())
        required = std::min(required, largest_bank);  // best effort if none is complete at the limit
    std::vector<Claim> claims;
    for (const Candidate& candidate : candidates)
        claims.push_back({candidate.phrase_state.bank,
                          !candidate.ended || candidate.phrase_state.bank >= required});
    std::vector<uint8_t> selected(candidates.size());
    phrases_->allocate(claims, selected);
    for (std::size_t i = 0; i < candidates.size(); ++i)
        claims[i].eligible = claims[i].eligible && !candidates[i].ended;
    phrases_->allocate(claims, selected);
    candidates_.clear();
    for (std::size_t i = 0; i < candidates.size(); ++i) {
        if (selected[i]) candidates_.push_back(candidates[i]);
    }
}

// Keep hypotheses that ended among the best `beams`. If none ever ended and none continues, keep the running
// ones.
void SentenceSearch::finish(int32_t first_node) {
    bool continues = false;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
        const Candidate& candidate = candidates_[i];
        continues = continues || candidate.rank > minus_infinity;
        if ((phrases_ || i < beams_.size()) && candidate.ended)
            add({candidate.rank / divisor(steps_), first_node + static_cast<int32_t>(i), steps_,
                 candidate.cut});
    }
    if (continues || !finished_.empty()) return;
    for (const Beam& beam : beams_) {
        if (beam.rank > minus_infinity) add({beam.rank / divisor(steps_ - 1), beam.node, steps_ - 1, true});
    }
}

void SentenceSearch::add(const Finished& hypothesis) {
    const auto better = [](const Finished& a, const Finished& b) { return a.score > b.score; };
    finished_.insert(std::upper_bound(finished_.begin(), finished_.end(), hypothesis, better), hypothesis);
    if (finished_.size() > static_cast<std::size_t>(pool_size_)) finished_.pop_back();
}

// The best candidates that did not end become the beams.
void SentenceSearch::continue_beams(int32_t first_node, int64_t* parents) {
    std::size_t filled = 0;
    std::vector<PhraseState> phrase_states;
    std::vector<int32_t> counts;
    for (const bool stopped : {false, true}) {
        for (std::size_t i = 0; i < candidates_.size() && filled < beams_.size(); ++i) {
            const Candidate& candidate = candidates_[i];
            if ((candidate.ended || !(candidate.rank > minus_infinity)) != stopped) continue;
            parents[filled] = candidate.beam;
            beams_[filled++] = {stopped ? minus_infinity : candidate.rank,
                                first_node + static_cast<int32_t>(i), candidate.token};
            if (!phrases_) continue;
            phrase_states.push_back(candidate.phrase_state);
            counts.insert(counts.end(), counts_.begin() + candidate.counts,
                          counts_.begin() + candidate.counts + phrases_->phrases().count);
        }
    }
    if (!phrases_) return;
    for (; filled < beams_.size(); ++filled) {  // fewer candidates than slots
        parents[filled] = 0;
        beams_[filled] = {minus_infinity, root, rules_->start};
    }
    phrase_states.resize(beams_.size());
    counts.resize(beams_.size() * static_cast<std::size_t>(phrases_->phrases().count));
    phrases_->set_states(std::move(phrase_states), std::move(counts));
}

bool SentenceSearch::is_finished() const {
    double best = beams_[0].rank;  // beams are sorted by descending rank
    if (!(best > minus_infinity)) return true;
    if (phrases_) {  // plus the bonus that can still be earned
        best = minus_infinity;
        for (std::size_t i = 0; i < beams_.size(); ++i) {
            const int64_t remaining = phrases_->phrases().total -
                                      phrases_->state(static_cast<int64_t>(i)).bank;
            best = std::max(best,
                            beams_[i].rank + phrases_->phrases().reward() * static_cast<double>(remaining));
        }
    }
    if (beams_.size() == 1) return false;
    const bool full = finished_.size() == static_cast<std::size_t>(pool_size_);
    const auto score_of = [&](std::size_t i) {
        return i < finished_.size() ? finished_[i].score : minus_infinity;
    };
    if (rules_->early_stopping == Stopping::full) return full;
    if (rules_->early_stopping == Stopping::estimate)
        return full && best / divisor(steps_) <= finished_.back().score;
    // Log-probabilities only fall and the divisor is monotonic, so the best case is at one end of the
    // lengths.
    return std::max(best / divisor(steps_ + 1), best / divisor(entry_.limit)) <=
           score_of(static_cast<std::size_t>(rules_->nbest - 1));
}

std::pair<int32_t, float> SentenceSearch::decided() const {
    if (candidates_.empty() || !(candidates_[0].rank > minus_infinity) || rules_->ends(candidates_[0].token))
        return {-1, 0.0f};
    return {candidates_[0].token, candidates_[0].log_prob};
}

std::vector<Hypothesis> SentenceSearch::hypotheses() const {
    std::vector<Hypothesis> result;
    for (std::size_t i = 0; i < std::min(finished_.size(), static_cast<std::size_t>(rules_->nbest)); ++i) {
        const std::size_t depth = static_cast<std::size_t>(finished_[i].depth);
        Hypothesis hypothesis{std::vector<int32_t>(depth), std::vector<double>(depth), finished_[i].score,
                              finished_[i].truncated, draft_ ? draft_->use() : DraftUse{}};
        int32_t node = finished_[i].node;
        for (std::size_t position = depth; position-- > 0;
             node = nodes_[static_cast<std::size_t>(node)].parent) {
            hypothesis.tokens[position] = nodes_[static_cast<std::size_t>(node)].token;
            hypothesis.log_probs[position] = nodes_[static_cast<std::size_t>(node)].log_prob;
        }
        result.push_back(std::move(hypothesis));
    }
    return result;
}

}  // namespace uwaga
