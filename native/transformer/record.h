// Every attention matrix of sentences whose targets are known: one pass over each side, apart from encoder and steps.
//
// The probabilities are those of encode() and step(), to the bit: a row's queries, keys and values are made by the same
// products, and the same kernel attends.
#pragma once

#include <cstdint>
#include <vector>

#include "transformer/state.h"

namespace uwaga {

// What the decoder reads of a sentence: its source, unless it is decoder-only, and what each step of the target feeds.
struct Reading {
    const EncodedSentence* source;
    std::vector<int32_t> target;
};

// Where a sentence's matrices are written, each (layers, heads, query, key). `decoder` must be zeros: what a position
// may not look at is left as it is. Null where the model has no such attention.
struct Matrices {
    float *decoder = nullptr, *cross = nullptr;
};

// The memory that encode() makes, with the matrices (layers, heads, source, source) of each sentence.
Memory encode_recorded(const ModelPtr& model, const std::vector<std::vector<int32_t>>& sources, const std::vector<float*>& to);
// Those of the decoder. No output layer is computed.
void record(const Model& model, const std::vector<Reading>& readings, const std::vector<Matrices>& to);

// One layer's cross-attention alone: of one head, (1, query, key), or below 0 of all, (heads, query, key). No layer behind
// it is computed.
struct CrossHead {
    int64_t layer = 0, head = -1;
};
void record_cross(const Model& model, const std::vector<Reading>& readings, const std::vector<float*>& to, const CrossHead& chosen);

}  // namespace uwaga
