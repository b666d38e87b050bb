// A packed weight matrix in any number format, and the products with it.
#pragma once

#include "kernels/kernels.h"
#include "runtime/workers.h"
#include "runtime/workspace.h"

namespace uwaga {

struct Matrix {
    enum class Kind { none, int8, int4, bfloat16, float32 };
    Kind kind = Kind::none;
    Int8Matrix int8{};
    Int4Matrix int4{};
    Bfloat16Matrix bfloat16{};
    FloatMatrix float32{};
    Spread spread{};  // of the weights, if quantised

    int64_t outputs() const {
        return kind == Kind::int8       ? int8.outputs
               : kind == Kind::int4     ? int4.outputs
               : kind == Kind::bfloat16 ? bfloat16.outputs
                                        : float32.outputs;
    }
    int64_t inputs() const {
        return kind == Kind::int8       ? int8.inputs
               : kind == Kind::int4     ? int4.inputs
               : kind == Kind::bfloat16 ? bfloat16.inputs
                                        : float32.inputs;
    }
    // Its products take quantised rows.
    bool quantised() const { return kind == Kind::int8 || kind == Kind::int4; }
    const float* scales() const { return kind == Kind::int8 ? int8.scales : int4.scales; }  // if quantised
    const int32_t* sums() const { return kind == Kind::int8 ? int8.sums : int4.sums; }      // the same
    explicit operator bool() const { return kind != Kind::none; }
};

struct Linear {
    Matrix weight;
    const float* bias = nullptr;
};

// Input rows of products: float32, and quantised when an int8 or int4 matrix first needs them.
struct Rows {
    const float* x;
    int64_t rows, width, stride;
    uint8_t* values;  // room for rows * values_stride
    float* scales;    // room for rows
    int64_t values_stride;
    float* scratch = nullptr;  // for a spread row: 2 * width
    int64_t terms = 1;         // of each quantised row; with two there is room for twice as many
    enum class Format { none, plain, spread } format = Format::none;

