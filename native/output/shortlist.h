// Sentences that may become some tokens of the vocabulary only, and the output layer of just those tokens.
//
// Each sentence has its own list. Its candidates and its log-sum-exp are of that list alone, in the order of token
// ids, whatever other sentences stand beside it; only the product with the output weights is done for all together.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/buffer.h"
#include "transformer/matrix.h"

namespace uwaga {

struct Memory;
struct Model;
struct State;

using Tokens = std::vector<int32_t>;
using TokensPtr = std::shared_ptr<const Tokens>;

// Memory that was used before: the first touch of fresh memory costs more than what is written to it.
class BufferPool {
  public:
    Buffer<uint8_t> take(int64_t bytes);
    void give(Buffer<uint8_t> one);

  private:
    std::mutex mutex_;
    std::vector<Buffer<uint8_t>> free_;
};

// Columns of the output layer side by side, each in a place that it keeps in whatever this is extended to.
struct Gathered {
    struct Reused {
        BufferPool maps, panels;
    };

    explicit Gathered(std::shared_ptr<Reused> from) : reused(std::move(from)) {}
    ~Gathered() {
        reused->maps.give(std::move(map));
        reused->panels.give(std::move(panels));
    }
    Gathered(const Gathered&) = delete;
    Gathered& operator=(const Gathered&) = delete;

    int32_t column(int32_t token) const { return reinterpret_cast<const int32_t*>(map.get())[token]; }  // or -1

    std::shared_ptr<Reused> reused;
    std::shared_ptr<const Gathered> common;  // the columns of tokens that every sentence may become; null: these
    Tokens tokens;          // of each column
    int64_t vocabulary = 0;
    int64_t sentences = 0;  // it was made for
    Matrix weight;
    const float* bias = nullptr;
    Buffer<uint8_t> map, panels;  // what the above look into
    Buffer<float> scales, biases;
    Buffer<int32_t> sums;
};
using GatheredPtr = std::shared_ptr<const Gathered>;

// Which target tokens go with each source token, and which with all.
class Shortlist {
  public:
    // common and, for each source token s, targets[first[s]] to targets[first[s + 1]] rise. own: a source token may
    // stay itself. A list is filled up to a multiple of `multiple` with the lowest tokens that are not in it.
    Shortlist(const Model& model, Tokens common, Tokens first, Tokens targets, bool own, int64_t multiple);
    TokensPtr of(const std::vector<int32_t>& source) const;
    const GatheredPtr& gathered() const { return gathered_; }

  private:
    Tokens common_, first_, targets_;
    bool own_;
    std::size_t multiple_, vocabulary_;
    GatheredPtr gathered_;
};

void restrict_to(const Shortlist& shortlist, const std::vector<std::vector<int32_t>>& sources, Memory& memory);

// Let a state's output layer hold the lists of all its sentences, `from` extended (in its place, where nobody else
// holds it) or made anew.
void gather_extended(State& state, GatheredPtr from);
void regather(State& state);
bool mostly_unused(const State& state);  // so that making it anew pays

}  // namespace uwaga
