// What the ways to choose candidates have in common.
#pragma once

#include "transformer/model.h"

namespace uwaga {

// Ties go to the lower token.
inline bool before(float a, int32_t a_token, float b, int32_t b_token) { return a > b || (a == b && a_token < b_token); }

// The `size` best tokens of logits, best first, in `order`, which has room for the whole vocabulary.
void sort_head(const float* logits, int64_t vocabulary, int64_t size, int32_t* order);

// Draw a token from logits in which banned ones are -inf.
int32_t draw(const float* logits, int64_t vocabulary, const Request& request, double uniform, Workspace& ws);

// The candidates of rows [from, to) of `in`, whose sentences have lists.
void choose_listed(const Model& model, Rows& in, int64_t first_row, int64_t from, int64_t to, const Request& request, const Answer& answer, const State& state, Workspace& ws);

}  // namespace uwaga
