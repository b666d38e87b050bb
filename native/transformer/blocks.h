// Building blocks shared by encoder, decoder and prompts.
//
// A block is x + f(norm(x)) in a pre-norm model, norm(x + f(x)) in a post-norm one (Xiong et al. 2020, figure
// 1) and x + norm(f(norm(x))) with both norms. block_input returns the input of f; block_output applies its
// last projection, the residual and the norm. When a team processes rows together, each member has its own x;
// the team's results are in `shared`, whose buffers are large enough already.
#pragma once

#include "transformer/edits.h"

namespace uwaga {

void normalise(const Transformer& model, const Norm& norm, const float* x, int64_t rows, float* y);

// Return x, with the norm before the block if it has one.
Rows block_input(const Transformer& model, const BlockNorms& norm, const float* x, int64_t rows,
                 Workspace& ws);
// x = x + out(in), with the norm after the block if it has one. Reads the rows of the whole team in `in`; the
// caller's `ws` no longer holds the block's input.
void block_output(const Transformer& model, const Linear& out, const BlockNorms& norm, Rows& in, float* x,
                  Workspace& ws, Workspace& shared, const ThreadSlice& slice);
// The same for a recurrent unit, which has no projection: x = x + relu(after), normalised in a post-norm
// model. `forget` and `input` are its two products, (rows, stride); rows' cells of this layer are
// `cells_stride` apart.
struct Recurrence {
    const float *forget, *input;
    int64_t stride;
    const float* before;
    float* after;
    int64_t cells_stride;
};
void recur(const Transformer& model, const Recurrence& unit, const BlockNorms& norm, float* x, int64_t rows,
           Workspace& shared, const ThreadSlice& slice);
void feed_forward(const Transformer& model, const FeedForward& layer, float* x, int64_t rows, Workspace& ws,
                  Workspace& shared, const ThreadSlice& slice);

void scale_output(const Transformer& model, float* x, int64_t rows);  // x times Shape::output_scale
void embed_rows(const Transformer& model, const Side& side, const int32_t* tokens, const int32_t* positions,
                int64_t rows, float* x, Workspace& ws);

// The angles of rows at these positions, (rows, rotary positions, head width); null if the model has no
// rotary positions.
const float* rotary_angles(const Transformer& model, const int32_t* positions, int64_t rows, Workspace& ws);
// Normalise and rotate the heads of a row's query and key, which begin at `projected` (query | key | value);
// without queries, only of the key. `angles` are the row's.
void normalise_and_rotate(const Transformer& model, const DecoderLayer& layer, const float* angles,
                          bool queries, float* projected);

// Attention over keys in float16 or float32, without edits; a value is heads.key_width() elements after its
// key.
void attend_keys(const Transformer& model, const Heads& heads, bool float16, const void* keys,
                 CachedAttention attention);
CachedAttention single_query(const float* query, const int64_t* offsets, int64_t length, const float* bias,
                             float* weights, float* context);
// Attention of one query over cached keys and values, in the cache's number format. Key t is at keys +
// offsets[t]. Its weights (heads, length) are with the model's edits.
void attend_cached(const Transformer& model, const Heads& heads, const QueryPosition& position,
                   const void* keys, const CachedAttention& attention);
void store_key_value(const Transformer& model, const float* key_value, uint8_t* to);
// The bias (heads, length) of one query's scores; null if positions are not relative.
const float* relative_bias(const Transformer& model, const Side& side, const Heads& heads, int64_t query,
                           int64_t length, Workspace& ws);

}  // namespace uwaga
