// The kernels of the native engine: one table of function pointers per instruction set, chosen at run time.
//
// Invariants of all kernels: the result of a row depends neither on the other rows, nor on their number, nor
// on the thread. Integer products are exact; float sums run in an order that only the row's own sizes
// determine. Rows are packed without padding. Strides count elements. No kernel allocates memory.
//
// In an int8 product, a row with a NaN or an infinity gives NaN in all columns. Every file is compiled with
// -ffp-contract=off: multiply-adds are fused only where written.
#pragma once

#include <cstddef>
#include <cstdint>

namespace uwaga {

enum class Isa : int { portable = 0, neon = 1, avx2 = 2, avxvnni = 3, avx512vnni = 4, amx = 5, wasm = 6 };

enum class Activation : int { none = 0, relu = 1, gelu = 2, gelu_tanh = 3, silu = 4, tanh = 5 };

constexpr int64_t panel = 32;  // output columns packed side by side

// A weight matrix W, (outputs, inputs), for y = x W^T, in panels of 32 outputs. Outputs are zero-padded to a
// multiple of 32 in all formats, inputs to a multiple of 64 in int8 and int4 and of 2 in bfloat16. `panels`
// is aligned to 64 bytes.
struct Int8Matrix {
    const int8_t* panels;  // [outputs/32][inputs/4][32][4]
    const float* scales;   // (padded outputs,): weight = scale * q; 0 in the padding
    const int32_t* sums;   // (padded outputs,): 128 * sum over inputs of q, the correction for u8 = q + 128
    int64_t outputs, inputs;           // inputs at most 65,536, so that no sum overflows
    int levels = 127;                  // |q| <= levels
    const int8_t* prefetch = nullptr;  // weights needed next, prefetched during the product; null: those that
                                       // follow these
    int64_t prefetch_size = 0;         // bytes of the matrix that `prefetch` points into
};
// In int4, a number q of 4 bits stands for the int8 number step * (q - 8) + middle, with a step and a middle
// for each output and group of 32 inputs: a product with it is the product with the int8 matrix, bit for bit.
// A group of a panel is 576 bytes: the pairs [32] of step and middle, int8; then the numbers [4][32][4], each
// byte with the number of input 8 i + k in its lower half and that of 8 i + 4 + k in its upper half.
struct Int4Matrix {
    const uint8_t* panels;  // [outputs/32][inputs/32][576]; 0 <= step <= 16, and |step * (q - 8) + middle| <=
                            // 127 for all q
    const float* scales;    // as in Int8Matrix
    const int32_t* sums;    // (padded outputs,): 128 * sum over the padded inputs of the int8 numbers
    int64_t outputs, inputs;
    const uint8_t* prefetch = nullptr;  // as in Int8Matrix
    int64_t prefetch_size = 0;
};
constexpr int64_t int4_inputs = 32, int4_group = 576;  // inputs and bytes of a group
// An orthogonal matrix R (inputs, inputs) that spreads a row's few large numbers over all inputs. Quantised
// products may take spread rows and spread weights: x W^T = (x R) (W R)^T, and the scales of both fit all of
// their numbers (Ashkboos et al. 2024, section 2.2). With inputs = block * blocks: signs, the Hadamard
// transform of each block and the Hartley transform across the blocks, divided by sqrt(inputs).
struct Spread {
    int64_t block = 0, blocks = 0;  // 0: none; block is a power of two, at least 16, and blocks is odd
    float factor = 1;               // 1 / sqrt(inputs)
    const float* signs = nullptr;   // (inputs,)
    const float *cosines = nullptr, *sines = nullptr;  // (blocks,), of 2 pi i / blocks
    static constexpr int64_t max_blocks = 63;

