// The output layer: logits are consumed as they are computed, and each row keeps its best candidates and
// log-sum-exp. Included inside an unnamed namespace.

inline bool better(const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

inline bool is_banned(const OutputRow& out, int32_t token) {
    int32_t low = 0, high = out.banned_count;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (out.banned[middle] < token) low = middle + 1;
        else high = middle;
    }
    return low < out.banned_count && out.banned[low] == token;
}

// A heap with the worst candidate at its root.
inline void sift_down(Candidate* heap, int32_t size, int32_t index) {
    const Candidate moved = heap[index];
    for (int32_t child = 2 * index + 1; child < size; child = 2 * index + 1) {
        if (child + 1 < size && better(heap[child], heap[child + 1])) ++child;
        if (!better(moved, heap[child])) break;
        heap[index] = heap[child];
        index = child;
    }
    heap[index] = moved;
}

// The running result of a row: its best candidates and log-sum-exp so far.
struct RowState {
    Vec top;          // running maximum of the logits, equal in all lanes so that it seldom rises
    Vec sum;          // per lane: sum of e^(logit - top)
    Vec bar;          // equal in all lanes: logits above it go to notice()
    float threshold;  // the best must be above it (a later token loses a tie)
    int32_t filled;

    void start(const OutputRow& out) {
        top = set(-largest_float);
        sum = set(0.0f);
        bar = set(minus_infinity);
        filled = 0;
        threshold = out.count > 0 ? minus_infinity : __builtin_huge_valf();
    }
    bool full(const OutputRow& out) const { return filled >= out.count; }

    static constexpr int32_t sorted_until = 64;  // longer lists are heaps until finish()

    // Process a panel's `n` logits: called if one is above the bar or the list is not full.
    UWAGA_COLD void notice(const OutputRow& out, const float* logits, int64_t column, int64_t n) {
        Vec maximum = load(logits);
        for (int i = 1; i < parts; ++i) maximum = max(maximum, load(logits + i * lanes));
        if (any_greater(maximum, top)) {
            const Vec higher = set(reduce_max(maximum));
            sum = sum * log_sum_exp_term(top - higher);
            top = higher;
        }
        if (!full(out)) {
            for (int64_t i = 0; i < n; ++i) consider(out, logits[i], static_cast<int32_t>(column + i));
        } else {
            for (int i = 0; i < parts; ++i) {
                for (uint32_t mask = greater_mask(load(logits + i * lanes), set(threshold)); mask;
                     mask &= mask - 1) {
                    const int index = i * lanes + __builtin_ctz(mask);
                    consider(out, logits[index], static_cast<int32_t>(column + index));
                }
            }
        }
        bar = full(out) ? min(set(threshold), top) : set(minus_infinity);
    }

    void consider(const OutputRow& out, float logit, int32_t token) {
        const Candidate candidate{logit == logit ? logit : minus_infinity, token};  // NaN ranks last
        if (out.count < 1 || (full(out) && !(candidate.logit > threshold)) || is_banned(out, token)) return;
        if (out.count <= sorted_until) {
            int32_t index = full(out) ? filled - 1 : filled++;
            for (; index > 0 && better(candidate, out.best[index - 1]); --index)
                out.best[index] = out.best[index - 1];
            out.best[index] = candidate;
            if (full(out)) threshold = out.best[filled - 1].logit;
        } else if (!full(out)) {
            out.best[filled++] = candidate;
            if (full(out)) {
                for (int32_t index = filled / 2 - 1; index >= 0; --index) sift_down(out.best, filled, index);
                threshold = out.best[0].logit;
            }
        } else {
            out.best[0] = candidate;
            sift_down(out.best, filled, 0);
            threshold = out.best[0].logit;
        }
    }

    void finish(OutputRow& out) {
        if (out.count > sorted_until) {
            if (!full(out)) {
                for (int32_t index = filled / 2 - 1; index >= 0; --index) sift_down(out.best, filled, index);
            }
            for (int32_t size = filled - 1; size > 0; --size) {
                const Candidate worst = out.best[0];
                out.best[0] = out.best[size];
                out.best[size] = worst;
                sift_down(out.best, size, 0);
            }
        }
        for (; filled < out.count; ++filled) out.best[filled] = Candidate{minus_infinity, -1};
        out.maximum = reduce_max(top);
        out.sum = reduce_add(sum);
    }
};

constexpr int64_t output_rows = 256;  // rows processed in one pass over the vocabulary

struct OutputFinish {
    RowState* states;
    OutputRow* out;
    const float* bias;
    float cap;
    int64_t outputs;

    void prepare(int64_t row, int64_t) const { __builtin_prefetch(states + row, 1); }

    // Add the bias and cap the logits. Before everything else, so that logits without a cap stay in
    // registers.
    UWAGA_COLD void add_and_cap(int64_t column, int64_t n, Vec (&v)[parts]) const {
        for (int i = 0; i < parts; ++i) {
            const int64_t left = n - i * lanes;
            if (bias && left > 0) v[i] = v[i] + load_part(bias + column + i * lanes, smaller(lanes, left));
            v[i] = capped(v[i], cap);
        }
    }

