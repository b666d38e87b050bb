// Choosing candidates from features, and helpers that its variants share.
#pragma once

#include <cmath>
#include <limits>

#include "network/network.h"

namespace uwaga {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t output_chunks = 4;      // chunks of the vocabulary, for any number of threads: sums are per
                                          // chunk
constexpr int64_t min_chunk_panels = 64;  // minimum panels per chunk; a smaller vocabulary is a single chunk

// Choose candidates for rows of a state, whose features are in `in`.
void choose(const Network& network, Rows& in, int64_t first_row, const Request& request, const Answer& answer,
            const State& state, Workspace& ws, Workspace& shared, const ThreadSlice& slice);

// The log-probability of a logit, one of a row's, in which none is NaN or +inf.
inline double log_prob(double logit, double log_sum_exp) {
    return std::isinf(logit) ? minus_infinity : logit - log_sum_exp;
}

// Ties go to the lower token.
inline bool before(float a, int32_t a_token, float b, int32_t b_token) {
    return a > b || (a == b && a_token < b_token);
}

// Sort the `size` best tokens to the front of `order`, which has room for the whole vocabulary. No logit is
// NaN.
void sort_head(const float* logits, int64_t vocabulary, int64_t size, int32_t* order);

// Sample a token from at least one logit, none of them NaN or +inf. Banned tokens are -inf.
int32_t draw(const float* logits, int64_t vocabulary, const Request& request, double uniform, Workspace& ws);

// Choose candidates for rows [from, to) of `in`, whose sentences have shortlists.
void choose_listed(const Network& network, Rows& in, int64_t first_row, int64_t from, int64_t to,
                   const Request& request, const Answer& answer, const State& state, Workspace& ws);

}  // namespace uwaga
