// Sorting and sampling from a row's logits.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "output/choose.h"

namespace uwaga {

namespace {
constexpr int64_t first_candidates = 256;  // most probable tokens, searched first for a sample
}

void sort_head(const float* logits, int64_t vocabulary, int64_t size, int32_t* order) {
    std::iota(order, order + vocabulary, 0);
    const auto better = [logits](int32_t a, int32_t b) { return before(logits[a], a, logits[b], b); };
    if (size < vocabulary) std::nth_element(order, order + size, order + vocabulary, better);
    std::sort(order, order + size, better);
}

namespace {

// See uwaga.search.choose.pick: the index that the sample falls on; `weights` descend.
int64_t pick(const double* weights, int64_t size, double mass, double top_p, double uniform,
             double* cumulative) {
    double sum = 0;
    for (int64_t i = 0; i < size; ++i) cumulative[i] = sum += weights[i];
    double total = mass;
    int64_t nucleus = size;
    if (top_p < 1.0) {
        nucleus = 0;
        while (nucleus < size && (nucleus ? cumulative[nucleus - 1] : 0.0) < top_p * mass) ++nucleus;
        total = cumulative[std::max<int64_t>(nucleus, 1) - 1];
    }
    int64_t positive = 0;
    while (positive < nucleus && weights[positive] > 0.0) ++positive;
    const int64_t last = std::max<int64_t>(positive - 1, 0);
    for (int64_t i = 0; i < size; ++i) {
        if (cumulative[i] > uniform * total) return std::min(i, last);
    }
    return last;
}

}  // namespace

int32_t draw(const float* logits, int64_t vocabulary, const Request& request, double uniform, Workspace& ws) {
    int32_t* order = ws.order.ensure(vocabulary);
    double* weights = ws.cumulative.ensure(2 * vocabulary);
    float top = *std::max_element(logits, logits + vocabulary);
    if (std::isinf(top)) top = 0;
    double total = 0;
    if (!request.top_k) {
        for (int64_t i = 0; i < vocabulary; ++i)
            total += std::exp((static_cast<double>(logits[i]) - top) / request.temperature);
    }
    int64_t size = std::min(request.top_k ? request.top_k : first_candidates, vocabulary);
    for (;; size = std::min(size * 8, vocabulary)) {
        sort_head(logits, vocabulary, size, order);
        double sum = 0;
        for (int64_t i = 0; i < size; ++i) {
            weights[i] = std::exp((static_cast<double>(logits[order[i]]) - top) / request.temperature);
            sum += weights[i];
        }
        const double mass = request.top_k ? sum : total;
        const double required = request.top_p < 1.0 ? request.top_p : uniform;
        if (request.top_k || size == vocabulary || sum > required * mass) {
            return order[pick(weights, size, mass, request.top_p, uniform, weights + vocabulary)];
        }
    }
}

}  // namespace uwaga
