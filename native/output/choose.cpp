// Candidates from features without keeping the logits; the twin of uwaga.search.choose.
#include <algorithm>
#include <cmath>

#include "output/choose.h"

namespace uwaga {

namespace {

constexpr int64_t logit_rows = 16;     // rows whose logits are held at one time
constexpr int32_t most_single = 64;    // maximum number of banned tokens whose logits are computed singly
constexpr double least_left = 0.01;    // remaining probability below which bans need a new log-sum-exp

// NaN if a logit is NaN or +inf.
double log_sum_exp(const float* logits, int64_t count) {
    double top = minus_infinity;
    for (int64_t i = 0; i < count; ++i) {
        if (!(logits[i] < -minus_infinity)) return not_a_number;
        top = std::max(top, static_cast<double>(logits[i]));
    }
    if (std::isinf(top)) return top;
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += std::exp(logits[i] - top);
    return top + std::log(sum);
}

class Chooser {
  public:
    Chooser(const Model& model, Rows& in, int64_t first_row, const Request& request, const Answer& answer, Workspace& ws, Workspace& shared, const ThreadSlice& slice)
        : model_(model), in_(in), first_(first_row), request_(request), answer_(answer), ws_(ws), shared_(shared), slice_(slice),
          vocabulary_(model.target_vocabulary), panels_(padded_outputs(model.target_vocabulary) / panel) {}

    void run() {
        if (request_.whole) return by_logits([this](int64_t row, float*) { finish_whole(row); }, true);
        if (needs_logits()) return by_logits([this](int64_t row, float* logits) { finish_logits(row, logits); }, false);
        const int64_t rows = in_.rows, chunks = panels_ < output_chunks * least_chunk_panels ? 1 : output_chunks;
        OutputRow* out = shared_.outputs.ensure(output_chunks * rows);
        Candidate* best = shared_.candidates.ensure(output_chunks * rows * answer_.k);
        if (model_.output_weight.quantised()) in_.as_int8(*model_.kernels, model_.output_weight);
        for (int64_t chunk = slice_.index; chunk < chunks; chunk += slice_.count) {
            run_chunk(panels_ * chunk / chunks, panels_ * (chunk + 1) / chunks, out + chunk * rows, best + chunk * rows * answer_.k);
        }
        slice_.wait();
        merged_.resize(static_cast<std::size_t>(answer_.k));
        for (int64_t row = slice_.first(rows); row < slice_.last(rows); ++row) finish(row, merged(out + row, chunks, rows));
    }

  private:
    int32_t banned_count(int64_t row) const {
        if (request_.banned_first.empty()) return 0;
        const std::size_t at = static_cast<std::size_t>(first_ + row);
        return request_.banned_first[at + 1] - request_.banned_first[at];
    }
    const int32_t* banned(int64_t row) const {
        return request_.banned.data() + request_.banned_first[static_cast<std::size_t>(first_ + row)];
    }
    int64_t forced(int64_t row) const { return request_.forced ? request_.forced[first_ + row] : -1; }

    bool needs_logits() const {
        if (request_.uniform) return true;
        if (!request_.renormalise) return false;
        for (int64_t row = 0; row < in_.rows; ++row) {
            if (banned_count(row) > most_single) return true;
        }
        return false;
    }

    // The best tokens and the log-sum-exp of panels [from, to) of the vocabulary, for all rows.
    void run_chunk(int64_t from, int64_t to, OutputRow* out, Candidate* best) {
        const int32_t skipped = static_cast<int32_t>(from * panel), end = static_cast<int32_t>(to * panel);
        std::vector<int32_t> near;  // banned tokens of the chunk, relative to its first token
        near.reserve(request_.banned.size());
        for (int64_t row = 0; row < in_.rows; ++row) {
            out[row] = OutputRow{};
            out[row].count = static_cast<int32_t>(answer_.k);
            out[row].best = best + row * answer_.k;
            if (!banned_count(row)) continue;
            const int32_t *begin = banned(row), *stop = begin + banned_count(row);
            const int32_t* low = std::lower_bound(begin, stop, skipped);
            const int32_t* high = std::lower_bound(low, stop, end);
            out[row].banned = near.data() + near.size();
            out[row].banned_count = static_cast<int32_t>(high - low);
            for (; low < high; ++low) near.push_back(*low - skipped);
        }
        output(*model_.kernels, in_, part_of(model_.output_weight, from, to), model_.logits(skipped), out);
        for (int64_t row = 0; row < in_.rows; ++row) {
            for (int64_t i = 0; i < answer_.k; ++i) {
                if (out[row].best[i].token >= 0) out[row].best[i].token += skipped;
            }
        }
    }

