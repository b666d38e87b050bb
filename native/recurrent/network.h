// Recurrent encoder-decoders (Cho 2014, Sutskever 2014, Bahdanau 2014, Luong 2015, Wu 2016). uwaga.models
// describes each family; the steps here compute the same, one token at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "network/network.h"
#include "network/part_reader.h"

namespace uwaga {

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
    Unit forward, backward;  // backward: in bidirectional layers only
    bool residual = false;   // the input is added to the output

    int64_t width() const { return forward.units + backward.units; }
};
struct ScoreWeights {
    Score kind = Score::none;
    Matrix key, query;  // of the prepared keys and of the query, where the score has them
    const float* vector = nullptr;
    float scale = 1;
};

class RecurrentNetwork : public Network {
  public:
    Memory encode(const std::vector<Tokens>& sources, const std::vector<float*>& attention) const override;
    State start(const Memory& memory, int64_t beams) const override;
    State step(const State& state, const int32_t* tokens, const Request& request,
               const Answer& answer) const override;
    void record(const std::vector<DecoderInput>& inputs, const std::vector<AttentionMatrices>& to,
                const std::optional<CrossHead>& selected) const override;

    bool attends() const { return score.kind != Score::none; }
    int64_t entry_size() const { return values + prepared; }
    // The initial cells of the decoder of an encoded sentence: (cells,).
    const float* initial_cells(const EncodedSentence& sentence) const;

    Family family = Family::cho;
    bool conditional = false, input_feeding = false, reversed = false;
    int64_t embedding = 0, units = 0;
    Matrix source_embedding, target_embedding;
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
};

// Build a network from the settings and weights of checkpoints/recurrent_settings.h. Throws
// std::invalid_argument, which names the setting or the weight.
std::shared_ptr<Network> build_recurrent(const Parts& parts);

}  // namespace uwaga
