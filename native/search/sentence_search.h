// The bookkeeping of beam search for one sentence; greedy search is a beam of one. The counterpart of
// uwaga.search.beam_batch, its reference: same tokens, same bits, for all options that do not depend on a
// hypothesis's tokens.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "network/state.h"
#include "search/draft.h"
#include "search/phrases.h"

namespace uwaga {

// When a sentence is finished. full: `pool_size` hypotheses have finished. exact: no running one can still
// enter the n-best. estimate: the best running one, scored as if it ended now, does not beat the last of
// `pool_size` finished ones.
enum class Stopping { full, exact, estimate };

// See uwaga.decoder.BeamRules.
struct BeamRules {
    int64_t beams = 1, pool_size = 1, nbest = 1;
    int32_t start = 0, end = 0;
    std::vector<int32_t> other_ends;  // tokens that end a target besides the end symbol
    std::vector<int32_t> banned;      // tokens never produced, ascending
    int64_t min_length = 0;
    Stopping early_stopping = Stopping::full;
    bool force_end = false, score_forced = true, renormalise = false;
    bool keep_tree = false;               // return the tokens that were tried
    std::vector<double> divisors;         // divisor of a log-probability, by the counted length
    std::vector<uint8_t> continues_word;  // (vocabulary,): whether a token continues a word; empty: none does

    bool ends(int32_t token) const {
        return token == end || std::find(other_ends.begin(), other_ends.end(), token) != other_ends.end();
    }
};

// A sentence to search: number of source tokens, maximum steps, leading tokens that do not count in scores,
// forced tokens (-1: free), and the phrases that its target must contain.
struct Entry {
    int64_t source = 0, limit = 1, uncounted = 0;
    std::vector<int64_t> forced = {};
    PhrasesPtr phrases = nullptr;
    bool streams = false;             // report each token as it is decided; needs a single beam
    std::vector<int32_t> draft = {};  // a target to check; used by a single beam without phrases
    double bias = 0;                  // weight of the draft's first `favoured_tokens` tokens, below 0.5
    int64_t favoured_tokens = 0;
    DatastorePtr datastore = nullptr;  // of a sentence that a running batch encodes
};

struct Hypothesis {
    std::vector<int32_t> tokens;  // including the end symbol
    std::vector<double> log_probs;
    double score;
    bool truncated;
    DraftUse draft = {};  // no passes: there was no draft
};

// A node of the search tree: a candidate of a step; `parent` is the index of its parent node, or -1.
struct TreeNode {
    int32_t parent, token;
    float log_prob;
};

// A running hypothesis; unused if its rank is -inf.
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

    // Start the next step. Then: its forced token, or -1; whether the end symbol would come too early.
    void start_step() { ++steps_; }
    void undo_step() { --steps_; }  // after a step that failed
    // `ahead`: of the step so many steps later.
    int64_t forced(int64_t ahead = 0) const;
    bool too_short(int64_t ahead = 0) const { return steps_ + ahead <= rules_->min_length; }
    // Tokens of the draft that this step can check; the positions left in the model allow at most `max`.
    std::pair<const int32_t*, int64_t> proposal(int64_t max) const;
    // The draft's token that a step is biased towards, or -1.
    int64_t favoured(int64_t ahead) const;
    // Replace the best candidate by the favoured one, which is after the `k` best, if the bias makes it
    // better.
    void favour(int64_t token, int64_t* tokens, float* log_probs, int64_t k) const;
    // Count a pass; see DraftCursor.
    void count(int64_t proposed, int64_t accepted);
    // Tokens that the step must evaluate for a beam besides its best candidates, ascending.
    void requested_tokens(int64_t beam, std::vector<int32_t>& tokens) const;
    // Take the step's candidates (beams, k + requested). Returns false if the sentence is finished; otherwise
    // `parents` (beams,) is set to the old beam that each beam continues.
    bool advance(const int64_t* tokens, const float* log_probs, int64_t k, int64_t requested,
                 int64_t* parents);

    // The n-best finished hypotheses, best first.
    std::vector<Hypothesis> hypotheses() const;
    // The candidates of all steps, in their order, of which each step keeps twice as many as there are beams.
    const std::vector<TreeNode>& tree() const { return nodes_; }
    // The token that the last step decided and its log-probability; -1: none, or the end. For a single beam.
    bool streams() const { return entry_.streams && beams_.size() == 1; }
    std::pair<int32_t, float> decided() const;

  private:
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
        PhraseState phrase_state = {};
        int64_t counts = 0;  // where its phrase counts start in counts_
    };

    void rank(const int64_t* tokens, const float* log_probs, int64_t k, int64_t stride);
    void rank_by_banks(const int64_t* tokens, const float* log_probs, int64_t k, int64_t stride);
    void allocate(std::vector<Candidate>& candidates);
    double rank_of(int64_t beam, int64_t column, double gain) const;
    void finish(int32_t first_node);
    void add(const Finished& hypothesis);
    void continue_beams(int32_t first_node, int64_t* parents);
    bool is_finished() const;
    double divisor(int64_t depth) const;

    int64_t number_;
    const BeamRules* rules_;
    Entry entry_;
    int64_t pool_size_;  // finished hypotheses to wait for
    int64_t steps_ = 0;
    std::vector<TreeNode> nodes_;
    std::vector<Beam> beams_;
    std::vector<Finished> finished_;     // best first, at most `pool_size_`
    std::vector<Candidate> candidates_;  // candidates of this step, best first
    std::optional<PhraseTracker> phrases_;
    std::optional<DraftCursor> draft_;
    std::vector<int32_t> counts_;  // phrase counts of this step's candidates
};

}  // namespace uwaga
