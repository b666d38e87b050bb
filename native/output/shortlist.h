// Sentences that may become some tokens of the vocabulary only.
//
// Each sentence has its own list. Its logits are computed of the tokens of that list alone, in the order of token ids,
// whatever other sentences stand beside it: for this the output layer lies in memory token by token.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/buffer.h"
#include "transformer/matrix.h"

namespace uwaga {

struct Memory;
struct Model;

using Tokens = std::vector<int32_t>;

// The tokens that a sentence may become, rising, and what the output layer has of each beside its weights.
struct Allowed {
    Tokens tokens;
    std::shared_ptr<const Buffer<uint8_t>> weights;  // of all tokens, one after another
    std::vector<float> scales, biases;  // none where the weights have no scales, and without a bias
    std::vector<int32_t> sums;
};
using AllowedPtr = std::shared_ptr<const Allowed>;

// Which target tokens go with each source token, and which with all.
class Shortlist {
  public:
    // common and, for each source token s, targets[first[s]] to targets[first[s + 1]] rise; first and targets are kept
    // by whoever holds the shortlist. own: a source token may stay itself. A list is filled up to a multiple of
    // `multiple` with the lowest tokens that are not in it.
    Shortlist(const Model& model, Tokens common, const int32_t* first, const int32_t* targets, bool own, int64_t multiple);
    AllowedPtr of(const std::vector<int32_t>& source) const;

  private:
    const Model& model_;  // which whatever holds a shortlist holds too
    Tokens common_;
    const int32_t *first_, *targets_;
    bool own_;
    int64_t multiple_;
    std::shared_ptr<const Buffer<uint8_t>> weights_;
};

void restrict_to(const Shortlist& shortlist, const std::vector<std::vector<int32_t>>& sources, Memory& memory);

}  // namespace uwaga
