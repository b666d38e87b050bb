// Products, output layer and embedding, over Vec and int8_panels. Included inside an unnamed namespace.

constexpr int parts = static_cast<int>(panel) / lanes;  // vectors in 32 columns

// ---- What is done with a row's 32 results -----------------------------------------------------------------------

struct ProductFinish {
    const Epilogue& e;
    float* y;
    int64_t y_stride, outputs;

    // Where a row of a panel will be written, asked for while it is computed: a store that misses holds up the others.
    void prepare(int64_t row, int64_t p) const {
        const float* to = y + row * y_stride + p * panel;
        __builtin_prefetch(to, 1);
        __builtin_prefetch(to + panel / 2, 1);
        __builtin_prefetch(to + panel - 1, 1);
    }

    UWAGA_APART void operator()(int64_t row, int64_t p, Vec (&v)[parts]) const {
        const int64_t column = p * panel;
        float* to = y + row * y_stride + column;
        const float* gate = e.gate ? e.gate + row * e.gate_stride + column : nullptr;
        const float* residual = e.residual ? e.residual + row * e.residual_stride + column : nullptr;
        const float* bias = e.bias ? e.bias + column : nullptr;
        if (column + panel <= outputs) {
            UWAGA_UNROLL
            for (int i = 0; i < parts; ++i) {
                const int at = i * lanes;
                Vec r = v[i];
                if (bias) r = r + load(bias + at);
                if (e.activation != Activation::none) r = activated(e.activation, r);
                if (gate) r = r * load(gate + at);
                if (residual) r = r + load(residual + at);
                store(to + at, r);
            }
            return;
        }
        UWAGA_UNROLL
        for (int i = 0; i < parts; ++i) {
            const int64_t at = i * lanes, n = smaller(lanes, outputs - column - at);
            if (n <= 0) break;
            Vec r = v[i];
            if (bias) r = r + load_part(bias + at, n);
            if (e.activation != Activation::none) r = activated(e.activation, r);
            if (gate) r = r * load_part(gate + at, n);
            if (residual) r = r + load_part(residual + at, n);
            store_part(to + at, r, n);
        }
    }
};

inline bool better(const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

inline bool is_banned(const OutputRow& out, int32_t token) {
    int32_t low = 0, high = out.banned_count;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (out.banned[middle] < token) low = middle + 1; else high = middle;
    }
    return low < out.banned_count && out.banned[low] == token;
}