    // Merge one row's chunks in vocabulary order. `at` is the row in the first chunk.
    OutputRow merged(const OutputRow* at, int64_t chunks, int64_t rows) {
        OutputRow whole = at[0];
        whole.best = merged_.data();
        whole.maximum = at[0].maximum;
        for (int64_t c = 1; c < chunks; ++c) whole.maximum = std::max(whole.maximum, at[c * rows].maximum);
        double sum = 0;
        for (int64_t c = 0; c < chunks; ++c) {
            sum += at[c * rows].sum * std::exp(static_cast<double>(at[c * rows].maximum) - whole.maximum);
            if (std::isnan(at[c * rows].maximum)) sum = not_a_number;
        }
        whole.sum = static_cast<float>(sum);
        int64_t used[output_chunks] = {};
        for (int64_t i = 0; i < answer_.k; ++i) {
            int64_t from = 0;
            for (int64_t c = 1; c < chunks; ++c) {
                // Ties go to the lower token, of the earlier chunk.
                if (used[from] == answer_.k || (used[c] < answer_.k && at[c * rows].best[used[c]].logit > at[from * rows].best[used[from]].logit)) from = c;
            }
            merged_[static_cast<std::size_t>(i)] = at[from * rows].best[used[from]++];
        }
        return whole;
    }

    // Compute logits a few rows at a time, into the answer or scratch, and pass them to `finish`.
    template <class Finish>
    void by_logits(const Finish& finish, bool into_answer) {
        float* scratch = into_answer ? nullptr : ws_.logits.ensure(logit_rows * vocabulary_);
        Candidate none{};
        const int64_t end = slice_.last(in_.rows);
        for (int64_t start = slice_.first(in_.rows); start < end; start += logit_rows) {
            const int64_t rows = std::min(logit_rows, end - start);
            OutputRow out[logit_rows];
            for (int64_t row = 0; row < rows; ++row) {
                out[row] = OutputRow{};
                out[row].best = &none;
                out[row].logits = into_answer ? answer_.log_probs + (first_ + start + row) * vocabulary_ : scratch + row * vocabulary_;
            }
            Rows some = in_.part(start, rows);
            output(*model_.kernels, some, model_.output_weight, model_.logits(), out);
            for (int64_t row = 0; row < rows; ++row) finish(start + row, out[row].logits);
        }
    }

    void finish_whole(int64_t row) {
        float* logits = answer_.log_probs + (first_ + row) * vocabulary_;
        const double whole = log_sum_exp(logits, vocabulary_);
        for (int64_t i = 0; i < vocabulary_; ++i) logits[i] = static_cast<float>(logits[i] - whole);
    }

    // From all logits: sampling, and renormalising after many bans.
    void finish_logits(int64_t row, float* logits) {
        const double whole = log_sum_exp(logits, vocabulary_);
        const int64_t bound = forced(row);
        if (bound >= 0) return put_forced(row, bound, logits[bound], whole);
        if (std::isnan(whole)) return answer_.put_all(first_ + row, whole);
        for (int32_t i = 0; i < banned_count(row); ++i) logits[banned(row)[i]] = minus_infinity;
        const double shared = request_.renormalise && banned_count(row) ? log_sum_exp(logits, vocabulary_) : whole;
        put_wanted(row, [&](int32_t token) { return static_cast<double>(logits[token]); }, shared);
        int32_t* order = ws_.order.ensure(vocabulary_);
        if (request_.uniform) order[0] = draw(logits, vocabulary_, request_, request_.uniform[first_ + row], ws_);
        else sort_head(logits, vocabulary_, answer_.k, order);
        for (int64_t i = 0; i < answer_.k; ++i) put(row, i, order[i], log_prob(logits[order[i]], shared));
    }

