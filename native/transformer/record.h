// Recording of all attention matrices for known targets: one pass over each side, separate from encode() and
// step().
//
// The probabilities are bit-identical to those of encode() and step(): queries, keys and values come from the
// same products, and attention from the same kernel.
#pragma once

#include <cstdint>
#include <vector>

#include "transformer/insight.h"
#include "transformer/state.h"

namespace uwaga {

// The decoder's input for a sentence: its source (none if decoder-only) and the token fed at each step of the
// target.
struct DecoderInput {
    const EncodedSentence* source;
    std::vector<int32_t> target;
};

// Where a sentence's matrices are written, each (layers, heads, query, key); null if the model has no such
// attention. `decoder` must be zeroed, because masked positions are not written.
struct Matrices {
    float *decoder = nullptr, *cross = nullptr;
};

// Like encode(); also writes each sentence's matrices (layers, heads, source, source) to `to`.
Memory encode_recorded(const ModelPtr& model, const std::vector<std::vector<int32_t>>& sources,
                       const std::vector<float*>& to);
// Record the decoder's matrices. The output layer is not computed.
void record(const Model& model, const std::vector<DecoderInput>& inputs, const std::vector<Matrices>& to);

// Record one layer's cross-attention: (1, query, key) of one head, or (heads, query, key) if `head` is
// negative. Later layers are not computed.
struct CrossHead {
    int64_t layer = 0, head = -1;
};
void record_cross(const Model& model, const std::vector<DecoderInput>& inputs, const std::vector<float*>& to,
                  const CrossHead& selected);

// Return the selected arrays (insight_arrays) of one source, empty in a decoder-only model, and the tokens
// fed at each step of the target. The weights are those of encode() and step(), bit for bit, with the model's
// edits; so are the logits, of which step() returns the logarithms of the softmax. Scores are summed in
// another order than in the kernels. Throws InsightTooLarge, before it computes anything, if they take more
// than `bound` bytes.
std::vector<NamedArray> compute_insight(const ModelPtr& model, const std::vector<int32_t>& source,
                                        const std::vector<int32_t>& target,
                                        const std::vector<std::string>& selection, int64_t bound);

}  // namespace uwaga
