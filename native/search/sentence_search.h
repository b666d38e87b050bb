// The bookkeeping of a beam search for one sentence; greedy is a beam of one. The twin of uwaga.search.beam_batch,
// which is the law: the same tokens and the same bits, for all options that do not look at a hypothesis's tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "search/phrases.h"

namespace uwaga {

// When a sentence is done: at `enough` finished hypotheses; when none that runs can still enter the n-best; or when the
// best that runs, ranked as if it ended now, is worse than the last of `enough` finished ones.
enum class Stopping { full, exact, estimate };

// As uwaga.decoder.BeamRules.
struct BeamRules {
    int64_t beams = 1, enough = 1, nbest = 1;
    int32_t start = 0, end = 0;
    std::vector<int32_t> never;  // produced; rising
    int64_t min_length = 0;
    Stopping stopping = Stopping::full;
    bool force_end = false, score_forced = true, renormalise = false;
    std::vector<double> divisors;  // of a log-probability, by the length that counts
    std::vector<uint8_t> inside;   // (vocabulary,) whether a token goes on with a word; empty: none does
};

// What a sentence enters with: its source tokens, its most steps, how many of its first tokens do not count in scores,
// those that are forced (-1: free), and what its target must contain.
struct Entry {
    int64_t source = 0, limit = 1, uncounted = 0;
    std::vector<int64_t> forced = {};
    PhrasesPtr phrases = nullptr;
    bool streams = false;  // whether each token is told of as it is decided: of one beam alone
};

struct FoundHypothesis {
    std::vector<int32_t> tokens;  // end symbol included
    std::vector<double> log_probs;
    double score;
    bool truncated;
};

// A running hypothesis, unless its rank is -inf.
struct Beam {
    double rank;
    int32_t node, token;
};

class SentenceSearch {
  public:
    SentenceSearch(int64_t number, const BeamRules& rules, Entry entry);

    int64_t number() const { return number_; }
    int64_t source() const { return entry_.source; }
    int64_t steps() const { return steps_; }
    const std::vector<Beam>& beams() const { return beams_; }

    // Go to the next step; then what that step must choose, or -1, and whether the end would come too early.
    void begin_step() { ++steps_; }
    void undo_begin() { --steps_; }  // of a step that was not made
    int64_t forced() const;
    bool too_short() const { return steps_ <= rules_->min_length; }
    // What the step must look at behind the best candidates of a beam: tokens, rising.
    void wanted(int64_t beam, std::vector<int32_t>& tokens) const;
    // Take the step's candidates (beams, k + wanted). False if the sentence is done; else `came_from` (beams,) says
    // which beam each beam continues.
    bool advance(const int64_t* tokens, const float* log_probs, int64_t k, int64_t wanted, int64_t* came_from);

    // The n-best finished hypotheses, best first.
    std::vector<FoundHypothesis> found() const;
    // The token that the last step has decided, -1 for none or the end; its log-probability. Of one beam.
    bool streams() const { return entry_.streams && beams_.size() == 1; }
    std::pair<int32_t, float> decided() const;

  private:
    struct Node {  // a token that was tried
        int32_t parent, token;
        float log_prob;
    };
    struct Finished {
        double score;
        int32_t node;
        int64_t depth;
        bool truncated;
    };
    struct Candidate {
        double rank;
        float log_prob;
        int32_t token, beam;
        bool ended, cut;
        Held held = {};
        int64_t counts = 0;  // where those of its phrases stand
    };

    void rank(const int64_t* tokens, const float* log_probs, int64_t k, int64_t stride);
    void rank_by_banks(const int64_t* tokens, const float* log_probs, int64_t k, int64_t stride);
    void share(std::vector<Candidate>& all);
    double rank_of(int64_t beam, int64_t column, double gain) const;
    void finish(int32_t first_node);
    void add(const Finished& one);
    void run_on(int32_t first_node, int64_t* came_from);
    bool is_done() const;
    double divisor(int64_t depth) const;

    int64_t number_;
    const BeamRules* rules_;
    Entry entry_;
    int64_t enough_;  // finished hypotheses that it waits for
    int64_t steps_ = 0;
    std::vector<Node> nodes_;
    std::vector<Beam> beams_;
    std::vector<Finished> finished_;  // best first, at most `enough_`
    std::vector<Candidate> candidates_;  // of this step, best first
    std::optional<PhraseTracker> phrases_;
    std::vector<int32_t> counts_;  // of the phrases of what was looked at in this step
};

}  // namespace uwaga
