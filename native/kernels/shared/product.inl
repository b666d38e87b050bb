// Products with int8, int4, bfloat16 and float32 weights, over Vec, int8_panels and int4_panels. Included
// inside an unnamed namespace.
//
// A product runs panel by panel and block of rows by block of rows, and passes every row's 32 results to
// `finish`:
//     finish.prepare(row, p)     before they are computed
//     finish(row, p, results)    after; int32_t[32] for int8 products, Vec[parts] for the others

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

void int8_product(const QuantisedRows& x, int64_t rows, const Int8Matrix& w, const Epilogue& e, float* y,
                  int64_t y_stride) {
    ProductFinish finish{e, y, y_stride, w.outputs};
    Dequantise<ProductFinish> dequantise{x.scales, w.scales, finish};
    int8_panels(x, rows, w, dequantise);
}
void int4_product(const QuantisedRows& x, int64_t rows, const Int4Matrix& w, const Epilogue& e, float* y,
                  int64_t y_stride) {
    ProductFinish finish{e, y, y_stride, w.outputs};
    Dequantise<ProductFinish> dequantise{x.scales, w.scales, finish};
    int4_panels(x, rows, w, dequantise);
}

// ---- float32 and bfloat16 weights; sums run in the order of the inputs, for any number of rows ------------

// R rows and 32 columns. The sums are local: as far as the compiler knows, a store through `out` could change
// x.
template <int R>
inline void block(const float* x, int64_t x_stride, const float* weights, int64_t inputs,
                  Vec (&out)[R][parts]) {
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
inline void block(const float* x, int64_t x_stride, const uint16_t* weights, int64_t inputs,
                  Vec (&out)[R][parts]) {
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
            load_bfloat16_pairs(weights + 2 * i * lanes, first, second);
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
        if (k < inputs) load_bfloat16_pairs(weights + 2 * i * lanes, first, second);
        for (int r = 0; r < R; ++r)
            out[r][i] = k < inputs ? fma(set(x[r * x_stride + k]), first, sum[r][i]) : sum[r][i];
    }
}

inline int64_t panel_size(const FloatMatrix& w) { return w.inputs * panel; }
inline int64_t panel_size(const Bfloat16Matrix& w) { return (w.inputs + 1) / 2 * 2 * panel; }

template <int R, class T, class Finish>
inline void finish_block(const float* x, int64_t x_stride, const T* weights, int64_t inputs, int64_t row,
                         int64_t p, Finish& finish) {
    Vec sum[R][parts];
    block<R>(x + row * x_stride, x_stride, weights, inputs, sum);
    for (int r = 0; r < R; ++r) finish(row + r, p, sum[r]);
}

// As finish_block, for R rows, or for `count` if these are fewer.
template <int R, class T, class Finish>
inline void finish_rows(int64_t count, const float* x, int64_t x_stride, const T* weights, int64_t inputs,
                        int64_t row, int64_t p, Finish& finish) {
    if constexpr (R > 1) {
        if (count < R) return finish_rows<R - 1>(count, x, x_stride, weights, inputs, row, p, finish);
    }
    finish_block<R>(x, x_stride, weights, inputs, row, p, finish);
}

template <class Matrix, class Finish>
void float_panels(const float* x, int64_t rows, int64_t x_stride, const Matrix& w, Finish& finish) {
    const int64_t panels = padded_outputs(w.outputs) / panel;
    for (int64_t p = 0; p < panels; ++p) {
        for (int64_t row = 0; row < rows; row += float_rows) {
            finish_rows<float_rows>(rows - row, x, x_stride, w.panels + p * panel_size(w), w.inputs, row, p,
                                    finish);
        }
    }
}

void float_product(const float* x, int64_t rows, int64_t x_stride, const FloatMatrix& w, const Epilogue& e,
                   float* y, int64_t y_stride) {
    ProductFinish finish{e, y, y_stride, w.outputs};
    float_panels(x, rows, x_stride, w, finish);
}
void bfloat16_product(const float* x, int64_t rows, int64_t x_stride, const Bfloat16Matrix& w,
                      const Epilogue& e, float* y, int64_t y_stride) {
    ProductFinish finish{e, y, y_stride, w.outputs};
    float_panels(x, rows, x_stride, w, finish);
}
