// Settings of a recurrent model, and the names and shapes of its weights.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/settings.h"
#include "recurrent/network.h"

namespace uwaga {

// Attention scores, in the order of ScoreName: those up to concat are of the kind additive, and those from
// dot on need states and annotations of one width.
constexpr std::array<std::string_view, 7> score_names{
    "additive", "additive_joint", "concat", "general", "location", "dot", "scaled_dot"};

struct RecurrentSettings {
    enum class ScoreName { additive, additive_joint, concat, general, location, dot, scaled_dot };

    Family family = Family::cho;
    bool paper_gru = false, reverse = false, bidirectional = false, conditional = false,
         input_feeding = false;
    bool attends = false;
    ScoreName score = ScoreName::additive;
    Locality locality = Locality::global;
    int64_t window = 0, embedding = 0, hidden = 0, features = 0, max_length = 0, encoder_layers = 1,
            decoder_layers = 1;
    Tie tie = Tie::none;

    int64_t annotations() const { return family == Family::bahdanau ? 2 * hidden : hidden; }
};

bool is_recurrent(const std::string& family);
// Read the members of an object "model" of a recurrent family. Throws Failure.
RecurrentSettings read_recurrent(Fields& fields, const std::string& family);
std::vector<Product> recurrent_products(const RecurrentSettings& settings, int64_t source, int64_t target);
Shapes recurrent_vectors(const RecurrentSettings& settings, int64_t target);
std::map<std::string, double> recurrent_model_settings(const RecurrentSettings& settings);

}  // namespace uwaga