    explicit operator bool() const { return block > 0; }
};
Spread spread_of(int64_t inputs);  // none if inputs is no multiple of 16 or its largest odd divisor exceeds
                                   // 63

struct FloatMatrix {
    const float* panels;  // [outputs/32][inputs][32]
    int64_t outputs, inputs;
};
struct Bfloat16Matrix {
    const uint16_t* panels;  // [outputs/32][inputs/2][32][2]
    int64_t outputs, inputs;
};

// A subset of an output layer's tokens. Weights are stored token by token, [token][inputs], padded as in the
// matrices.
struct ListedTokens {
    const int32_t* tokens;
    int64_t count, inputs;
    const void* weights;            // of the whole vocabulary: int8, bfloat16 or float32
    const float* scales = nullptr;  // (count,), for int8 weights
    const int32_t* sums = nullptr;  // (count,), for int8 weights
    const float* bias = nullptr;    // (count,) or null
};

// Quantised rows, each with its own scale: x = scale * (u8 - 128). The stride is a multiple of 64 and at
// least padded_inputs(inputs); quantise fills the padding with 128. Strides that are multiples of 4096 are
// slow; with AMX, so are powers of two from 1024. With two terms, a row is the sum of two that follow each
// other: the quantised row and the quantised remainder of the input.
struct QuantisedRows {
    const uint8_t* values;
    const float* scales;
    int64_t stride;
    int64_t terms = 1;  // 2: only for int8_output, and at most 16,384 inputs
};

// y = activation(x W^T + bias) [* gate] [+ residual]: applied before a value is stored.
struct Epilogue {
    const float* bias = nullptr;  // (outputs,)
    Activation activation = Activation::none;
    const float* gate = nullptr;  // (rows, outputs), multiplied after the activation
    int64_t gate_stride = 0;
    const float* residual = nullptr;  // (rows, outputs), added last; may be y itself
    int64_t residual_stride = 0;
};

// Logits of the output layer: x W^T + bias, and with a cap, cap * tanh(logit / cap) of these (Gemma 2,
// section 2).
struct LogitEpilogue {
    const float* bias = nullptr;  // (outputs,)
    float cap = 0;                // 0: none
};

struct Candidate {
    float logit;
    int32_t token;
};

// Request and result of the output layer for one row. Logits are stored only if `logits` is set.
struct OutputRow {
    int32_t count = 1;           // number of candidates, best first; ties go to the lower token; may be 0
    Candidate* best = nullptr;   // (count,); token -1 and logit -inf if the vocabulary has too few
    float maximum = 0, sum = 0;  // log-sum-exp = maximum + log(sum) over all tokens, banned ones included;
                                 // sum is NaN if a logit is NaN or +inf (as a candidate, NaN ranks as -inf)
    float* logits = nullptr;     // (outputs,) or null
    const int32_t* banned = nullptr;  // ascending token ids, never among the best
    int32_t banned_count = 0;
};

// Self-attention of one head over a sentence. Queries, keys and values are (length, stride); head_width
// columns count. Computes the contexts of queries [first, last). The call with first = 0 must come first: it
// prepares the scratch.
struct SelfAttention {
    const float* queries = nullptr;
    const float* keys = nullptr;
    const float* values = nullptr;
    int64_t stride = 0, length = 0, head_width = 0, first = 0, last = 0;
    float scale = 1;
    const float* relative = nullptr;  // null, or relative[d] is added to the score of a key d after its
                                      // query;
    int64_t max_distance = 0;         // d is clamped to +-max_distance (Raffel et al. 2020, section 2.1)
    float* scratch = nullptr;  // (head_width + 4, padded_keys(length)); its last rows then hold the weights
                               // of the last queries: of all, if at most queries_at_once were requested
    float* context = nullptr;  // (length, context_stride)
    int64_t context_stride = 0;
};
constexpr int64_t queries_at_once = 4;
// Rounded up to a multiple of two widest vectors.
constexpr int64_t padded_keys(int64_t length) { return (length + 31) / 32 * 32; }

// Attention of consecutive positions over keys and values located by `offsets`: key t of head h starts at
// keys + offsets[t] + h / group * head_stride (elements). Softmax in float32.
struct CachedAttention {
    const float* query = nullptr;  // (queries, heads, head_width), query_stride apart
    const int64_t* offsets = nullptr;
    int64_t length = 0;          // keys of the first query; each query sees one more than the one before it,
    int64_t window = INT64_MAX;  // and at most so many of the last ones; at least `length`
    int64_t queries = 1, heads = 0, head_width = 0, head_stride = 0;
    int64_t group = 1;            // query heads per head of keys and values (Ainslie et al. 2023)
    float scale = 1;              // factor of the scores
    float cap = 0;                // scores become cap * tanh(score / cap); 0: no cap
    const float* bias = nullptr;  // (heads, length), added to the scores of a single query, or null
    float* weights = nullptr;     // of a single query: receives its weights (heads, length). Of several:
                                  // scratch, (group * queries, length + queries - 1)
    float* context = nullptr;     // (queries, heads, head_width), context_stride apart
    int64_t query_stride = 0, context_stride = 0;
    uintptr_t following = 0;  // bytes from these keys to those of the next call, which a single query
                              // prefetches
};

struct Kernels {
    Isa isa;
    const char* name;

