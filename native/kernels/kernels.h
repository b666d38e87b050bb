// The kernels of the native engine: one table of function pointers per instruction set, chosen at run time.
//
// Law of all of them: what is computed for a row does not depend on which or how many rows stand beside it, nor on
// the thread. Integer products are exact; float sums run in an order that is fixed by the row's own sizes alone.
// Rows are packed: no padding. Strides count elements. Nothing here allocates.
//
// A row with a NaN or an infinity in it gives NaN throughout an int8 product. Every file is compiled with
// -ffp-contract=off: a fused multiplication-addition only where it is written.
#pragma once

#include <cstddef>
#include <cstdint>

namespace uwaga {

enum class Isa : int { portable = 0, neon = 1, avx2 = 2, avxvnni = 3, avx512vnni = 4, amx = 5 };

enum class Activation : int { none = 0, relu = 1, gelu = 2, gelu_tanh = 3, silu = 4 };

constexpr int64_t panel = 32;  // output columns that are packed side by side

// W, (outputs, inputs), for y = x W^T. Panels of 32 outputs; outputs are padded with zeros to a multiple of 32 in all
// three, inputs to a multiple of 64 in int8 and of 2 in bfloat16. `panels` starts on 64 bytes.
struct Int8Matrix {
    const int8_t* panels;   // [outputs/32][inputs/4][32][4]
    const float* scales;    // (outputs padded): weight = scale * q; 0 in the padding
    const int32_t* sums;    // (outputs padded): 128 * sum over inputs of q, the correction for u8 = q + 128
    int64_t outputs, inputs;  // inputs at most 65,536, so that no sum overflows
    int levels = 127;       // |q| <= levels
    const int8_t* prefetch = nullptr;  // weights that are wanted after these, fetched meanwhile; null: what lies behind them
    int64_t prefetch_size = 0;         // bytes of the matrix that they are of
};
struct FloatMatrix {
    const float* panels;    // [outputs/32][inputs][32]
    int64_t outputs, inputs;
};
struct Bfloat16Matrix {         // bfloat16
    const uint16_t* panels; // [outputs/32][inputs/2][32][2]
    int64_t outputs, inputs;
};

// Some tokens of an output layer whose weights lie token by token: [token][inputs], padded as those of the matrices are.
struct ListedTokens {
    const int32_t* tokens;
    int64_t count, inputs;
    const void* weights;               // of all tokens: int8, bfloat16 or float32
    const float* scales = nullptr;     // (count,), of int8 weights
    const int32_t* sums = nullptr;     // (count,), of int8 weights
    const float* bias = nullptr;       // (count,) or null
};

// Rows quantised each with its own scale: x = scale * (u8 - 128). Stride is a multiple of 64 and at least
// padded_inputs(inputs); quantise fills the padding with 128. A stride that is a multiple of 4096 is slow; so is one
// of a power of two from 1024 on with AMX.
struct QuantisedRows {
    const uint8_t* values;
    const float* scales;
    int64_t stride;
};

// y = activation(x W^T + bias) [* gate] [+ residual]: what is done before a value is written.
struct Epilogue {
    const float* bias = nullptr;      // (outputs,)
    Activation activation = Activation::none;
    const float* gate = nullptr;      // (rows, outputs), multiplied after the activation
    int64_t gate_stride = 0;
    const float* residual = nullptr;  // (rows, outputs), added last; may be y itself
    int64_t residual_stride = 0;
};

struct Candidate {
    float logit;
    int32_t token;
};

// What is asked of the output layer for one row; logits are never written out unless `logits` is set.
struct OutputRow {
    int32_t count = 1;                 // best first, ties by the lower token; 0 asks for none
    Candidate* best = nullptr;         // (count,); token -1 and logit -inf where the vocabulary has no more
    float maximum = 0, sum = 0;        // log-sum-exp = maximum + log(sum), over all tokens (also banned ones);
                                       // sum is NaN if a logit is NaN or +inf (a NaN is never among the best but as -inf)
    float* logits = nullptr;           // (outputs,) or null
    const int32_t* banned = nullptr;   // rising token ids, never among the best
    int32_t banned_count = 0;
};

// Self-attention of one head over a sentence. Queries, keys and values are (length, stride), of which head_width count.
// The contexts of the queries from `first` to `last` are made; those of the first ones first, which prepare the scratch.
struct SelfAttention {
    const float* queries = nullptr;
    const float* keys = nullptr;
    const float* values = nullptr;
    int64_t stride = 0, length = 0, head_width = 0, first = 0, last = 0;
    float scale = 1;
    const float* relative = nullptr;  // or relative[d] is added to the score of a key d places after its query, which
    int64_t max_distance = 0;         // counts as max_distance where it is farther (Raffel et al. 2020, section 2.1)
    float* scratch = nullptr;         // (head_width + 4, padded_keys(length)); its last rows hold the weights of the last
                                      // queries after: of all, where no more than queries_at_once were asked for
    float* context = nullptr;         // (length, context_stride)
    int64_t context_stride = 0;
};
constexpr int64_t queries_at_once = 4;
constexpr int64_t padded_keys(int64_t length) { return (length + 31) / 32 * 32; }  // to two of the widest vectors

struct Kernels {
    Isa isa;
    const char* name;

