// From features to candidates, and what the ways to choose them have in common.
#pragma once

#include "transformer/state.h"

namespace uwaga {

constexpr int64_t output_chunks = 4;        // of the vocabulary, whatever the threads: sums are made chunk by chunk
constexpr int64_t least_chunk_panels = 64;  // of a chunk; a smaller vocabulary is one

// The candidates of rows of a state whose features are in `in`.
void choose(const Model& model, Rows& in, int64_t first_row, const Request& request, const Answer& answer, const State& state, Workspace& ws, Workspace& shared, const ThreadSlice& slice);

// Ties go to the lower token.
inline bool before(float a, int32_t a_token, float b, int32_t b_token) { return a > b || (a == b && a_token < b_token); }

// The `size` best tokens of logits, best first, in `order`, which has room for the whole vocabulary.
void sort_head(const float* logits, int64_t vocabulary, int64_t size, int32_t* order);

// Draw a token from logits in which banned ones are -inf.
int32_t draw(const float* logits, int64_t vocabulary, const Request& request, double uniform, Workspace& ws);

// The candidates of rows [from, to) of `in`, whose sentences have lists.
void choose_listed(const Model& model, Rows& in, int64_t first_row, int64_t from, int64_t to, const Request& request, const Answer& answer, const State& state, Workspace& ws);

}  // namespace uwaga
