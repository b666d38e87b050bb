// Candidates from features without keeping the logits; the counterpart of uwaga.search.choose.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "output/choose.h"
#include "output/mixture.h"

namespace uwaga {

namespace {

constexpr int64_t logit_rows = 16;         // rows whose logits are held at one time
constexpr int32_t max_single_logits = 64;  // maximum number of banned tokens whose logits are computed singly
constexpr double min_remaining = 0.01;     // remaining probability below which bans need a new log-sum-exp

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
    Chooser(const Network& network, Rows& in, int64_t first_row, const Request& request, const Answer& answer,
            const State& state, Workspace& ws, Workspace& shared, const ThreadSlice& slice)
        : network_(network), in_(in), first_(first_row), request_(request), answer_(answer), state_(state),
          ws_(ws), shared_(shared), slice_(slice), vocabulary_(network.target_vocabulary),
          panels_(padded_outputs(network.target_vocabulary) / panel) {}

    void run() {
        if (request_.full_vocabulary)
            return by_logits([this](int64_t row, float*) { finish_full(row); }, true);
        if (needs_logits())
            return by_logits([this](int64_t row, float* logits) { finish_logits(row, logits); }, false);
        const int64_t rows = in_.rows,
                      chunks = panels_ < output_chunks * min_chunk_panels ? 1 : output_chunks;
        OutputRow* out = shared_.outputs.ensure(output_chunks * rows);
        Candidate* best = shared_.candidates.ensure(output_chunks * rows * answer_.k);
        if (network_.output_weight.quantised()) in_.as_int8(*network_.kernels, network_.output_weight);
        for (int64_t chunk = slice_.index; chunk < chunks; chunk += slice_.count) {
            run_chunk(panels_ * chunk / chunks, panels_ * (chunk + 1) / chunks, out + chunk * rows,
                      best + chunk * rows * answer_.k);
        }
        slice_.wait();
        merged_.resize(static_cast<std::size_t>(answer_.k));
        for (int64_t row = slice_.first(rows); row < slice_.last(rows); ++row)
            finish(row, merged(out + row, chunks, rows));
    }

  private:
    int32_t banned_count(int64_t row) const {
        if (request_.banned_first.empty()) return 0;
        const std::size_t row_index = static_cast<std::size_t>(first_ + row);
        return request_.banned_first[row_index + 1] - request_.banned_first[row_index];
    }
    const int32_t* banned(int64_t row) const {
        return request_.banned.data() + request_.banned_first[static_cast<std::size_t>(first_ + row)];
    }
    int64_t forced(int64_t row) const { return request_.forced ? request_.forced[first_ + row] : -1; }

    bool needs_logits() const {
        if (request_.uniform) return true;
        if (!request_.renormalise) return false;
        for (int64_t row = 0; row < in_.rows; ++row) {
            if (banned_count(row) > max_single_logits) return true;
        }
        return false;
    }

    // The best tokens and the log-sum-exp of panels [from, to) of the vocabulary, for all rows.
    void run_chunk(int64_t from, int64_t to, OutputRow* out, Candidate* best) {
        const int32_t skipped = static_cast<int32_t>(from * panel), end = static_cast<int32_t>(to * panel);
        std::vector<int32_t> chunk_banned;  // banned tokens of the chunk, relative to its first token
        chunk_banned.reserve(request_.banned.size());
        for (int64_t row = 0; row < in_.rows; ++row) {
            out[row] = OutputRow{};
            out[row].count = static_cast<int32_t>(answer_.k);
            out[row].best = best + row * answer_.k;
            if (!banned_count(row)) continue;
            const int32_t *row_banned = banned(row), *row_banned_end = row_banned + banned_count(row);
            const int32_t* low = std::lower_bound(row_banned, row_banned_end, skipped);
            const int32_t* high = std::lower_bound(low, row_banned_end, end);
            out[row].banned = chunk_banned.data() + chunk_banned.size();
            out[row].banned_count = static_cast<int32_t>(high - low);
            for (; low < high; ++low) chunk_banned.push_back(*low - skipped);
        }
        output(*network_.kernels, in_, panel_range(network_.output_weight, from, to),
               network_.logits(skipped), out);
        for (int64_t row = 0; row < in_.rows; ++row) {
            for (int64_t i = 0; i < answer_.k; ++i) {
                if (out[row].best[i].token >= 0) out[row].best[i].token += skipped;
            }
        }
    }

    // Merge one row's chunks in vocabulary order. `row` is the row in the first chunk.
    OutputRow merged(const OutputRow* row, int64_t chunks, int64_t rows) {
        OutputRow merged_row = row[0];
        merged_row.best = merged_.data();
        merged_row.maximum = row[0].maximum;
        for (int64_t c = 1; c < chunks; ++c)
            merged_row.maximum = std::max(merged_row.maximum, row[c * rows].maximum);
        double sum = 0;
        for (int64_t c = 0; c < chunks; ++c) {
            sum += row[c * rows].sum *
                   std::exp(static_cast<double>(row[c * rows].maximum) - merged_row.maximum);
            if (std::isnan(row[c * rows].maximum)) sum = not_a_number;
        }
        merged_row.sum = static_cast<float>(sum);
        int64_t used[output_chunks] = {};
        for (int64_t i = 0; i < answer_.k; ++i) {
            int64_t best_chunk = 0;
            for (int64_t c = 1; c < chunks; ++c) {
                // Ties go to the lower token, of the earlier chunk.
                if (used[best_chunk] == answer_.k ||
                    (used[c] < answer_.k &&
                     row[c * rows].best[used[c]].logit > row[best_chunk * rows].best[used[best_chunk]].logit))
                    best_chunk = c;
            }
            merged_[static_cast<std::size_t>(i)] = row[best_chunk * rows].best[used[best_chunk]++];
        }
        return merged_row;
    }