    void (*quantise)(const float* x, int64_t rows, int64_t inputs, int64_t x_stride, uint8_t* values, float* scales, int64_t stride);
    void (*int8_product)(const QuantisedRows& x, int64_t rows, const Int8Matrix& w, const Epilogue& e, float* y, int64_t y_stride);
    void (*float_product)(const float* x, int64_t rows, int64_t x_stride, const FloatMatrix& w, const Epilogue& e, float* y, int64_t y_stride);
    void (*bfloat16_product)(const float* x, int64_t rows, int64_t x_stride, const Bfloat16Matrix& w, const Epilogue& e, float* y, int64_t y_stride);

    // Output layer: product, bias, best candidates and log-sum-exp by chunks of the vocabulary.
    void (*int8_output)(const QuantisedRows& x, int64_t rows, const Int8Matrix& w, const float* bias, OutputRow* out);
    void (*float_output)(const float* x, int64_t rows, int64_t x_stride, const FloatMatrix& w, const float* bias, OutputRow* out);
    void (*bfloat16_output)(const float* x, int64_t rows, int64_t x_stride, const Bfloat16Matrix& w, const float* bias, OutputRow* out);

    // Logits (rows, stride) of some tokens alone, which none of the others changes.
    void (*int8_listed)(const QuantisedRows& x, int64_t rows, const ListedTokens& w, float* logits, int64_t stride);
    void (*float_listed)(const float* x, int64_t rows, int64_t x_stride, const ListedTokens& w, float* logits, int64_t stride);
    // x: of each row the numbers of even places, then those of odd ones, each (inputs + 1) / 2.
    void (*bfloat16_listed)(const float* x, int64_t rows, int64_t x_stride, const ListedTokens& w, float* logits, int64_t stride);

    // Rows of the embedding table read from the packed output matrix.
    void (*int8_embed)(const Int8Matrix& w, const int32_t* tokens, int64_t rows, float scale, float* y, int64_t y_stride);
    void (*float_embed)(const FloatMatrix& w, const int32_t* tokens, int64_t rows, float scale, float* y, int64_t y_stride);
    void (*bfloat16_embed)(const Bfloat16Matrix& w, const int32_t* tokens, int64_t rows, float scale, float* y, int64_t y_stride);

    // y = norm(x) * gain + bias; rms: no mean is taken away and bias is null. y may be x.
    void (*norm)(const float* x, int64_t rows, int64_t width, int64_t stride, const float* gain, const float* bias, float epsilon, bool rms, float* y, int64_t y_stride);

    // One step of a simpler simple recurrent unit for one row (Kim et al. 2019, section 3.2): with f = sigmoid(forget),
    // after = f * before + (1 - f) * input and y = x + relu(after). All (width,); y may be x.
    void (*ssru)(const float* forget, const float* input, const float* before, const float* x, int64_t width, float* after, float* y);

    // One query (heads, head_width) over `length` keys and values, which are float16 or float32 and found through
    // `offsets`: key t of head h starts at keys + offsets[t] + h * head_stride (elements). Softmax in float32.
    // bias: (heads, length) added to the scores or null; weights: (heads, length) scratch, holds the weights after.
    void (*attend_float16)(const float* query, const uint16_t* keys, const uint16_t* values, const int64_t* offsets, int64_t length, int64_t heads, int64_t head_width, int64_t head_stride, float scale, const float* bias, float* weights, float* context);
    void (*attend_float)(const float* query, const float* keys, const float* values, const int64_t* offsets, int64_t length, int64_t heads, int64_t head_width, int64_t head_stride, float scale, const float* bias, float* weights, float* context);
    void (*self_attend)(const SelfAttention& attention);

    void (*to_float16)(const float* x, int64_t count, uint16_t* y);  // to nearest even; beyond +-65504 to that
};

bool supported(Isa isa);          // compiled in and the CPU (and kernel, for AMX) has it
const Kernels& kernels_of(Isa isa);
Isa best_isa();                   // the fastest that is supported

// Packing, portable, done once when a folder is made or read.
int64_t padded_outputs(int64_t outputs);  // to 32
int64_t padded_inputs(int64_t inputs);    // to 64
int64_t int8_panels_size(int64_t outputs, int64_t inputs);   // elements of `panels`
int64_t float_panels_size(int64_t outputs, int64_t inputs);
int64_t bfloat16_panels_size(int64_t outputs, int64_t inputs);
void pack_int8(const float* w, int64_t outputs, int64_t inputs, int levels, int8_t* panels, float* scales, int32_t* sums);  // |q| <= levels <= 127
// The same of whole numbers |q| <= 127 with a scale for each of `rows` outputs; the others are zero.
void pack_int8_numbers(const int8_t* w, const float* given, int64_t rows, int64_t outputs, int64_t inputs, int8_t* panels, float* scales, int32_t* sums);
void pack_float(const float* w, int64_t outputs, int64_t inputs, float* panels);
void pack_bfloat16(const float* w, int64_t outputs, int64_t inputs, uint16_t* panels);

}  // namespace uwaga
