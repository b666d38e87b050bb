// Python interface of attention recording.
#pragma once

#include <vector>

#include "binding/step.h"

namespace uwaga {

// Like encode_sources; the memory also has the matrices of each sentence, (layers, heads, source, source).
PyMemory encode_recorded_sources(const std::shared_ptr<Handle>& handle,
                                 const std::vector<std::vector<int64_t>>& sources,
                                 const PyShortlist* shortlist);
// For each target, the matrices of self-attention and cross-attention, each (layers, heads, query, key) or
// None. The source of target t is sentence `sentences[t]` of memory t; a decoder-only model has no memories.
nb::list attentions_of(const std::shared_ptr<Handle>& handle, const std::vector<const PyMemory*>& memories,
                       const std::vector<int64_t>& sentences,
                       const std::vector<std::vector<int64_t>>& targets);
// For each target, the cross-attention (heads, query, key) of one layer: of all heads if `head` is -1, else
// of one.
nb::list cross_attention_of(const std::shared_ptr<Handle>& handle,
                            const std::vector<const PyMemory*>& memories,
                            const std::vector<int64_t>& sentences,
                            const std::vector<std::vector<int64_t>>& targets, int64_t layer, int64_t head);

// The arrays inside one translation, by name; see look_inside().
nb::dict insight_of(const std::shared_ptr<Handle>& handle, const std::vector<int64_t>& source,
                    const std::vector<int64_t>& target, const std::vector<std::string>& names, int64_t bound);

}  // namespace uwaga
