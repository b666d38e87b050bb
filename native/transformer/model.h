// The Transformer's weights and shape: read-only once built, shared by all threads.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/buffer.h"
#include "runtime/pages.h"
#include "runtime/workers.h"
#include "runtime/workspace.h"
#include "transformer/prompt_cache.h"
#include "transformer/edits.h"
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
struct BlockNorms {  // of a block f: `before` in pre-norm models, `after` in post-norm ones, or both
    Norm before, after;
};
struct FeedForward {
    Linear inner, gate, outer;  // gate: in gated models only
    BlockNorms norm;
};
struct EncoderLayer {
    Linear query_key_value, self_output;
    BlockNorms self_norm;
    FeedForward feed_forward;
};
constexpr int64_t no_window = INT64_MAX;
struct DecoderLayer {
    Linear query_key_value, self_output;  // not in a recurrent model
    Linear forget, input;                 // in a recurrent model only
    BlockNorms self_norm;
    const float *query_norm = nullptr, *key_norm = nullptr;  // gains of the RMS norms of each head, or null
    int64_t window = no_window;                              // positions that a query sees, itself included
    int64_t rotary = -1;                    // index of the model's rotary positions; negative: none
    Linear query, key_value, cross_output;  // not in a decoder-only model
    BlockNorms cross_norm;
    FeedForward feed_forward;
};
struct Rotary {                       // rotary positions (Su et al. 2021)
    std::vector<double> frequencies;  // (head width / 2,) angles by which one position turns each pair
    double factor = 1;                // of rotated queries and keys
};
struct Side {  // source or target
    Matrix embedding;
    const float* positions = nullptr;      // (max_length, width) or null
    const float* relative_bias = nullptr;  // (heads, 2 * max_distance + 1): score bias by key - query, or
                                           // null
    Norm norm;                             // after the embeddings; optional
};

struct Heads {
    int64_t count = 0, width = 0;
    float scale = 1;    // factor of the attention scores
    int64_t group = 1;  // query heads per head of keys and values
    float cap = 0;      // scores become cap * tanh(score / cap); 0: no cap

    int64_t inner() const { return count * width; }
    int64_t key_width() const { return count / group * width; }  // elements of a key, and of its value
    int64_t projected_width() const { return inner() + 2 * key_width(); }  // query | key | value
};

struct Shape {
    int64_t width = 0, max_length = 0;
    Heads encoder, decoder;
    int64_t shared_width = 0;  // minimum width at which sharing a matrix is worth the threads' waiting
    int64_t max_distance = 0;  // largest relative distance with its own bias; longer ones share it
    bool pre_norm = false, rms = false, float16_cache = false;
    bool norm_rotated = false;  // queries and keys are normalised after their rotation
    bool recurrent = false;  // the decoder has cells instead of self-attention: SSRU, or those of a network
    float epsilon = 1e-5f, embedding_scale = 1, output_scale = 1;
    float logit_cap = 0;  // 0: none
    Activation activation = Activation::relu;
};

struct Network;  // recurrent/network.h

// The weights of a model; a copy shares the matrices and vectors.
struct Weights {
    Shape shape;
    const Kernels* kernels = nullptr;
    Side source, target;
    std::vector<EncoderLayer> encoder;
    std::vector<DecoderLayer> decoder;
    std::vector<Rotary> rotary;
    Norm encoder_norm, decoder_norm;  // in pre-norm models only
    Matrix output_weight;
    const float* output_bias = nullptr;
    int64_t output_terms = 1;  // of the output layer's quantised rows
    int64_t source_vocabulary = 0, target_vocabulary = 0;
    int64_t cells = 0;                       // recurrent state per row: numbers
    std::shared_ptr<const Network> network;  // of a recurrent encoder-decoder, which has no layers here;
                                             // otherwise null
};

struct Model : Weights {
    std::vector<Buffer<float>> vectors;  // memory behind the pointers above; an edited model shares that of
                                         // `base`
    std::shared_ptr<const Model> base;   // the model that an edited model was created from
    std::unique_ptr<const Edits> edits;  // null: none
    mutable PagePool pages, chunks;
    mutable PromptCache prompt_cache;  // prompts of a decoder-only model; stored in the pages
    mutable WorkspacePool workspaces;
    mutable Workers workers;

    bool has_source() const { return source_vocabulary > 0; }  // otherwise decoder-only: continues prompts
    // Bytes per key or value element.
    int64_t cache_element_size() const { return shape.float16_cache ? 2 : 4; }
    // Elements of a key and its value.
    int64_t key_value_width() const { return 2 * shape.decoder.key_width(); }
    LogitEpilogue logits(int64_t first = 0) const {
        return {output_bias ? output_bias + first : nullptr, shape.logit_cap};
    }
    int64_t cells_width() const { return cells; }
    int64_t cross_layers() const;  // layers of cross-attention
};

constexpr int64_t group_rows = 256;  // tokens encoded together, unless a single sentence has more

using ModelPtr = std::shared_ptr<const Model>;

}  // namespace uwaga
