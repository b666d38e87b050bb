// What a target must contain, and how the places of a beam are shared out by how much of it a hypothesis holds. The
// twin of uwaga.search.phrases and banks, which say what the tables and rules are.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace uwaga {

// An automaton over tokens, node 0 its root; `count` phrases.
struct Phrases {
    int64_t count = 0, total = 0;
    double bonus = -1;  // of each token of a phrase; below 0 the phrases are forced
    std::vector<int64_t> first;                 // (nodes + 1,) into the edges
    std::vector<int32_t> tokens, targets;       // (edges,), tokens rising within a node
    std::vector<uint8_t> serves, ends, whole;   // (edges, count), (nodes, count), (count,)
    std::vector<int32_t> progress;              // (nodes, count)
    std::vector<int64_t> sizes, times;          // (count,)

    bool forced() const { return bonus < 0; }
    double reward() const { return forced() ? 0.0 : bonus; }
    int32_t next(int32_t node, int32_t token) const;

  private:
    int32_t edge(int32_t node, int32_t token) const;  // or -1
};
using PhrasesPtr = std::shared_ptr<const Phrases>;

// Where a hypothesis is; its counts, which stand elsewhere, are without what ends at the node.
struct Held {
    int32_t node = 0;
    int64_t bank = 0;
};

// A continuation that may get a place: the bank that it is in, and whether it may have one at all.
struct Claim {
    int64_t bank;
    bool eligible;
};

// The phrases of the running hypotheses of a sentence.
class PhraseTracker {
  public:
    PhraseTracker(PhrasesPtr phrases, int64_t beams);

    const Phrases& phrases() const { return *phrases_; }
    const Held& held(int64_t beam) const { return held_[static_cast<std::size_t>(beam)]; }
    // The tokens that go on with a phrase of a beam, rising.
    void wanted(int64_t beam, std::vector<int32_t>& tokens) const;
    // Where a beam comes to with a token that goes on with a word or does not; `counts` (count,) is written to.
    Held reach(int64_t beam, int32_t token, bool inside, int32_t* counts) const;
    // Claims, the best ranked first, that get one of the beam's places: `taken`, which stays where it is set, is set.
    void share(const std::vector<Claim>& claims, std::vector<uint8_t>& taken) const;
    // Places of the bank that holds everything, from which hypotheses end.
    int64_t last() const;
    // Let the beams go on with what they have reached: nodes, and counts (beams, count).
    void follow(std::vector<Held> held, std::vector<int32_t> counts);

  private:
    int64_t banks() const { return phrases_->forced() ? phrases_->total + 1 : 1; }
    int64_t counted(const int32_t* counts, int32_t node, int64_t phrase) const;

    PhrasesPtr phrases_;
    std::vector<Held> held_;
    std::vector<int32_t> counts_;  // (beams, count)
};

}  // namespace uwaga