    void (*quantise)(const float* x, int64_t rows, int64_t inputs, int64_t x_stride, uint8_t* values,
                     float* scales, int64_t stride);
    // y = x R for a row, or, if `inverse`, y = x R^T. y has room for 2 * inputs numbers, of which the first
    // `inputs` are the result. The same bits on every instruction set.
    void (*spread)(const float* x, const Spread& s, bool inverse, float* y);
    void (*int8_product)(const QuantisedRows& x, int64_t rows, const Int8Matrix& w, const Epilogue& e,
                         float* y, int64_t y_stride);
    void (*int4_product)(const QuantisedRows& x, int64_t rows, const Int4Matrix& w, const Epilogue& e,
                         float* y, int64_t y_stride);
    void (*float_product)(const float* x, int64_t rows, int64_t x_stride, const FloatMatrix& w,
                          const Epilogue& e, float* y, int64_t y_stride);
    void (*bfloat16_product)(const float* x, int64_t rows, int64_t x_stride, const Bfloat16Matrix& w,
                             const Epilogue& e, float* y, int64_t y_stride);

    // Output layer: product, bias, best candidates and log-sum-exp by chunks of the vocabulary.
    void (*int8_output)(const QuantisedRows& x, int64_t rows, const Int8Matrix& w, const LogitEpilogue& e,
                        OutputRow* out);
    void (*int4_output)(const QuantisedRows& x, int64_t rows, const Int4Matrix& w, const LogitEpilogue& e,
                        OutputRow* out);
    void (*float_output)(const float* x, int64_t rows, int64_t x_stride, const FloatMatrix& w,
                         const LogitEpilogue& e, OutputRow* out);
    void (*bfloat16_output)(const float* x, int64_t rows, int64_t x_stride, const Bfloat16Matrix& w,
                            const LogitEpilogue& e, OutputRow* out);

    // Logits (rows, stride) of the tokens of a shortlist, each independent of the others in it.
    void (*int8_listed)(const QuantisedRows& x, int64_t rows, const ListedTokens& w, float* logits,
                        int64_t stride);
    void (*float_listed)(const float* x, int64_t rows, int64_t x_stride, const ListedTokens& w, float* logits,
                         int64_t stride);
    // x: the even-indexed elements of each row, then the odd-indexed ones, (inputs + 1) / 2 each.
    void (*bfloat16_listed)(const float* x, int64_t rows, int64_t x_stride, const ListedTokens& w,
                            float* logits, int64_t stride);

    // Rows of the embedding table, read from the packed output matrix.
    void (*int8_embed)(const Int8Matrix& w, const int32_t* tokens, int64_t rows, float scale, float* y,
                       int64_t y_stride);
    void (*int4_embed)(const Int4Matrix& w, const int32_t* tokens, int64_t rows, float scale, float* y,
                       int64_t y_stride);
    void (*float_embed)(const FloatMatrix& w, const int32_t* tokens, int64_t rows, float scale, float* y,
                        int64_t y_stride);
    void (*bfloat16_embed)(const Bfloat16Matrix& w, const int32_t* tokens, int64_t rows, float scale,
                           float* y, int64_t y_stride);

    // y = norm(x) * gain + bias; rms: the mean is not subtracted and bias is null. y may be x.
    void (*norm)(const float* x, int64_t rows, int64_t width, int64_t stride, const float* gain,
                 const float* bias, float epsilon, bool rms, float* y, int64_t y_stride);

    // One step of a simpler simple recurrent unit for one row (Kim et al. 2019, section 3.2): with f =
    // sigmoid(forget), after = f * before + (1 - f) * input and y = x + relu(after). All (width,); y may be
    // x.
    void (*ssru)(const float* forget, const float* input, const float* before, const float* x, int64_t width,
                 float* after, float* y);

    // Turn the pairs (x[i], x[i + head_width / 2]) of heads side by side by angles (Su et al. 2021, equation
    // 34). cos_sin: the cosines and then the sines of the head_width / 2 angles.
    void (*rotate)(float* x, int64_t heads, int64_t head_width, const float* cos_sin);

