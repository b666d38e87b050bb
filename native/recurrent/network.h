// The weights of a recurrent encoder-decoder (Cho 2014, Sutskever 2014, Bahdanau 2014, Luong 2015, Wu 2016),
// and the functions that run it. uwaga.models describes each family; the steps here compute the same, one
// token at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "transformer/record.h"

namespace uwaga {

class PartReader;

enum class Family : int { cho = 1, sutskever = 2, bahdanau = 3, luong = 4, gnmt = 5 };
enum class Score : int { none = 0, dot = 1, additive = 2, location = 3 };
enum class Locality : int { global = 0, monotonic = 1, predictive = 2 };

// A layer of one direction. An LSTM's gates are i, f, g, o, and its state (hidden, cell); a GRU's are r, z,
// n, and its state is hidden. A GRU with a `candidate` matrix multiplies the state by the reset gate before
// the product.
struct Unit {
    Linear inputs, states, candidate;
    int64_t units = 0;
    bool lstm = false;

    int64_t gates() const { return (lstm ? 4 : 3) * units; }
    int64_t state_width() const { return (lstm ? 2 : 1) * units; }
};
struct EncoderStage {
    Unit forward, backward;  // back: in bidirectional layers only
    bool residual = false;   // the input is added to the output

    int64_t width() const { return forward.units + backward.units; }
};
struct ScoreWeights {
    Score kind = Score::none;
    Matrix key, query;  // of the prepared keys and of the query, where the score has them
    const float* vector = nullptr;
    float scale = 1;
};

struct Network {
    Family family = Family::cho;
    bool conditional = false, input_feeding = false, reversed = false;
    int64_t embedding = 0, units = 0;
    std::vector<EncoderStage> encoder;
    std::vector<Unit> decoder;
    Linear summary, bridge;            // c = tanh(summary), s_0 = tanh(bridge)
    Linear summary_gates;              // Cho: of c, for the decoder's gates
    bool summary_under_reset = false;  // Cho: c's share of the candidate is under the reset gate
    Linear combine, read_out;
    ScoreWeights score;
    Locality locality = Locality::global;
    int64_t reach = 0;
    Matrix window;  // of a predictive window
    const float* window_vector = nullptr;

    // A chunk holds (tokens, values | prepared keys), then (sentences, initial_width): the decoder's initial
    // states.
    int64_t values = 0, prepared = 0, initial_width = 0;

    bool attends() const { return score.kind != Score::none; }
    int64_t entry() const { return values + prepared; }
};

// Build the model's network from the settings and weights that checkpoints/recurrent_settings.h lists.
void build_network(Model& model, PartReader& parts);

// Encode sentences; see encode().
Memory encode_network(const ModelPtr& model, const std::vector<std::vector<int32_t>>& sources);
// The initial cells of the decoder of an encoded sentence: (Model::cells_width(),).
const float* initial_cells(const Model& model, const EncodedSentence& sentence);
// Compute a step: see step(). `next` is at the next position already; its cells are written. Only the rows
// numbered in `row_numbers` are computed, or all if it is null; those up to the next number equal the one
// before them.
void step_network(const State& state, State& next, const int32_t* tokens, const Request& request,
                  const Answer& answer, const int64_t* row_numbers, int64_t rows);
// Record the cross-attention (query, key) of each target; see record().
void record_network(const Model& model, const std::vector<DecoderInput>& inputs,
                    const std::vector<float*>& to);

}  // namespace uwaga
