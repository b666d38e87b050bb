// The parts that encoder, decoder and prompts share.
//
// A block is x + f(norm(x)) in a pre-norm model and norm(x + f(x)) in a post-norm one (Xiong et al. 2020, figure 1):
// block_input is what f reads, and block_output its last projection with the residual and the norm. Where a team does
// the rows together, x is each member's own; what the team makes together lies in `shared`, whose buffers are large
// enough already.
#pragma once

#include "transformer/model.h"

namespace uwaga {

int64_t stride_of(int64_t width);  // of float rows
Rows rows_of(Workspace& ws, const float* x, int64_t rows, int64_t width, int64_t stride);
void normalise(const Model& model, const Norm& norm, const float* x, int64_t rows, float* y);

// x, normalised in a pre-norm model.
Rows block_input(const Model& model, const Norm& norm, const float* x, int64_t rows, Workspace& ws);
// x = x + out(in), normalised in a post-norm model; y = out(in) needs all of a team's `in`.
void block_output(const Model& model, const Linear& out, const Norm& norm, Rows& in, float* x, Workspace& shared, const ThreadSlice& slice);
// The same of a recurrent unit, which has no projection: x = x + relu(cells after), normalised in a post-norm model.
// `forget` and `input` hold its two products, (rows, stride); cells are a row's of this layer, `cells_stride` apart.
struct Recurrence {
    const float *forget, *input;
    int64_t stride;
    const float* before;
    float* after;
    int64_t cells_stride;
};
void recur(const Model& model, const Recurrence& unit, const Norm& norm, float* x, int64_t rows, Workspace& shared, const ThreadSlice& slice);
void feed_forward(const Model& model, const FeedForward& layer, float* x, int64_t rows, Workspace& ws, Workspace& shared, const ThreadSlice& slice);

void embed_rows(const Model& model, const Side& side, const int32_t* tokens, const int32_t* positions, int64_t rows, float* x);

// One query over keys and values in the number format that the model keeps them in; (heads, length) `weights` after.
// The value of a key lies heads.inner() numbers behind it, and key t at keys + offsets[t].
void attend_cached(const Model& model, const Heads& heads, const float* query, const void* keys, const int64_t* offsets, int64_t length, const float* bias, float* weights, float* context);
void store_key_value(const Model& model, const float* key_value, uint8_t* to);
// The bias (heads, length) of one query's scores, or null where positions are not relative.
const float* relative_bias(const Model& model, const Side& side, const Heads& heads, int64_t query, int64_t length, Workspace& ws);

}  // namespace uwaga