    // The rows for products with w.
    QuantisedRows as_int8(const Kernels& kernels, const Matrix& w) {
        const Format required = w.spread ? Format::spread : Format::plain;
        if (format != required) {
            if (w.spread || terms == 2) quantise_rows(kernels, w.spread);
            else kernels.quantise(x, rows, width, stride, values, scales, values_stride);
        }
        format = required;
        return {values, scales, values_stride, terms};
    }
    void quantise_rows(const Kernels& kernels, const Spread& spread);
    // Rows [first, first + count).
    Rows part(int64_t first, int64_t count) const {
        return {
            x + first * stride,     count,         width,   stride, values + first * terms * values_stride,
            scales + first * terms, values_stride, scratch, terms,  format};
    }
};

int64_t stride_of(int64_t width);  // stride of float rows
Rows rows_of(Workspace& ws, const float* x, int64_t rows, int64_t width, int64_t stride, int64_t terms = 1);

// Panels [first, last) of a matrix: its outputs from 32 * first.
inline Matrix panel_range(const Matrix& w, int64_t first, int64_t last) {
    Matrix part = w;
    const int64_t skipped = first * panel,
                  outputs = (last * panel < w.outputs() ? last * panel : w.outputs()) - skipped;
    if (w.kind == Matrix::Kind::int8) {
        part.int8.panels += skipped * padded_inputs(w.int8.inputs);
        part.int8.scales += skipped;
        part.int8.sums += skipped;
        part.int8.outputs = outputs;
        if (last * panel < w.outputs()) part.int8.prefetch = nullptr;  // null: prefetch the following panels
    } else if (w.kind == Matrix::Kind::int4) {
        part.int4.panels += first * int4_panels_size(panel, w.int4.inputs);
        part.int4.scales += skipped;
        part.int4.sums += skipped;
        part.int4.outputs = outputs;
        if (last * panel < w.outputs()) part.int4.prefetch = nullptr;
    } else if (w.kind == Matrix::Kind::bfloat16) {
        part.bfloat16.panels += skipped * rounded(w.bfloat16.inputs, 2);
        part.bfloat16.outputs = outputs;
    } else {
        part.float32.panels += skipped * w.float32.inputs;
        part.float32.outputs = outputs;
    }
    return part;
}

// y = activation(x W^T + bias) [* gate] [+ residual]
inline void product(const Kernels& kernels, Rows& in, const Matrix& w, const Epilogue& e, float* y,
                    int64_t y_stride) {
    switch (w.kind) {
        case Matrix::Kind::int8:
            kernels.int8_product(in.as_int8(kernels, w), in.rows, w.int8, e, y, y_stride);
            break;
        case Matrix::Kind::int4:
            kernels.int4_product(in.as_int8(kernels, w), in.rows, w.int4, e, y, y_stride);
            break;
        case Matrix::Kind::bfloat16:
            kernels.bfloat16_product(in.x, in.rows, in.stride, w.bfloat16, e, y, y_stride);
            break;
        default: kernels.float_product(in.x, in.rows, in.stride, w.float32, e, y, y_stride);
    }
}

// The same for a thread's slice of the columns; y is complete after all members have waited.
inline void product(const Kernels& kernels, Rows& in, const Matrix& w, Epilogue e, float* y, int64_t y_stride,
                    const ThreadSlice& slice) {
    if (slice.count == 1) return product(kernels, in, w, e, y, y_stride);
    const int64_t panels = padded_outputs(w.outputs()) / panel, first = slice.first(panels),
                  last = slice.last(panels);
    if (first == last) return;
    const int64_t skipped = first * panel;
    if (e.bias) e.bias += skipped;
    if (e.gate) e.gate += skipped;
    if (e.residual) e.residual += skipped;
    Matrix part = panel_range(w, first, last);
    part.int8.prefetch = w.int8.prefetch ? w.int8.prefetch + slice.first(w.int8.prefetch_size) : nullptr;
    part.int4.prefetch = w.int4.prefetch ? w.int4.prefetch + slice.first(w.int4.prefetch_size) : nullptr;
    product(kernels, in, part, e, y + skipped, y_stride);
}

inline void output(const Kernels& kernels, Rows& in, const Matrix& w, const LogitEpilogue& e,
                   OutputRow* out) {
    switch (w.kind) {
        case Matrix::Kind::int8: kernels.int8_output(in.as_int8(kernels, w), in.rows, w.int8, e, out); break;
        case Matrix::Kind::int4: kernels.int4_output(in.as_int8(kernels, w), in.rows, w.int4, e, out); break;
        case Matrix::Kind::bfloat16:
            kernels.bfloat16_output(in.x, in.rows, in.stride, w.bfloat16, e, out);
            break;
        default: kernels.float_output(in.x, in.rows, in.stride, w.float32, e, out);
    }
}

// Rows of the table, as it is stored: spread ones if it is spread.
inline void embed(const Kernels& kernels, const Matrix& w, const int32_t* tokens, int64_t rows, float scale,
                  float* y, int64_t y_stride) {
    switch (w.kind) {
        case Matrix::Kind::int8: kernels.int8_embed(w.int8, tokens, rows, scale, y, y_stride); break;
        case Matrix::Kind::int4: kernels.int4_embed(w.int4, tokens, rows, scale, y, y_stride); break;
        case Matrix::Kind::bfloat16:
            kernels.bfloat16_embed(w.bfloat16, tokens, rows, scale, y, y_stride);
            break;
        default: kernels.float_embed(w.float32, tokens, rows, scale, y, y_stride);
    }
}

// A single logit: for the few forced and banned tokens.
double logit_at(Rows& in, int64_t row, const Matrix& w, const LogitEpilogue& e, int64_t token);

// Sums over more inputs could overflow.
constexpr int64_t max_int8_inputs = 65536;
// Check the numbers of a file, on which the products rely: levels, grids and sums. Throws
// std::invalid_argument.
void check_int8_inputs(int64_t inputs);
void check_int8(const Int8Matrix& w);
void check_int4(const Int4Matrix& w);

}  // namespace uwaga
