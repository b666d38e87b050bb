// Encoding of sources and prompts; parts of Transformer::encode and Transformer::start.
#pragma once

#include <memory>
#include <vector>

#include "transformer/transformer.h"

namespace uwaga {

// Throw EditMismatch if a table of the model's edits does not fit a source.
void check_sources(const Transformer& model, const std::vector<Tokens>& sources);
// The keys and values of all decoder layers for encodings x, (rows, stride).
std::shared_ptr<const Chunk> keys_and_values(const Transformer& model, const float* x, int64_t rows,
                                             Workspace& ws);
// Like Transformer::encode, with the encoder's matrices.
Memory encode_recorded(const Transformer& model, const std::vector<Tokens>& sources,
                       const std::vector<float*>& attention);
// Transformer::encode of a decoder-only model.
Memory read_prompts(const Transformer& model, const std::vector<Tokens>& prompts);
// Add the memory's sentences to a state without any, each after its prompt.
void start_after_prompts(const Memory& memory, State& state);

}  // namespace uwaga
