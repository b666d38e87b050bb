// Phrases that a target must contain, and dynamic beam allocation: beam slots are divided by how much of the
// phrases a hypothesis contains. The counterpart of uwaga.search.phrases and banks, which define the tables
// and rules.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace uwaga {

// An automaton over tokens with root node 0, for `count` phrases.
struct Phrases {
    int64_t count = 0, total = 0;
    double bonus = -1;           // score bonus of each phrase token; negative: the phrases are forced
    std::vector<int64_t> first;  // (nodes + 1,): offsets into the edges
    std::vector<int32_t> tokens, targets;            // (edges,); tokens ascend within a node
    std::vector<uint8_t> serves, ends, whole_words;  // (edges, count), (nodes, count), (count,)
    std::vector<int32_t> progress;                   // (nodes, count)
    std::vector<int64_t> sizes, times;               // (count,)

    bool forced() const { return bonus < 0; }
    double reward() const { return forced() ? 0.0 : bonus; }
    int32_t next(int32_t node, int32_t token) const;

  private:
    int32_t edge(int32_t node, int32_t token) const;  // -1 if there is none
};
using PhrasesPtr = std::shared_ptr<const Phrases>;

// The state of a hypothesis. Its counts, stored separately, exclude a phrase that ends at the node.
struct PhraseState {
    int32_t node = 0;
    int64_t bank = 0;
};

// A continuation that competes for a slot: its bank, and whether it may have a slot at all.
struct Claim {
    int64_t bank;
    bool eligible;
};

// The phrase states of a sentence's running hypotheses.
class PhraseTracker {
  public:
    PhraseTracker(PhrasesPtr phrases, int64_t beams);

    const Phrases& phrases() const { return *phrases_; }
    const PhraseState& state(int64_t beam) const { return states_[static_cast<std::size_t>(beam)]; }
    // The tokens that continue a phrase of the beam, ascending.
    void requested_tokens(int64_t beam, std::vector<int32_t>& tokens) const;
    // The state of a beam after `token`, which may continue a word. Writes the counts to `counts`
    // (count,).
    PhraseState advance(int64_t beam, int32_t token, bool continues_word, int32_t* counts) const;
    // Give slots to claims, which are sorted best first, and set `selected` for those that get one; set
    // values stay set.
    void allocate(const std::vector<Claim>& claims, std::vector<uint8_t>& selected) const;
    // Slots of the bank whose hypotheses contain all phrases and so may end.
    int64_t last_bank_size() const;
    // Set the beams' states for the next step: nodes, and counts (beams, count).
    void set_states(std::vector<PhraseState> states, std::vector<int32_t> counts);

  private:
    int64_t banks() const { return phrases_->forced() ? phrases_->total + 1 : 1; }
    int64_t count_occurrences(const int32_t* counts, int32_t node, int64_t phrase) const;

    PhrasesPtr phrases_;
    std::vector<PhraseState> states_;
    std::vector<int32_t> counts_;  // (beams, count)
};

}  // namespace uwaga
