// Candidates from features, for sentences with shortlists.
#include <algorithm>
#include <cmath>
#include <limits>

#include "output/choose.h"
#include "output/four.h"
#include "output/mixture.h"

namespace uwaga {

namespace {

constexpr int64_t block_rows = 8;     // rows whose logits are held at one time
constexpr int64_t max_inserted = 64;  // best tokens selected by insertion; more are sorted
typedef int32_t Bits __attribute__((vector_size(16)));

inline Four broadcast(float x) { return Four{x, x, x, x}; }
inline Bits broadcast(int32_t x) { return Bits{x, x, x, x}; }
inline Four blend(Bits mask, Four a, Four b) {
    return reinterpret_cast<Four>((mask & reinterpret_cast<Bits>(a)) | (~mask & reinterpret_cast<Bits>(b)));
}

// e^x for x <= 0, relative error about 1e-7; 0 below -87. Cephes expf: x = n ln 2 + r, a polynomial in r.
inline Four exponential(Four x) {
    const Bits inside = x > broadcast(-87.0f);
    const Four rounding = broadcast(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
    const Four y = blend(inside, x, broadcast(-87.0f));
    const Four n = (y * broadcast(1.44269504088896341f) + rounding) - rounding;
    const Four r = (y - n * broadcast(0.693359375f)) + n * broadcast(2.12194440e-4f);
    Four p = broadcast(1.9875691500e-4f);
    p = p * r + broadcast(1.3981999507e-3f);
    p = p * r + broadcast(8.3334519073e-3f);
    p = p * r + broadcast(4.1665795894e-2f);
    p = p * r + broadcast(1.6666665459e-1f);
    p = p * r + broadcast(5.0000001201e-1f);
    p = p * (r * r) + r + broadcast(1.0f);
    const Bits power = (__builtin_convertvector(n, Bits) + broadcast(127)) << broadcast(23);
    return blend(inside, p * reinterpret_cast<Four>(power), broadcast(0.0f));
}

// NaN if a logit is NaN or +inf. `logits` has room for whole lanes; the excess is filled with -inf here.
double log_sum_exp(float* logits, int64_t count) {
    const int64_t padded = rounded(count, lanes);
    std::fill(logits + count, logits + padded, minus_infinity);
    Four maximum = broadcast(minus_infinity);
    Bits valid = broadcast(-1);
    for (int64_t i = 0; i < padded; i += 4) {
        const Four x = load(logits + i);
        maximum = blend(x > maximum, x, maximum);
        valid &= x == x;
    }
    float top = minus_infinity;
    bool finite = true;
    for (int j = 0; j < 4; ++j) {
        top = std::max(top, maximum[j]);
        finite = finite && valid[j];
    }
    if (!finite || top == -minus_infinity) return not_a_number;
    if (top == minus_infinity) return minus_infinity;
    Four sums[parts] = {};
    for (int64_t i = 0; i < padded; i += lanes) {
        for (int64_t j = 0; j < parts; ++j) sums[j] += exponential(load(logits + i + 4 * j) - broadcast(top));
    }
    double sum = 0;
    for (const Four& part : sums) {
        for (int j = 0; j < 4; ++j) sum += part[j];
    }
    return top + std::log(sum);
}

// Write the positions of the `size` best logits to `order`, best first: 1 to `count`. It has room for all;
// none is NaN.
void best_of(const float* logits, int64_t count, int64_t size, int32_t* order) {
    if (size > max_inserted) return sort_head(logits, count, size, order);
    int64_t filled = 0;
    for (int64_t i = 0; i < count; ++i) {
        const float logit = logits[i];
        if (filled == size && !(logit > logits[order[size - 1]])) continue;  // a later position loses a tie
        int64_t slot = filled < size ? filled++ : size - 1;
        for (; slot > 0 && logit > logits[order[slot - 1]]; --slot) order[slot] = order[slot - 1];
        order[slot] = static_cast<int32_t>(i);
    }
}

class ListedChooser {
  public:
    ListedChooser(const Network& network, Rows& in, int64_t first_row, const Request& request,
                  const Answer& answer, const State& state, Workspace& ws)
        : network_(network), in_(in), first_(first_row), request_(request), answer_(answer), state_(state),
          ws_(ws) {}

    // Rows of a sentence share its list.
    void run(int64_t from, int64_t to) {
        for (int64_t start = from; start < to;) {
            const int64_t sentence = (first_ + start) / state_.beams,
                          end = std::min({to, start + block_rows, (sentence + 1) * state_.beams - first_});
            const Allowed& allowed = *state_.sentences[static_cast<std::size_t>(sentence)].memory.allowed;
            const int64_t stride = rounded(static_cast<int64_t>(allowed.tokens.size()) + 1, lanes);
            float* logits = ws_.logits.ensure(block_rows * stride);
            product(start, end - start, allowed, logits, stride);
            const EncodedSentence& memory = state_.sentences[static_cast<std::size_t>(sentence)].memory;
            for (int64_t row = start; row < end; ++row) {
                mixed_ = mixture_of(memory, in_.x + row * in_.stride);
                finish(row, allowed.tokens, logits + (row - start) * stride);
            }
            start = end;
        }
    }

  private:
    void product(int64_t start, int64_t rows, const Allowed& allowed, float* logits, int64_t stride) {
        const Matrix& output = network_.output_weight;
        const Kernels& kernels = *network_.kernels;
        ListedTokens w{allowed.tokens.data(), static_cast<int64_t>(allowed.tokens.size()), output.inputs(),
                       allowed.weights->get()};
        w.bias = allowed.biases.empty() ? nullptr : allowed.biases.data();
        const float* x = in_.x + start * in_.stride;
        if (output.quantised()) {
            w.scales = allowed.scales.data();
            w.sums = allowed.sums.data();
            Rows part = in_.part(start, rows);
            kernels.int8_listed(part.as_int8(kernels, output), rows, w, logits, stride);
        } else if (output.kind == Matrix::Kind::bfloat16) {
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
            float* to_row = to + row * 2 * half();
            to_row[2 * half() - 1] = 0;
            for (int64_t k = 0; k < in_.width; ++k) to_row[k % 2 * half() + k / 2] = from[k];
        }
        return to;
    }

    void finish(int64_t row, const Tokens& list, float* logits) {
        const int64_t count = static_cast<int64_t>(list.size());
        const int64_t forced_token = request_.forced && !request_.full_vocabulary
                                         ? request_.forced[first_ + row]
                                         : -1;
        if (forced_token >= 0) return put_forced(row, list, logits, static_cast<int32_t>(forced_token));
        double total = log_sum_exp(logits, count);
        if (mixed_ && std::isfinite(total)) {
            mixed_.apply(logits, count, total, [&](int32_t token) {
                return std::lower_bound(list.begin(), list.end(), token) - list.begin();
            });
            shift_ = std::log1p(-mixed_.weight()) - total;
            total = log_sum_exp(logits, count);
        } else {
            shift_ = 0;
        }
        if (request_.full_vocabulary) return put_full(row, list, logits, request_.logits ? 0 : total);
        if (std::isnan(total)) return answer_.put_all(first_ + row, total);
        const bool banned_any = ban(row, list, logits);
        const double normaliser = request_.renormalise && banned_any ? log_sum_exp(logits, count) : total;
        for (int64_t j = 0; j < answer_.requested; ++j) {
            const int32_t token =
                static_cast<int32_t>(request_.requested[(first_ + row) * answer_.requested + j]);
            put(row, answer_.k + j, std::max(token, 0),
                requested_log_prob(row, list, logits, token, normaliser));
        }
        int32_t* order = ws_.order.ensure(count);
        const int64_t available = std::min(answer_.k, count);  // at least 1: a list has the common tokens
        if (request_.uniform) order[0] = draw(logits, count, request_, request_.uniform[first_ + row], ws_);
        else best_of(logits, count, available, order);
        for (int64_t i = 0; i < answer_.k; ++i) {
            if (i >= available) put(row, i, 0, minus_infinity);
            else
                put(row, i, list[static_cast<std::size_t>(order[i])], log_prob(logits[order[i]], normaliser));
        }
    }

    // A forced token belongs to the row's list in this step.
    void put_forced(int64_t row, const Tokens& list, float* logits, int32_t token) {
        int64_t count = static_cast<int64_t>(list.size()),
                index = std::lower_bound(list.begin(), list.end(), token) - list.begin();
        if (index == count || list[static_cast<std::size_t>(index)] != token) {
            index = count++;
            logits[index] = static_cast<float>(logit_at(in_, row, network_.output_weight, network_.logits(),
                                                        token));
        }
        answer_.put_all(first_ + row, minus_infinity);
        const double of_model = logits[index] - log_sum_exp(logits, count);
        put(row, 0, token, mixed_ ? mixed_.log_prob(of_model, token) : of_model);
    }

    // For a token of the list, or another token as if only it were added. `normaliser` is the list's
    // log-sum-exp.
    double requested_log_prob(int64_t row, const Tokens& list, const float* logits, int32_t token,
                              double normaliser) {
        if (token < 0) return minus_infinity;
        const auto match = std::lower_bound(list.begin(), list.end(), token);
        if (match != list.end() && *match == token) return log_prob(logits[match - list.begin()], normaliser);
        if (!request_.banned_first.empty() && !request_.full_vocabulary) {
            const std::size_t row_index = static_cast<std::size_t>(first_ + row);
            const auto first = request_.banned.begin() + request_.banned_first[row_index],
                       last = request_.banned.begin() + request_.banned_first[row_index + 1];
            if (std::binary_search(first, last, token)) return minus_infinity;
        }
        const double logit = logit_at(in_, row, network_.output_weight, network_.logits(), token) + shift_,
                     top = std::max(logit, normaliser);
        if (!(logit <= std::numeric_limits<float>::max())) return not_a_number;
        return std::isinf(top) ? minus_infinity
                               : logit - (top + std::log(std::exp(logit - top) + std::exp(normaliser - top)));
    }

    void put_full(int64_t row, const Tokens& list, const float* logits, double total) {  // answer_.requested
                                                                                         // is 0
        float* to = answer_.log_probs + (first_ + row) * answer_.k;
        std::fill(to, to + answer_.k, minus_infinity);
        for (std::size_t i = 0; i < list.size(); ++i) to[list[i]] = static_cast<float>(logits[i] - total);
        for (int64_t j = 0; j < request_.requested_count && !std::isnan(total); ++j) {
            const int32_t token =
                static_cast<int32_t>(request_.requested[(first_ + row) * request_.requested_count + j]);
            if (token >= 0)
                to[token] = static_cast<float>(requested_log_prob(row, list, logits, token, total));
        }
    }

    // Set banned tokens of the list to -inf; returns whether there are any.
    bool ban(int64_t row, const Tokens& list, float* logits) const {
        if (request_.banned_first.empty()) return false;
        const std::size_t row_index = static_cast<std::size_t>(first_ + row);
        bool banned_any = false;
        auto from = list.begin();
        for (int32_t i = request_.banned_first[row_index];
             i < request_.banned_first[row_index + 1] && from != list.end(); ++i) {
            const int32_t token = request_.banned[static_cast<std::size_t>(i)];
            from = std::lower_bound(from, list.end(), token);
            if (from == list.end() || *from != token) continue;
            logits[from - list.begin()] = minus_infinity;
            banned_any = true;
        }
        return banned_any;
    }

    void put(int64_t row, int64_t i, int32_t token, double log_prob) {
        answer_.put(first_ + row, i, token, log_prob);
    }

    const Network& network_;
    Rows& in_;
    int64_t first_;
    const Request& request_;
    const Answer& answer_;
    const State& state_;
    Workspace& ws_;
    Mixture mixed_;     // of the row
    double shift_ = 0;  // from a logit to the log-probability of a token that the datastore lacks
};

}  // namespace

void choose_listed(const Network& network, Rows& in, int64_t first_row, int64_t from, int64_t to,
                   const Request& request, const Answer& answer, const State& state, Workspace& ws) {
    ListedChooser(network, in, first_row, request, answer, state, ws).run(from, to);
}

}  // namespace uwaga