    UWAGA_NOINLINE void operator()(int64_t row, int64_t p, Vec (&v)[parts]) const {
        const int64_t column = p * panel;
        OutputRow& output_row = out[row];
        RowState& state = states[row];
        const int64_t n = smaller(panel, outputs - column);
        const float* const shift = cap == 0.0f ? bias : nullptr;
        if (cap != 0.0f) add_and_cap(column, n, v);
        if (n == panel) {
            if (shift) {
                UWAGA_UNROLL
                for (int i = 0; i < parts; ++i) v[i] = v[i] + load(shift + column + i * lanes);
            }
        } else {
            alignas(64) float logits[panel];
            UWAGA_UNROLL
            for (int i = 0; i < parts; ++i) {
                const int64_t left = n - i * lanes;
                store(logits + i * lanes,
                      shift && left > 0 ? v[i] + load_part(shift + column + i * lanes, smaller(lanes, left))
                                        : v[i]);
            }
            for (int64_t i = n; i < panel; ++i) logits[i] = minus_infinity;
            UWAGA_UNROLL
            for (int i = 0; i < parts; ++i) v[i] = load(logits + i * lanes);
        }
        if (output_row.logits) {
            UWAGA_UNROLL
            for (int i = 0; i < parts; ++i) {
                const int64_t left = n - i * lanes;
                if (left > 0) store_part(output_row.logits + column + i * lanes, v[i], smaller(lanes, left));
            }
        }
        Vec maximum = v[0];
        UWAGA_UNROLL
        for (int i = 1; i < parts; ++i) maximum = max(maximum, v[i]);
        if (any_greater(maximum, state.bar) || !state.full(output_row)) {
            alignas(64) float logits[panel];
            UWAGA_UNROLL
            for (int i = 0; i < parts; ++i) store(logits + i * lanes, v[i]);
            state.notice(output_row, logits, column, n);
        }
        Vec added = log_sum_exp_term(v[0] - state.top);
        UWAGA_UNROLL
        for (int i = 1; i < parts; ++i) added = added + log_sum_exp_term(v[i] - state.top);
        state.sum = state.sum + added;
    }
};

// Calls product(first row, rows, finish) for groups of rows.
template <class Product>
void output(int64_t rows, int64_t outputs, const LogitEpilogue& e, OutputRow* out, const Product& product) {
    RowState states[output_rows];
    for (int64_t first = 0; first < rows; first += output_rows) {
        const int64_t count = smaller(output_rows, rows - first);
        for (int64_t r = 0; r < count; ++r) states[r].start(out[first + r]);
        OutputFinish finish{states, out + first, e.bias, e.cap, outputs};
        product(first, count, finish);
        for (int64_t r = 0; r < count; ++r) states[r].finish(out[first + r]);
    }
}

// The sums of rows of one or two terms; a row's terms come one after the other.
struct DequantiseTerms {
    const QuantisedRows& x;
    const float* column_scales;
    OutputFinish& finish;
    Vec first[parts];

    void prepare(int64_t, int64_t) const {}

    void operator()(int64_t row, int64_t p, const int32_t* sums) {
        const Vec scale = set(x.scales[row]);
        const bool two = x.terms == 2, adds = two && row % 2;
        Vec v[parts];
        UWAGA_UNROLL
        for (int i = 0; i < parts; ++i) {
            v[i] = from_int(sums + i * lanes) * (scale * load(column_scales + p * panel + i * lanes));
            if (adds) v[i] = first[i] + v[i];
            first[i] = v[i];
        }
        if (!two || adds) finish(two ? row / 2 : row, p, v);
    }
};

void int8_output(const QuantisedRows& x, int64_t rows, const Int8Matrix& w, const LogitEpilogue& e,
                 OutputRow* out) {
    output(rows, w.outputs, e, out, [&](int64_t first, int64_t count, OutputFinish& finish) {
        const int64_t offset = first * x.terms;
        const QuantisedRows block_rows{x.values + offset * x.stride, x.scales + offset, x.stride, x.terms};
        DequantiseTerms dequantise{block_rows, w.scales, finish, {}};
        int8_panels(block_rows, count * x.terms, w, dequantise);
    });
}
void int4_output(const QuantisedRows& x, int64_t rows, const Int4Matrix& w, const LogitEpilogue& e,
                 OutputRow* out) {
    output(rows, w.outputs, e, out, [&](int64_t first, int64_t count, OutputFinish& finish) {
        Dequantise<OutputFinish> dequantise{x.scales + first, w.scales, finish};
        int4_panels(QuantisedRows{x.values + first * x.stride, x.scales + first, x.stride}, count, w,
                    dequantise);
    });
}
void float_output(const float* x, int64_t rows, int64_t x_stride, const FloatMatrix& w,
                  const LogitEpilogue& e, OutputRow* out) {
    output(rows, w.outputs, e, out, [&](int64_t first, int64_t count, OutputFinish& finish) {
        float_panels(x + first * x_stride, count, x_stride, w, finish);
    });
}
void bfloat16_output(const float* x, int64_t rows, int64_t x_stride, const Bfloat16Matrix& w,
                     const LogitEpilogue& e, OutputRow* out) {
    output(rows, w.outputs, e, out, [&](int64_t first, int64_t count, OutputFinish& finish) {
        float_panels(x + first * x_stride, count, x_stride, w, finish);
    });
}
