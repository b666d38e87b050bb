// What Python does to see every attention matrix.
#pragma once

#include <vector>

#include "binding/model.h"

namespace uwaga {

// Per sentence the matrices of encoder, decoder and cross-attention, each (layers, heads, query, key) or None. The
// source of a decoder-only model is empty.
nb::list attentions_of(const std::shared_ptr<Handle>& handle, const std::vector<std::vector<int64_t>>& sources, const std::vector<std::vector<int64_t>>& targets);

}  // namespace uwaga
