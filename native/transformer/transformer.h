// The Transformer: weights and shape. A decoder may be without a source, or have cells (SSRU) in place of
// self-attention.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "network/network.h"
#include "network/part_reader.h"
#include "transformer/prompt_cache.h"

namespace uwaga {

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
    Heads encoder, decoder;
    int64_t max_distance = 0;  // largest relative distance with its own bias; longer ones share it
    bool pre_norm = false, rms = false, float16_cache = false;
    bool norm_rotated = false;  // queries and keys are normalised after their rotation
    bool ssru = false;          // the decoder has cells instead of self-attention
    float epsilon = 1e-5f, embedding_scale = 1, output_scale = 1;
    Activation activation = Activation::relu;
};

// The weights besides those that every network has; a copy shares the matrices and vectors.
struct TransformerWeights {
    Shape shape;
    Side source, target;
    std::vector<EncoderLayer> encoder;
    std::vector<DecoderLayer> decoder;
    std::vector<Rotary> rotary;
    Norm encoder_norm, decoder_norm;  // in pre-norm models only
};

class Transformer : public Network, public TransformerWeights {
  public:
    Memory encode(const std::vector<Tokens>& sources, const std::vector<float*>& attention) const override;
    State start(const Memory& memory, int64_t beams) const override;
    State step(const State& state, const int32_t* tokens, const Request& request,
               const Answer& answer) const override;
    State verify(const State& state, const std::vector<int64_t>& first, const int32_t* tokens,
                 const Request& request, const Answer& answer) const override;
    // Cells must be computed one after the other; the tables of edits may end before a draft does.
    bool can_verify() const override { return !shape.ssru && !edits; }
    void record(const std::vector<DecoderInput>& inputs, const std::vector<AttentionMatrices>& to,
                const std::optional<CrossHead>& selected) const override;

    void check(const Edits& edits) const override;
    NetworkPtr edited(Edits edits, void (*check_interrupt)()) const override;
    Memory adopt(const Memory& memory) const override;
    std::vector<NamedArray> insight_arrays(int64_t source, int64_t target,
                                           const std::vector<std::string>& selection) const override;
    std::vector<NamedArray> insight(const Tokens& source, const Tokens& target,
                                    const std::vector<std::string>& selection, int64_t bound) const override;
    int64_t cached_tokens() const override { return prompt_cache.cached_tokens(); }

    // Bytes per key or value element.
    int64_t cache_element_size() const { return shape.float16_cache ? 2 : 4; }
    // Elements of a key and its value.
    int64_t key_value_width() const { return 2 * shape.decoder.key_width(); }
    void configure_pools();  // set the sizes of the pages of keys and values

    std::shared_ptr<const Transformer> base;  // the Transformer that an edited one was created from
    std::unique_ptr<const Edits> edits;       // null: none
    mutable PromptCache prompt_cache;         // of a decoder-only model; stored in the pages
};

constexpr int64_t group_rows = 256;  // tokens encoded together, unless a single sentence has more

// Throws std::invalid_argument, which names the setting or the weight.
std::shared_ptr<Network> build_transformer(const Parts& parts);

}  // namespace uwaga
