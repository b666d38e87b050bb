// Every attention matrix of sentences whose targets are known: one pass over each side, apart from encoder and steps.
#pragma once

#include <cstdint>
#include <vector>

#include "transformer/model.h"

namespace uwaga {

// Where the matrices of one sentence are written, each (layers, heads, query, key). `decoder` must be zeros: what a
// position may not look at is left as it is. Null where the model has no such attention.
struct Matrices {
    float *encoder = nullptr, *decoder = nullptr, *cross = nullptr;
};

// What a model reads of a sentence: the source, none of a decoder-only model, and what each step of the target feeds.
struct Reading {
    std::vector<int32_t> source, target;
};

// The probabilities are those of encode() and step(), to the bit: a row's queries, keys and values are made by the same
// products, and the same kernel attends. No output layer is computed.
void record(const Model& model, const std::vector<Reading>& readings, const std::vector<Matrices>& to);

}  // namespace uwaga
