// The Transformer's weights and shape: read-only once built, shared by all threads.
#pragma once

#include <memory>
#include <vector>

#include "runtime/buffer.h"
#include "runtime/pages.h"
#include "runtime/workers.h"
#include "runtime/workspace.h"
#include "transformer/matrix.h"

namespace uwaga {

struct Linear {
    Matrix weight;
    const float* bias = nullptr;
};
struct Norm {
    const float* gain = nullptr;
    const float* bias = nullptr;
};
struct FeedForward {
    Linear inner, gate, outer;  // gate is none unless the model is gated
    Norm norm;
};
struct EncoderLayer {
    Linear query_key_value, self_output;
    Norm self_norm;
    FeedForward feed_forward;
};
struct DecoderLayer {
    Linear query_key_value, self_output;  // none in a recurrent model
    Linear forget, input;                 // of a recurrent model alone
    Norm self_norm;
    Linear query, key_value, cross_output;  // none in a decoder-only model
    Norm cross_norm;
    FeedForward feed_forward;
};
struct Side {  // source or target
    Matrix embedding;
    const float* positions = nullptr;      // (max_length, width) or null
    const float* relative_bias = nullptr;  // (heads, 2 * max_distance + 1): bias of the scores by key - query, or null
    Norm norm;                             // after the embeddings, or none
};

struct Heads {
    int64_t count = 0, width = 0;
    float scale = 1;  // of the scores

    int64_t inner() const { return count * width; }
};

struct Shape {
    int64_t width = 0, max_length = 0;
    Heads encoder, decoder;
    int64_t shared_width = 0;  // of a model whose matrices are worth the threads' waiting for each other
    int64_t max_distance = 0;  // of relative positions: those further away are alike
    bool pre_norm = false, rms = false, float16_cache = false;
    bool recurrent = false;  // the decoder has simpler simple recurrent units in the place of self-attention
    float epsilon = 1e-5f, embedding_scale = 1, output_scale = 1;
    Activation activation = Activation::relu;
};

struct Model {
    Shape shape;
    const Kernels* kernels = nullptr;
    Side source, target;
    std::vector<EncoderLayer> encoder;
    std::vector<DecoderLayer> decoder;
    Norm encoder_norm, decoder_norm;  // of pre-norm models
    Matrix output_weight;
    const float* output_bias = nullptr;
    int64_t source_vocabulary = 0, target_vocabulary = 0;

    std::vector<Buffer<float>> vectors;  // what the pointers above point into
    mutable PagePool pages, chunks;
    mutable WorkspacePool workspaces;
    mutable Workers workers;

    bool has_source() const { return source_vocabulary > 0; }  // or it is decoder-only and continues prompts
    int64_t cache_element_size() const { return shape.float16_cache ? 2 : 4; }     // bytes of a key's or value's number
    int64_t key_value_width() const { return 2 * shape.decoder.inner(); }          // numbers of one key and value
    int64_t cells_width() const { return shape.recurrent ? static_cast<int64_t>(decoder.size()) * shape.width : 0; }  // of a row
};

constexpr int64_t group_rows = 256;  // tokens that are encoded together, unless one sentence has more

using ModelPtr = std::shared_ptr<const Model>;

}  // namespace uwaga