    // From the kernel's candidates.
    void finish(int64_t row, const OutputRow& out) {
        const double whole = static_cast<double>(out.maximum) + std::log(static_cast<double>(out.sum));
        const int64_t bound = forced(row);
        if (bound >= 0) return put_forced(row, bound, logit_at(in_, row, model_.output_weight, model_.logits(), bound), whole);
        if (std::isnan(whole)) return answer_.put_all(first_ + row, whole);
        const double shared = request_.renormalise && banned_count(row) ? without_banned(row, whole) : whole;
        for (int64_t i = 0; i < answer_.k; ++i) {
            const Candidate& found = out.best[i];
            put(row, i, std::max(found.token, 0), log_prob(found.logit, shared));
        }
        put_wanted(row, [&](int32_t token) { return static_cast<double>(logit_at(in_, row, model_.output_weight, model_.logits(), token)); }, shared);
    }

    // After the best, the wanted tokens, whatever their probability.
    template <class LogitOf>
    void put_wanted(int64_t row, const LogitOf& logit_of, double shared) {
        for (int64_t j = 0; j < answer_.wanted; ++j) {
            const int64_t asked = request_.wanted[(first_ + row) * answer_.wanted + j];
            const int32_t token = static_cast<int32_t>(asked);
            const bool none = asked < 0 || std::isinf(shared) || (banned_count(row) && std::binary_search(banned(row), banned(row) + banned_count(row), token));
            put(row, answer_.k + j, std::max(token, 0), none ? minus_infinity : log_prob(logit_of(token), shared));
        }
    }

    // log-sum-exp over the tokens that are not banned.
    double without_banned(int64_t row, double whole) {
        if (std::isinf(whole)) return whole;
        double left = 1;
        for (int32_t i = 0; i < banned_count(row); ++i) {
            left -= std::exp(logit_at(in_, row, model_.output_weight, model_.logits(), banned(row)[i]) - whole);
        }
        if (left >= least_left) return whole + std::log(left);
        float* logits = ws_.logits.ensure(logit_rows * vocabulary_);  // subtraction would leave mostly rounding error
        Candidate none{};
        OutputRow again;
        again.best = &none;
        again.logits = logits;
        Rows one = in_.part(row, 1);
        output(*model_.kernels, one, model_.output_weight, model_.logits(), &again);
        for (int32_t i = 0; i < banned_count(row); ++i) logits[banned(row)[i]] = minus_infinity;
        return log_sum_exp(logits, vocabulary_);
    }

    // NaN if all logits are -inf, which only overflow makes them.
    void put_forced(int64_t row, int64_t token, double logit, double whole) {
        answer_.put_all(first_ + row, minus_infinity);
        put(row, 0, static_cast<int32_t>(token), std::isinf(whole) ? not_a_number : logit - whole);
    }

    void put(int64_t row, int64_t i, int32_t token, double log_prob) { answer_.put(first_ + row, i, token, log_prob); }

    const Model& model_;
    Rows& in_;
    int64_t first_;
    const Request& request_;
    const Answer& answer_;
    Workspace &ws_, &shared_;
    const ThreadSlice& slice_;
    int64_t vocabulary_, panels_;
    std::vector<Candidate> merged_;
};

}  // namespace

void choose(const Model& model, Rows& in, int64_t first_row, const Request& request, const Answer& answer, const State& state, Workspace& ws, Workspace& shared, const ThreadSlice& slice) {
    if (state.listed()) {
        return choose_listed(model, in, first_row, slice.first(in.rows), slice.last(in.rows), request, answer, state, ws);
    }
    Chooser(model, in, first_row, request, answer, ws, shared, slice).run();
}

}  // namespace uwaga
