// Candidates from features, for sentences with shortlists.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "output/choose.h"
#include "transformer/blocks.h"

namespace uwaga {

namespace {

constexpr int64_t block_rows = 8;      // rows whose logits are held at one time
constexpr int64_t most_inserted = 64;  // best tokens selected by insertion; more are sorted
constexpr int64_t parts = 4, lanes = 4 * parts;  // independent sums, the same on every processor

// Four floats, vectorised by every compiler for x86-64 and Arm.
typedef float Four __attribute__((vector_size(16)));
typedef int32_t Bits __attribute__((vector_size(16)));

inline Four all(float x) { return Four{x, x, x, x}; }
inline Bits all(int32_t x) { return Bits{x, x, x, x}; }
inline Four blend(Bits mask, Four a, Four b) { return reinterpret_cast<Four>((mask & reinterpret_cast<Bits>(a)) | (~mask & reinterpret_cast<Bits>(b))); }
inline Four load(const float* from) {
    Four found;
    std::memcpy(&found, from, sizeof found);
    return found;
}

// e^x for x <= 0, relative error about 1e-7; 0 below -87. Cephes expf: x = n ln 2 + r, a polynomial in r.
inline Four exponential(Four x) {
    const Bits inside = x > all(-87.0f);
    const Four rounding = all(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
    const Four y = blend(inside, x, all(-87.0f));
    const Four n = (y * all(1.44269504088896341f) + rounding) - rounding;
    const Four r = (y - n * all(0.693359375f)) + n * all(2.12194440e-4f);
    Four p = all(1.9875691500e-4f);
    p = p * r + all(1.3981999507e-3f);
    p = p * r + all(8.3334519073e-3f);
    p = p * r + all(4.1665795894e-2f);
    p = p * r + all(1.6666665459e-1f);
    p = p * r + all(5.0000001201e-1f);
    p = p * (r * r) + r + all(1.0f);
    const Bits power = (__builtin_convertvector(n, Bits) + all(127)) << all(23);
    return blend(inside, p * reinterpret_cast<Four>(power), all(0.0f));
}

// NaN if a logit is NaN or +inf. `logits` has room for whole lanes; the excess is filled with -inf here.
double log_sum_exp(float* logits, int64_t count) {
    const int64_t padded = rounded(count, lanes);
    std::fill(logits + count, logits + padded, minus_infinity);
    Four most = all(minus_infinity);
    Bits good = all(-1);
    for (int64_t i = 0; i < padded; i += 4) {
        const Four x = load(logits + i);
        most = blend(x > most, x, most);
        good &= x == x;
    }
    float top = minus_infinity;
    bool sound = true;
    for (int j = 0; j < 4; ++j) {
        top = std::max(top, most[j]);
        sound = sound && good[j];
    }
    if (!sound || top == -minus_infinity) return not_a_number;
    if (top == minus_infinity) return minus_infinity;
    Four sums[parts] = {};
    for (int64_t i = 0; i < padded; i += lanes) {
        for (int64_t j = 0; j < parts; ++j) sums[j] += exponential(load(logits + i + 4 * j) - all(top));
    }
    double sum = 0;
    for (const Four& part : sums) {
        for (int j = 0; j < 4; ++j) sum += part[j];
    }
    return top + std::log(sum);
}

// Write the positions of the `size` best logits to `order`, best first: 1 to `count`. It has room for all; none is NaN.
void best_of(const float* logits, int64_t count, int64_t size, int32_t* order) {
    if (size > most_inserted) return sort_head(logits, count, size, order);
    int64_t filled = 0;
    for (int64_t i = 0; i < count; ++i) {
        const float given = logits[i];
        if (filled == size && !(given > logits[order[size - 1]])) continue;  // a later position loses a tie
        int64_t at = filled < size ? filled++ : size - 1;
        for (; at > 0 && given > logits[order[at - 1]]; --at) order[at] = order[at - 1];
        order[at] = static_cast<int32_t>(i);
    }
}

class ListedChooser {
  public:
    ListedChooser(const Model& model, Rows& in, int64_t first_row, const Request& request, const Answer& answer, const State& state, Workspace& ws)
        : model_(model), in_(in), first_(first_row), request_(request), answer_(answer), state_(state), ws_(ws) {}

    // Rows of a sentence share its list.
    void run(int64_t from, int64_t to) {
        for (int64_t start = from; start < to;) {
            const int64_t place = (first_ + start) / state_.beams, end = std::min({to, start + block_rows, (place + 1) * state_.beams - first_});
            const Allowed& allowed = *state_.sentences[static_cast<std::size_t>(place)].memory.allowed;
            const int64_t stride = rounded(static_cast<int64_t>(allowed.tokens.size()) + 1, lanes);
            float* logits = ws_.logits.ensure(block_rows * stride);
            product(start, end - start, allowed, logits, stride);
            for (int64_t row = start; row < end; ++row) finish(row, allowed.tokens, logits + (row - start) * stride);
            start = end;
        }
    }

  private:
    void product(int64_t start, int64_t rows, const Allowed& allowed, float* logits, int64_t stride) {
        const Matrix& whole = model_.output_weight;
        const Kernels& kernels = *model_.kernels;
        ListedTokens w{allowed.tokens.data(), static_cast<int64_t>(allowed.tokens.size()), whole.inputs(), allowed.weights->get()};
        w.bias = allowed.biases.empty() ? nullptr : allowed.biases.data();
        const float* x = in_.x + start * in_.stride;
        if (whole.quantised()) {
            w.scales = allowed.scales.data();
            w.sums = allowed.sums.data();
            Rows some = in_.part(start, rows);
            kernels.int8_listed(some.as_int8(kernels, whole), rows, w, logits, stride);
        } else if (whole.kind == Matrix::Kind::bfloat16) {
            kernels.bfloat16_listed(by_parity(x, rows), rows, 2 * half(), w, logits, stride);
        } else {
            kernels.float_listed(x, rows, in_.stride, w, logits, stride);
        }
    }

    int64_t half() const { return (in_.width + 1) / 2; }

    // The even-indexed elements of each row, then the odd-indexed ones.
    const float* by_parity(const float* x, int64_t rows) {
        float* to = ws_.listed.ensure(rows * 2 * half());
        for (int64_t row = 0; row < rows; ++row) {
            const float* from = x + row * in_.stride;
            float* of_row = to + row * 2 * half();
            of_row[2 * half() - 1] = 0;
            for (int64_t k = 0; k < in_.width; ++k) of_row[k % 2 * half() + k / 2] = from[k];
        }
        return to;
    }

    void finish(int64_t row, const Tokens& list, float* logits) {
        const int64_t count = static_cast<int64_t>(list.size());
        const int64_t bound = request_.forced && !request_.whole ? request_.forced[first_ + row] : -1;
        if (bound >= 0) return put_forced(row, list, logits, static_cast<int32_t>(bound));
        const double whole = log_sum_exp(logits, count);
        if (request_.whole) return put_whole(row, list, logits, whole);
        if (std::isnan(whole)) return answer_.put_all(first_ + row, whole);
        const bool fewer = ban(row, list, logits);
        const double shared = request_.renormalise && fewer ? log_sum_exp(logits, count) : whole;
        for (int64_t j = 0; j < answer_.wanted; ++j) {
            const int32_t token = static_cast<int32_t>(request_.wanted[(first_ + row) * answer_.wanted + j]);
            put(row, answer_.k + j, std::max(token, 0), wanted_log_prob(row, list, logits, token, shared));
        }
        int32_t* order = ws_.order.ensure(count);
        const int64_t found = std::min(answer_.k, count);  // at least 1: a list has the common tokens
        if (request_.uniform) order[0] = draw(logits, count, request_, request_.uniform[first_ + row], ws_);
        else best_of(logits, count, found, order);
        for (int64_t i = 0; i < answer_.k; ++i) {
            if (i >= found) put(row, i, 0, minus_infinity);
            else put(row, i, list[static_cast<std::size_t>(order[i])], log_prob(logits[order[i]], shared));
        }
    }

    // A forced token belongs to the row's list in this step.
    void put_forced(int64_t row, const Tokens& list, float* logits, int32_t token) {
        int64_t count = static_cast<int64_t>(list.size()), at = std::lower_bound(list.begin(), list.end(), token) - list.begin();
        if (at == count || list[static_cast<std::size_t>(at)] != token) {
            at = count++;
            logits[at] = static_cast<float>(logit_at(in_, row, model_.output_weight, model_.logits(), token));
        }
        answer_.put_all(first_ + row, minus_infinity);
        put(row, 0, token, logits[at] - log_sum_exp(logits, count));
    }

    // For a token of the list, or another one as if it alone were added. `shared` is the list's log-sum-exp.
    double wanted_log_prob(int64_t row, const Tokens& list, const float* logits, int32_t token, double shared) {
        if (token < 0) return minus_infinity;
        const auto at = std::lower_bound(list.begin(), list.end(), token);
        if (at != list.end() && *at == token) return log_prob(logits[at - list.begin()], shared);
        if (!request_.banned_first.empty() && !request_.whole) {
            const std::size_t of_row = static_cast<std::size_t>(first_ + row);
            const auto first = request_.banned.begin() + request_.banned_first[of_row], last = request_.banned.begin() + request_.banned_first[of_row + 1];
            if (std::binary_search(first, last, token)) return minus_infinity;
        }
        const double logit = logit_at(in_, row, model_.output_weight, model_.logits(), token), top = std::max(logit, shared);
        if (!(logit <= std::numeric_limits<float>::max())) return not_a_number;
        return std::isinf(top) ? minus_infinity : logit - (top + std::log(std::exp(logit - top) + std::exp(shared - top)));
    }

    void put_whole(int64_t row, const Tokens& list, const float* logits, double whole) {  // answer_.wanted is 0
        float* to = answer_.log_probs + (first_ + row) * answer_.k;
        std::fill(to, to + answer_.k, minus_infinity);
        for (std::size_t i = 0; i < list.size(); ++i) to[list[i]] = static_cast<float>(logits[i] - whole);
        for (int64_t j = 0; j < request_.wanted_count && !std::isnan(whole); ++j) {
            const int32_t token = static_cast<int32_t>(request_.wanted[(first_ + row) * request_.wanted_count + j]);
            if (token >= 0) to[token] = static_cast<float>(wanted_log_prob(row, list, logits, token, whole));
        }
    }

    // Set banned tokens of the list to -inf; returns whether there are any.
    bool ban(int64_t row, const Tokens& list, float* logits) const {
        if (request_.banned_first.empty()) return false;
        const std::size_t at = static_cast<std::size_t>(first_ + row);
        bool any = false;
        auto from = list.begin();
        for (int32_t i = request_.banned_first[at]; i < request_.banned_first[at + 1] && from != list.end(); ++i) {
            const int32_t token = request_.banned[static_cast<std::size_t>(i)];
            from = std::lower_bound(from, list.end(), token);
            if (from == list.end() || *from != token) continue;
            logits[from - list.begin()] = minus_infinity;
            any = true;
        }
        return any;
    }

    void put(int64_t row, int64_t i, int32_t token, double log_prob) { answer_.put(first_ + row, i, token, log_prob); }

    const Model& model_;
    Rows& in_;
    int64_t first_;
    const Request& request_;
    const Answer& answer_;
    const State& state_;
    Workspace& ws_;
};

}  // namespace

void choose_listed(const Model& model, Rows& in, int64_t first_row, int64_t from, int64_t to, const Request& request, const Answer& answer, const State& state, Workspace& ws) {
    ListedChooser(model, in, first_row, request, answer, state, ws).run(from, to);
}

}  // namespace uwaga