// Heap whose root is the worst candidate.
inline void sift_down(Candidate* heap, int32_t size, int32_t at) {
    const Candidate moved = heap[at];
    for (int32_t child = 2 * at + 1; child < size; child = 2 * at + 1) {
        if (child + 1 < size && better(heap[child], heap[child + 1])) ++child;
        if (!better(moved, heap[child])) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

// One row's way through the vocabulary: best candidates so far and its log-sum-exp.
struct RowState {
    Vec top;            // largest logit so far, in all lanes alike, so that it seldom rises
    Vec sum;            // of each lane: of e^(logit - top)
    Vec bar;            // in all lanes: what no logit above it passes unnoticed
    float threshold;    // a logit must be above it to be among the best (a later token loses a tie)
    int32_t filled;

    void start(const OutputRow& out) {
        top = set(-largest_float);
        sum = set(0.0f);
        bar = set(minus_infinity);
        filled = 0;
        threshold = out.count > 0 ? minus_infinity : __builtin_huge_valf();
    }
    bool full(const OutputRow& out) const { return filled >= out.count; }

    static constexpr int32_t sorted_until = 64;  // longer lists are heaps until the end

    // The `n` logits of a panel, when one is above the bar or the list is not full.
    UWAGA_RARE void notice(const OutputRow& out, const float* logits, int64_t column, int64_t n) {
        Vec most = load(logits);
        for (int i = 1; i < parts; ++i) most = max(most, load(logits + i * lanes));
        if (any_greater(most, top)) {
            const Vec higher = set(maximum(most));
            sum = sum * summand(top - higher);
            top = higher;
        }
        if (!full(out)) {
            for (int64_t i = 0; i < n; ++i) offer(out, logits[i], static_cast<int32_t>(column + i));
        } else {
            for (int i = 0; i < parts; ++i) {
                for (uint32_t mask = greater_mask(load(logits + i * lanes), set(threshold)); mask; mask &= mask - 1) {
                    const int at = i * lanes + __builtin_ctz(mask);
                    offer(out, logits[at], static_cast<int32_t>(column + at));
                }
            }
        }
        bar = full(out) ? min(set(threshold), top) : set(minus_infinity);
    }

    void offer(const OutputRow& out, float logit, int32_t token) {
        const Candidate given{logit == logit ? logit : minus_infinity, token};  // a NaN is the worst
        if (out.count < 1 || (full(out) && !(given.logit > threshold)) || is_banned(out, token)) return;
        if (out.count <= sorted_until) {
            int32_t at = full(out) ? filled - 1 : filled++;
            for (; at > 0 && better(given, out.best[at - 1]); --at) out.best[at] = out.best[at - 1];
            out.best[at] = given;
            if (full(out)) threshold = out.best[filled - 1].logit;
        } else if (!full(out)) {
            out.best[filled++] = given;
            if (full(out)) {
                for (int32_t at = filled / 2 - 1; at >= 0; --at) sift_down(out.best, filled, at);
                threshold = out.best[0].logit;
            }
        } else {
            out.best[0] = given;
            sift_down(out.best, filled, 0);
            threshold = out.best[0].logit;
        }
    }

    void finish(OutputRow& out) {
        if (out.count > sorted_until) {
            if (!full(out)) {
                for (int32_t at = filled / 2 - 1; at >= 0; --at) sift_down(out.best, filled, at);
            }
            for (int32_t size = filled - 1; size > 0; --size) {
                const Candidate worst = out.best[0];
                out.best[0] = out.best[size];
                out.best[size] = worst;
                sift_down(out.best, size, 0);
            }
        }
        for (; filled < out.count; ++filled) out.best[filled] = Candidate{minus_infinity, -1};
        out.maximum = maximum(top);
        out.sum = total(sum);
    }
};

constexpr int64_t output_rows = 256;  // rows that go through the vocabulary together

struct OutputFinish {
    RowState* states;
    OutputRow* out;
    const float* bias;
    int64_t outputs;

    void prepare(int64_t row, int64_t) const { __builtin_prefetch(states + row, 1); }

    UWAGA_APART void operator()(int64_t row, int64_t p, Vec (&v)[parts]) const {
        const int64_t column = p * panel;
        OutputRow& asked = out[row];
        RowState& state = states[row];
        const int64_t n = smaller(panel, outputs - column);
        if (n == panel) {
            if (bias) {
                UWAGA_UNROLL
                for (int i = 0; i < parts; ++i) v[i] = v[i] + load(bias + column + i * lanes);
            }
        } else {
            alignas(64) float logits[panel];
            UWAGA_UNROLL
            for (int i = 0; i < parts; ++i) {
                const int64_t left = n - i * lanes;
                store(logits + i * lanes, bias && left > 0 ? v[i] + load_part(bias + column + i * lanes, smaller(lanes, left)) : v[i]);
            }
            for (int64_t i = n; i < panel; ++i) logits[i] = minus_infinity;
            UWAGA_UNROLL
            for (int i = 0; i < parts; ++i) v[i] = load(logits + i * lanes);
        }
        if (asked.logits) {
            UWAGA_UNROLL
            for (int i = 0; i < parts; ++i) {
                const int64_t left = n - i * lanes;
                if (left > 0) store_part(asked.logits + column + i * lanes, v[i], smaller(lanes, left));
            }
        }
        Vec most = v[0];
        UWAGA_UNROLL
        for (int i = 1; i < parts; ++i) most = max(most, v[i]);
        if (any_greater(most, state.bar) || !state.full(asked)) {
            alignas(64) float logits[panel];
            UWAGA_UNROLL
            for (int i = 0; i < parts; ++i) store(logits + i * lanes, v[i]);
            state.notice(asked, logits, column, n);
        }
        Vec added = summand(v[0] - state.top);
        UWAGA_UNROLL
        for (int i = 1; i < parts; ++i) added = added + summand(v[i] - state.top);
        state.sum = state.sum + added;
    }
};

// ---- int8 -------------------------------------------------------------------------------------------------------

template <class Finish>
struct Dequantise {
    const float* row_scales;
    const float* column_scales;
    Finish& finish;

    void prepare(int64_t row, int64_t p) const { finish.prepare(row, p); }

    void operator()(int64_t row, int64_t p, const int32_t* sums) const {
        const Vec scale = set(row_scales[row]);
        Vec v[parts];
        UWAGA_UNROLL
        for (int i = 0; i < parts; ++i) {
            v[i] = from_int(sums + i * lanes) * (scale * load(column_scales + p * panel + i * lanes));
        }
        finish(row, p, v);
    }
};

void int8_product(const QuantisedRows& x, int64_t rows, const Int8Matrix& w, const Epilogue& e, float* y, int64_t y_stride) {
    ProductFinish finish{e, y, y_stride, w.outputs};
    Dequantise<ProductFinish> dequantise{x.scales, w.scales, finish};
    int8_panels(x, rows, w, dequantise);
}

// ---- float32 and bfloat16 weights; the order of each sum is that of the inputs, for any number of rows ------------

// R rows and 32 columns. The sums are local: a store through `out` could change x for all the compiler knows.
template <int R>
inline void block(const float* x, int64_t x_stride, const float* weights, int64_t inputs, Vec (&out)[R][parts]) {
    Vec sum[R][parts];
    for (int r = 0; r < R; ++r) {
        UWAGA_UNROLL
        for (int i = 0; i < parts; ++i) sum[r][i] = set(0.0f);
    }
    for (int64_t k = 0; k < inputs; ++k, weights += panel) {
        UWAGA_UNROLL
        for (int i = 0; i < parts; ++i) {
            const Vec b = load(weights + i * lanes);
            UWAGA_UNROLL
            for (int r = 0; r < R; ++r) sum[r][i] = fma(set(x[r * x_stride + k]), b, sum[r][i]);
        }
    }
    for (int r = 0; r < R; ++r) {
        UWAGA_UNROLL
        for (int i = 0; i < parts; ++i) out[r][i] = sum[r][i];
    }
}

template <int R>
inline void block(const float* x, int64_t x_stride, const uint16_t* weights, int64_t inputs, Vec (&out)[R][parts]) {
    Vec sum[R][parts];
    for (int r = 0; r < R; ++r) {
        UWAGA_UNROLL
        for (int i = 0; i < parts; ++i) sum[r][i] = set(0.0f);
    }
    int64_t k = 0;
    for (; k + 2 <= inputs; k += 2, weights += 2 * panel) {
        UWAGA_UNROLL
        for (int i = 0; i < parts; ++i) {
            Vec first, second;
            load_pairs(weights + 2 * i * lanes, first, second);
            UWAGA_UNROLL
            for (int r = 0; r < R; ++r) {
                sum[r][i] = fma(set(x[r * x_stride + k]), first, sum[r][i]);
                sum[r][i] = fma(set(x[r * x_stride + k + 1]), second, sum[r][i]);
            }
        }
    }
    UWAGA_UNROLL
    for (int i = 0; i < parts; ++i) {
        Vec first = set(0.0f), second = first;
        if (k < inputs) load_pairs(weights + 2 * i * lanes, first, second);
        for (int r = 0; r < R; ++r) out[r][i] = k < inputs ? fma(set(x[r * x_stride + k]), first, sum[r][i]) : sum[r][i];
    }
}

inline int64_t panel_size(const FloatMatrix& w) { return w.inputs * panel; }
inline int64_t panel_size(const HalfMatrix& w) { return (w.inputs + 1) / 2 * 2 * panel; }

template <int R, class T, class Finish>
inline void finish_block(const float* x, int64_t x_stride, const T* weights, int64_t inputs, int64_t row, int64_t p, Finish& finish) {
    Vec sum[R][parts];
    block<R>(x + row * x_stride, x_stride, weights, inputs, sum);
    for (int r = 0; r < R; ++r) finish(row + r, p, sum[r]);
}

template <class Matrix, class Finish>
void float_panels(const float* x, int64_t rows, int64_t x_stride, const Matrix& w, Finish& finish) {
    const int64_t panels = padded_outputs(w.outputs) / panel;
    for (int64_t p = 0; p < panels; ++p) {
        const auto* weights = w.panels + p * panel_size(w);
        int64_t row = 0;
        for (; row + float_rows <= rows; row += float_rows) {
            finish_block<float_rows>(x, x_stride, weights, w.inputs, row, p, finish);
        }
        if constexpr (float_rows > 4) {
            if (row + 4 <= rows) {
                finish_block<4>(x, x_stride, weights, w.inputs, row, p, finish);
                row += 4;
            }
        }
        if (row + 2 <= rows) {
            finish_block<2>(x, x_stride, weights, w.inputs, row, p, finish);
            row += 2;
        }
        if (row < rows) finish_block<1>(x, x_stride, weights, w.inputs, row, p, finish);
    }
}

void float_product(const float* x, int64_t rows, int64_t x_stride, const FloatMatrix& w, const Epilogue& e, float* y, int64_t y_stride) {
    ProductFinish finish{e, y, y_stride, w.outputs};
    float_panels(x, rows, x_stride, w, finish);
}
void half_product(const float* x, int64_t rows, int64_t x_stride, const HalfMatrix& w, const Epilogue& e, float* y, int64_t y_stride) {
    ProductFinish finish{e, y, y_stride, w.outputs};
    float_panels(x, rows, x_stride, w, finish);
}

// ---- Output layer -----------------------------------------------------------------------------------------------

// product(first row, rows, finish) is run on groups of rows.
template <class Product>
void output(int64_t rows, int64_t outputs, const float* bias, OutputRow* out, const Product& product) {
    RowState states[output_rows];
    for (int64_t first = 0; first < rows; first += output_rows) {
        const int64_t count = smaller(output_rows, rows - first);
        for (int64_t r = 0; r < count; ++r) states[r].start(out[first + r]);
        OutputFinish finish{states, out + first, bias, outputs};
        product(first, count, finish);
        for (int64_t r = 0; r < count; ++r) states[r].finish(out[first + r]);
    }
}

void int8_output(const QuantisedRows& x, int64_t rows, const Int8Matrix& w, const float* bias, OutputRow* out) {
    output(rows, w.outputs, bias, out, [&](int64_t first, int64_t count, OutputFinish& finish) {
        Dequantise<OutputFinish> dequantise{x.scales + first, w.scales, finish};
        int8_panels(QuantisedRows{x.values + first * x.stride, x.scales + first, x.stride}, count, w, dequantise);
    });
}
void float_output(const float* x, int64_t rows, int64_t x_stride, const FloatMatrix& w, const float* bias, OutputRow* out) {
    output(rows, w.outputs, bias, out, [&](int64_t first, int64_t count, OutputFinish& finish) {
        float_panels(x + first * x_stride, count, x_stride, w, finish);
    });
}
void half_output(const float* x, int64_t rows, int64_t x_stride, const HalfMatrix& w, const float* bias, OutputRow* out) {
    output(rows, w.outputs, bias, out, [&](int64_t first, int64_t count, OutputFinish& finish) {
        float_panels(x + first * x_stride, count, x_stride, w, finish);
    });
}

// ---- Embedding --------------------------------------------------------------------------------------------------

void int8_embed(const Int8Matrix& w, const int32_t* tokens, int64_t rows, float scale, float* y, int64_t y_stride) {
    const int64_t inputs = padded_inputs(w.inputs);
    for (int64_t row = 0; row < rows; ++row, y += y_stride) {
        const int64_t token = tokens[row];
        const int8_t* from = w.panels + token / panel * panel * inputs + token % panel * 4;
        const float factor = scale * w.scales[token];
        for (int64_t k = 0; k < w.inputs; ++k) y[k] = factor * static_cast<float>(from[k / 4 * 4 * panel + k % 4]);
    }
}
void float_embed(const FloatMatrix& w, const int32_t* tokens, int64_t rows, float scale, float* y, int64_t y_stride) {
    for (int64_t row = 0; row < rows; ++row, y += y_stride) {
        const int64_t token = tokens[row];
        const float* from = w.panels + token / panel * panel_size(w) + token % panel;
        for (int64_t k = 0; k < w.inputs; ++k) y[k] = scale * from[k * panel];
    }
}
void half_embed(const HalfMatrix& w, const int32_t* tokens, int64_t rows, float scale, float* y, int64_t y_stride) {
    for (int64_t row = 0; row < rows; ++row, y += y_stride) {
        const int64_t token = tokens[row];
        const uint16_t* from = w.panels + token / panel * panel_size(w) + token % panel * 2;
        for (int64_t k = 0; k < w.inputs; ++k) y[k] = scale * float_of_half(from[k / 2 * 2 * panel + k % 2]);
    }
}

constexpr Kernels table(Isa isa, const char* name) {
    return Kernels{isa, name, quantise, int8_product, float_product, half_product, int8_output, float_output, half_output,
                   int8_embed, float_embed, half_embed, norm, attend_float16, attend_float, to_float16};
}
