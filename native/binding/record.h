// What Python does to see every attention matrix.
#pragma once

#include <vector>

#include "binding/step.h"

namespace uwaga {

// As encode_sources, with the matrices of each sentence, (layers, heads, source, source), in the memory.
PyMemory encode_recorded_sources(const std::shared_ptr<Handle>& handle, const std::vector<std::vector<int64_t>>& sources, const PyShortlist* shortlist);
// Per target the matrices of decoder and cross-attention, each (layers, heads, query, key) or None. A decoder-only model
// has no memories; of any other, the source of target t is sentence `sentences[t]` of memory t.
nb::list attentions_of(const std::shared_ptr<Handle>& handle, const std::vector<const PyMemory*>& memories, const std::vector<int64_t>& sentences, const std::vector<std::vector<int64_t>>& targets);
// Per target the cross-attention (heads, query, key) of one layer, of all heads or, from 0 on, of one.
nb::list cross_attention_of(const std::shared_ptr<Handle>& handle, const std::vector<const PyMemory*>& memories, const std::vector<int64_t>& sentences, const std::vector<std::vector<int64_t>>& targets, int64_t layer, int64_t head);

}  // namespace uwaga
