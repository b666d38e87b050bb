// Attention with edits: a separate path, without which nothing changes.
#pragma once

#include <cstdint>

#include "transformer/transformer.h"

namespace uwaga {

// Throw EditMismatch unless the tables for this kind of attention fit queries up to `row` and this number of
// keys.
void check_tables(const Transformer& model, AttentionKind kind, int64_t row, int64_t keys);

// A query: row `row` of a layer's attention, whose keys begin with key `first`.
struct QueryPosition {
    AttentionKind kind;
    int64_t layer, row, first = 0;
};

// The factor of a head's scores, which an edit may have replaced.
float scale_of(const Transformer& model, const Heads& heads, AttentionKind kind, int64_t layer, int64_t head);
// A number of the cache in float16, which holds no infinity.
float float_of(uint16_t half);

// Attention of one query over keys in float16 or float32, as attend_cached, in a model with edits.
void attend_edited(const Transformer& model, const Heads& heads, const QueryPosition& position, bool float16,
                   const void* keys, CachedAttention attention);
// Self-attention of a sentence in an encoder layer with edits; `projected` (length, query | key | value).
// `to`, if not null, receives the weights (heads, length, length).
void encode_edited(const Transformer& model, int64_t layer, const float* projected, int64_t stride,
                   int64_t length, float* context, int64_t context_stride, float* to, Workspace& ws);

}  // namespace uwaga
