// Settings of a model, and the names and shapes of its weights, for the C library and Python.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "checkpoints/fields.h"
#include "transformer/positions.h"

namespace uwaga {

constexpr int64_t max_layers = 4096;            // layers of a side
constexpr int64_t max_size = int64_t{1} << 24;  // any size, such as the number of tokens

enum class Tie { all, none, embeddings, decoder };
enum class PositionKind { sinusoidal, learned, relative };

struct RecurrentSettings;  // checkpoints/recurrent_settings.h

struct Settings {
    std::shared_ptr<const RecurrentSettings> recurrent;  // of a recurrent model, which has few of the others;
                                                         // otherwise null
    bool gated = false, pre_norm = false, rms = false, ssru = false, average = false;
    int64_t width = 0, feed_forward = 0, decoder_feed_forward = 0;
    int64_t encoder_layers = 0, encoder_heads = 0, encoder_head_width = 0;
    int64_t decoder_layers = 0, decoder_heads = 0, decoder_head_width = 0;
    int64_t max_length = 0, position_offset = 0, relative_buckets = 0, relative_distance = 0;
    // Of decoder-only models, whose layers, heads and vocabulary are the decoder's.
    bool decoder_only = false, rotary = false, both_norms = false, query_key_norm = false,
         output_projection_bias = true;
    int64_t key_value_heads = 0;
    int64_t average_layers = 0, average_feed_forward = 0;  // of average attention, which no engine runs
    bool average_gate = false;
    int activation = 1;
    double norm_epsilon = 0;
    bool embedding_scale = true, embedding_norm = false, attention_bias = true, feed_forward_bias = true,
         attention_scale = true;
    bool output_bias = false, output_scale = false;
    Tie tie = Tie::all;
    PositionKind positions = PositionKind::sinusoidal;
    Sinusoids sinusoids = Sinusoids::interleaved;
};

// A matrix of the engine: stored weights (outputs, inputs) stacked along the outputs. `parts` are their names
// without
// ".weight", unless they end with it or "_l0", and their outputs.
struct Product {
    std::string name;
    std::vector<std::pair<std::string, int64_t>> parts;
    int64_t inputs;
    bool bias;
    std::vector<int64_t> shape = {};  // of the stored weight, of which this is a block; empty: it is the
                                      // whole weight
    int64_t first = 0, column = 0;    // the block's first output and input

    int64_t outputs() const {
        int64_t sum = 0;
        for (const auto& part : parts) sum += part.second;
        return sum;
    }
};
// Shapes of tensors by name, in the order of files.
using Shapes = std::vector<std::pair<std::string, std::vector<int64_t>>>;

std::string weight_name(const std::string& part);
std::string bias_name(const std::string& part);

// Read the object "model" of a config.json. Throws Failure.
Settings read_settings(const Json& model, const std::string& location);
std::vector<Product> products(const Settings& settings, int64_t source, int64_t target);
// Shapes of the stored tensors that are not matrices, including positions, by name.
Shapes vectors(const Settings& settings, int64_t target);
// Settings for build_model() but for the vocabularies and threads.
std::map<std::string, double> model_settings(const Settings& settings, bool float16_cache);

}  // namespace uwaga
