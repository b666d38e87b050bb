// The request and the answer of a step: see uwaga.decoder.Choice and Step.
#pragma once

#include <cstdint>
#include <vector>

namespace uwaga {

struct Request {
    int64_t count = 1;
    bool full_vocabulary = false, renormalise = false;
    bool logits = false;                // those of the full vocabulary, not normalised
    std::vector<int32_t> banned;        // ascending within a row
    std::vector<int32_t> banned_first;  // (rows + 1,): offsets into banned
    const int64_t* forced = nullptr;    // (rows,) or null
    const double* uniform = nullptr;    // (rows,) or null
    double temperature = 1, top_p = 1;
    int64_t top_k = 0;
    const int64_t* requested = nullptr;  // (rows, requested_count), -1 for none
    int64_t requested_count = 0;
};

struct Answer {
    int64_t* tokens = nullptr;   // (rows, k + requested); not set if the whole vocabulary is requested
    float* log_probs = nullptr;  // (rows, k + requested)
    int64_t k = 0;
    int64_t requested = 0;       // columns after the best
    float* attention = nullptr;  // (rows, attention_width) or null
    int64_t attention_width = 0;
    float* features = nullptr;  // (rows, width) that the output layer reads, or null

    void put(int64_t row, int64_t i, int32_t token, double log_prob) const {
        tokens[row * (k + requested) + i] = token;
        log_probs[row * (k + requested) + i] = static_cast<float>(log_prob);
    }
    void put_all(int64_t row, double log_prob) const {
        for (int64_t i = 0; i < k + requested; ++i) put(row, i, 0, log_prob);
    }
};

}  // namespace uwaga
