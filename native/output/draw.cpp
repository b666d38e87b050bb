// Sorting and sampling from a row's logits.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "output/choose.h"

namespace uwaga {

namespace {
constexpr int64_t head = 256;  // most probable tokens, searched first for a sample
}

void sort_head(const float* logits, int64_t vocabulary, int64_t size, int32_t* order) {
    std::iota(order, order + vocabulary, 0);
    const auto better = [logits](int32_t a, int32_t b) { return before(logits[a], a, logits[b], b); };
    if (size < vocabulary) std::nth_element(order, order + size, order + vocabulary, better);
    std::sort(order, order + size, better);
}

namespace {

// See uwaga.search.choose.pick: the index that the sample falls on; `weights` descend.
int64_t pick(const double* weights, int64_t size, double mass, double top_p, double uniform, double* reached) {
    double sum = 0;
    for (int64_t i = 0; i < size; ++i) reached[i] = sum += weights[i];
    double total = mass;
    int64_t inside = size;
    if (top_p < 1.0) {
        inside = 0;
        while (inside < size && (inside ? reached[inside - 1] : 0.0) < top_p * mass) ++inside;
        total = reached[std::max<int64_t>(inside, 1) - 1];
    }
    int64_t positive = 0;
    while (positive < inside && weights[positive] > 0.0) ++positive;
    const int64_t last = std::max<int64_t>(positive - 1, 0);
    for (int64_t i = 0; i < size; ++i) {
        if (reached[i] > uniform * total) return std::min(i, last);
    }
    return last;
}

}  // namespace

int32_t draw(const float* logits, int64_t vocabulary, const Request& request, double uniform, Workspace& ws) {
    int32_t* order = ws.order.ensure(vocabulary);
    double* room = ws.cumulative.ensure(2 * vocabulary);
    float top = *std::max_element(logits, logits + vocabulary);
    if (std::isinf(top)) top = 0;
    double whole = 0;
    if (!request.top_k) {
        for (int64_t i = 0; i < vocabulary; ++i) whole += std::exp((static_cast<double>(logits[i]) - top) / request.temperature);
    }
    int64_t size = std::min(request.top_k ? request.top_k : head, vocabulary);
    for (;; size = std::min(size * 8, vocabulary)) {
        sort_head(logits, vocabulary, size, order);
        double sum = 0;
        for (int64_t i = 0; i < size; ++i) {
            room[i] = std::exp((static_cast<double>(logits[order[i]]) - top) / request.temperature);
            sum += room[i];
        }
        const double mass = request.top_k ? sum : whole;
        const double needed = request.top_p < 1.0 ? request.top_p : uniform;
        if (request.top_k || size == vocabulary || sum > needed * mass) {
            return order[pick(room, size, mass, request.top_p, uniform, room + vocabulary)];
        }
    }
}

}  // namespace uwaga