    Mixture mixture(int64_t row) const {
        const auto sentence = static_cast<std::size_t>((first_ + row) / state_.beams);
        return sentence < state_.sentences.size()
                   ? mixture_of(state_.sentences[sentence].memory, in_.x + row * in_.stride)
                   : Mixture();
    }

    // Replace the logits of a row with a datastore by its log-probabilities.
    void mix(int64_t row, float* logits) const {
        const Mixture mixed = mixture(row);
        if (!mixed) return;
        mixed.apply(logits, vocabulary_, log_sum_exp(logits, vocabulary_),
                    [](int32_t token) { return token; });
    }

    // Compute logits a few rows at a time, into the answer or scratch, and pass them to `finish`.
    template <class Finish>
    void by_logits(const Finish& finish, bool into_answer) {
        float* scratch = into_answer ? nullptr : ws_.logits.ensure(logit_rows * vocabulary_);
        Candidate unused{};
        const int64_t end = slice_.last(in_.rows);
        for (int64_t start = slice_.first(in_.rows); start < end; start += logit_rows) {
            const int64_t rows = std::min(logit_rows, end - start);
            OutputRow out[logit_rows];
            for (int64_t row = 0; row < rows; ++row) {
                out[row] = OutputRow{};
                out[row].best = &unused;
                out[row].logits = into_answer ? answer_.log_probs + (first_ + start + row) * vocabulary_
                                              : scratch + row * vocabulary_;
            }
            Rows part = in_.part(start, rows);
            output(*network_.kernels, part, network_.output_weight, network_.logits(), out);
            for (int64_t row = 0; row < rows; ++row) {
                mix(start + row, out[row].logits);
                finish(start + row, out[row].logits);
            }
        }
    }

    void finish_full(int64_t row) {
        float* logits = answer_.log_probs + (first_ + row) * vocabulary_;
        if (request_.logits) return;
        const double total = log_sum_exp(logits, vocabulary_);
        for (int64_t i = 0; i < vocabulary_; ++i) logits[i] = static_cast<float>(logits[i] - total);
    }

    // From all logits: sampling, and renormalising after many bans.
    void finish_logits(int64_t row, float* logits) {
        const double total = log_sum_exp(logits, vocabulary_);
        const int64_t forced_token = forced(row);
        if (forced_token >= 0) return put_forced(row, forced_token, logits[forced_token], total);
        if (std::isnan(total)) return answer_.put_all(first_ + row, total);
        for (int32_t i = 0; i < banned_count(row); ++i) logits[banned(row)[i]] = minus_infinity;
        const double normaliser = request_.renormalise && banned_count(row) ? log_sum_exp(logits, vocabulary_)
                                                                            : total;
        put_requested(row, [&](int32_t token) { return static_cast<double>(logits[token]); }, normaliser);
        int32_t* order = ws_.order.ensure(vocabulary_);
        if (request_.uniform)
            order[0] = draw(logits, vocabulary_, request_, request_.uniform[first_ + row], ws_);
        else sort_head(logits, vocabulary_, answer_.k, order);
        for (int64_t i = 0; i < answer_.k; ++i) put(row, i, order[i], log_prob(logits[order[i]], normaliser));
    }

    // From the kernel's candidates.
    void finish(int64_t row, const OutputRow& out) {
        const double total = static_cast<double>(out.maximum) + std::log(static_cast<double>(out.sum));
        const int64_t forced_token = forced(row);
        const Mixture mixed = mixture(row);
        if (mixed && std::isfinite(total)) return finish_mixed(row, out, total, mixed);
        if (forced_token >= 0)
            return put_forced(row, forced_token,
                              logit_at(in_, row, network_.output_weight, network_.logits(), forced_token),
                              total);
        if (std::isnan(total)) return answer_.put_all(first_ + row, total);
        const double normaliser = request_.renormalise && banned_count(row) ? without_banned(row, total)
                                                                            : total;
        for (int64_t i = 0; i < answer_.k; ++i) {
            const Candidate& candidate = out.best[i];
            put(row, i, std::max(candidate.token, 0), log_prob(candidate.logit, normaliser));
        }
        put_requested(
            row,
            [&](int32_t token) {
                return static_cast<double>(logit_at(in_, row, network_.output_weight, network_.logits(),
                                                    token));
            },
            normaliser);
    }