    void (*attend_float16)(const CachedAttention& attention, const uint16_t* keys, const uint16_t* values);
    void (*attend_float)(const CachedAttention& attention, const float* keys, const float* values);
    void (*self_attend)(const SelfAttention& attention);

    // y = sigmoid(a + b) * x, all (width,); y may be x.
    void (*gate)(const float* a, const float* b, const float* x, int64_t width, float* y);
    // The end of a step of a gated recurrent unit (Cho et al. 2014, equations 7 and 8): z = sigmoid(update +
    // update_state), n = tanh(candidate + candidate_state), after = z * before + (1 - z) * n. All (units,);
    // after may be before.
    void (*gru)(const float* update, const float* update_state, const float* candidate,
                const float* candidate_state, const float* before, int64_t units, float* after);
    // A step of a long short-term memory (Gers et al. 2000): with (i, f, g, o) = inputs + states, each
    // (units,), the cell after = sigmoid(f) * before + sigmoid(i) * tanh(g) and hidden = sigmoid(o) *
    // tanh(after). after may be before.
    void (*lstm)(const float* inputs, const float* states, const float* before, int64_t units, float* after,
                 float* hidden);

    // Scores of one query against keys (length, stride), of which `width` columns count: scale * query . key,
    // and vector . tanh(query + key) (Bahdanau et al. 2014, section A.1.2).
    void (*score_dot)(const float* query, const float* keys, int64_t stride, int64_t length, int64_t width,
                      float scale, float* scores);
    void (*score_additive)(const float* query, const float* vector, const float* keys, int64_t stride,
                           int64_t length, int64_t width, float* scores);
    // weights = softmax(weights) * gain, in place, and context = weights . values (length, stride). gain:
    // (length,) or null.
    void (*weigh_values)(float* weights, const float* gain, const float* values, int64_t stride,
                         int64_t length, int64_t width, float* context);
    // The window of predictive local attention (Luong et al. 2015, section 3.2): with the centre p = length *
    // sigmoid(vector . hidden), window = [first, last) of the positions at most `reach` from p, and gain
    // (length,) = exp(-(t - p)^2 / (2 (reach / 2)^2)).
    void (*predict_window)(const float* hidden, const float* vector, int64_t width, int64_t length,
                           int64_t reach, int64_t* window, float* gain);

    void (*to_float16)(const float* x, int64_t count, uint16_t* y);  // rounds to nearest even, saturates at
                                                                     // +-65504
};

bool supported(Isa isa);  // compiled in, and the processor (and the OS, for AMX) supports it
const Kernels& kernels_of(Isa isa);
Isa best_isa();  // the fastest supported one

// Packing: portable, done once when a folder is written or read.
int64_t padded_outputs(int64_t outputs);                    // rounded up to 32
int64_t padded_inputs(int64_t inputs);                      // rounded up to 64
int64_t int8_panels_size(int64_t outputs, int64_t inputs);  // elements of `panels`
int64_t int4_panels_size(int64_t outputs, int64_t inputs);  // bytes
int64_t float_panels_size(int64_t outputs, int64_t inputs);
int64_t bfloat16_panels_size(int64_t outputs, int64_t inputs);
float largest_magnitude(const float* row, int64_t inputs);  // of an output's weights; NaN if one is not
                                                            // finite
// Of weights for products of spread rows, w R is packed.
void pack_int8(const float* w, int64_t outputs, int64_t inputs, int levels, int8_t* panels, float* scales,
               int32_t* sums, const Spread& spread = {});  // |q| <= levels <= 127
// The same for integers |q| <= 127, with a scale for each of `rows` outputs; the remaining outputs are zero.
void pack_int8_numbers(const int8_t* w, const float* row_scales, int64_t rows, int64_t outputs,
                       int64_t inputs, int8_t* panels, float* scales, int32_t* sums);
// Each group with the step and the middle that leave the least squared error of a few that are tried.
void pack_int4(const float* w, int64_t outputs, int64_t inputs, uint8_t* panels, float* scales,
               int32_t* sums);
void unpack_int4(const uint8_t* panels, int64_t count, int64_t inputs, int8_t* to);  // `count` panels of int4
                                                                                     // as panels of int8
void pack_float(const float* w, int64_t outputs, int64_t inputs, float* panels);
void pack_bfloat16(const float* w, int64_t outputs, int64_t inputs, uint16_t* panels);

}  // namespace uwaga