    // The best of the kernel's candidates and of the datastore's tokens.
    void finish_mixed(int64_t row, const OutputRow& out, double total, const Mixture& mixed) {
        const auto log_prob_of = [&](int32_t token) {
            return mixed.log_prob(logit_at(in_, row, network_.output_weight, network_.logits(), token) -
                                      total,
                                  token);
        };
        if (const int64_t forced_token = forced(row); forced_token >= 0)
            return put_forced(row, forced_token, log_prob_of(static_cast<int32_t>(forced_token)), 0);
        const int32_t *first = banned_count(row) ? banned(row) : nullptr, *last = first + banned_count(row);
        const auto is_banned = [&](int32_t token) { return std::binary_search(first, last, token); };
        double normaliser = 0;
        if (request_.renormalise && banned_count(row)) {
            double remaining = (1 - mixed.weight()) * std::exp(without_banned(row, total) - total);
            for (int64_t i = 0; i < mixed.count(); ++i)
                remaining += is_banned(mixed.token(i)) ? 0 : mixed.weight() * mixed.share(i);
            normaliser = std::log(remaining);
        }
        std::vector<std::pair<float, int32_t>> candidates;
        for (int64_t i = 0; i < answer_.k; ++i) {
            const Candidate& candidate = out.best[i];
            const double of_model = log_prob(candidate.logit, total);
            candidates.emplace_back(static_cast<float>(mixed.log_prob(of_model, candidate.token) -
                                                       normaliser),
                                    std::max(candidate.token, 0));
        }
        for (int64_t i = 0; i < mixed.count(); ++i) {
            const int32_t token = mixed.token(i);
            if (!is_banned(token) &&
                std::none_of(out.best, out.best + answer_.k,
                             [&](const Candidate& candidate) { return candidate.token == token; }))
                candidates.emplace_back(static_cast<float>(log_prob_of(token) - normaliser), token);
        }
        std::sort(candidates.begin(), candidates.end(),
                  [](const auto& a, const auto& b) { return before(a.first, a.second, b.first, b.second); });
        for (int64_t i = 0; i < answer_.k; ++i) {
            const auto& [value, token] = candidates[static_cast<std::size_t>(i)];
            put(row, i, token, static_cast<double>(value));
        }
        put_requested(row, log_prob_of, normaliser);
    }

    // After the best, the requested tokens, whatever their probability.
    template <class LogitOf>
    void put_requested(int64_t row, const LogitOf& logit_of, double normaliser) {
        for (int64_t j = 0; j < answer_.requested; ++j) {
            const int64_t requested = request_.requested[(first_ + row) * answer_.requested + j];
            const int32_t token = static_cast<int32_t>(requested);
            const bool excluded = requested < 0 || std::isinf(normaliser) ||
                                  (banned_count(row) &&
                                   std::binary_search(banned(row), banned(row) + banned_count(row), token));
            put(row, answer_.k + j, std::max(token, 0),
                excluded ? minus_infinity : log_prob(logit_of(token), normaliser));
        }
    }

    // log-sum-exp over the tokens that are not banned.
    double without_banned(int64_t row, double total) {
        if (std::isinf(total)) return total;
        double remaining = 1;
        for (int32_t i = 0; i < banned_count(row); ++i) {
            remaining -= std::exp(logit_at(in_, row, network_.output_weight, network_.logits(),
                                           banned(row)[i]) -
                                  total);
        }
        if (remaining >= min_remaining) return total + std::log(remaining);
        float* logits = ws_.logits.ensure(logit_rows * vocabulary_);  // subtraction would leave mostly
                                                                      // rounding error
        Candidate unused{};
        OutputRow recomputed;
        recomputed.best = &unused;
        recomputed.logits = logits;
        Rows single_row = in_.part(row, 1);
        output(*network_.kernels, single_row, network_.output_weight, network_.logits(), &recomputed);
        for (int32_t i = 0; i < banned_count(row); ++i) logits[banned(row)[i]] = minus_infinity;
        return log_sum_exp(logits, vocabulary_);
    }

    // NaN if all logits are -inf, which only overflow makes them.
    void put_forced(int64_t row, int64_t token, double logit, double total) {
        answer_.put_all(first_ + row, minus_infinity);
        put(row, 0, static_cast<int32_t>(token), std::isinf(total) ? not_a_number : logit - total);
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
    Workspace &ws_, &shared_;
    const ThreadSlice& slice_;
    int64_t vocabulary_, panels_;
    std::vector<Candidate> merged_;
};

}  // namespace

void choose(const Network& network, Rows& in, int64_t first_row, const Request& request, const Answer& answer,
            const State& state, Workspace& ws, Workspace& shared, const ThreadSlice& slice) {
    for (int64_t row = slice.first(in.rows); answer.features && row < slice.last(in.rows); ++row)
        std::copy_n(in.x + row * in.stride, network.width,
                    answer.features + (first_row + row) * network.width);
    if (answer.features && !answer.k && !answer.requested) return;
    if (state.has_shortlist()) {
        return choose_listed(network, in, first_row, slice.first(in.rows), slice.last(in.rows), request,
                             answer, state, ws);
    }
    Chooser(network, in, first_row, request, answer, state, ws, shared, slice).run();
}

}  // namespace uwaga
