// Builds a recurrent model from its settings and named weights.
#include <stdexcept>

#include "recurrent/network.h"

namespace uwaga {

namespace {

// An option of a closed set: 0 to `last`, or to be refused.
template <class Option>
Option option(PartReader& parts, const std::string& name, Option first, Option last) {
    const int64_t value = parts.integer(name, static_cast<int64_t>(first));
    if (value > static_cast<int64_t>(last)) throw std::invalid_argument(name + ": unknown value");
    return static_cast<Option>(value);
}

Unit unit(PartReader& parts, const std::string& name, int64_t inputs, int64_t units, bool lstm,
          bool paper = false) {
    Unit result;
    result.units = units;
    result.lstm = lstm;
    result.inputs = parts.linear(name + ".inputs", result.gates(), inputs);
    result.states = parts.linear(name + ".states", paper ? 2 * units : result.gates(), units);
    if (paper) result.candidate = parts.linear(name + ".candidate", units, units);
    return result;
}

void build_encoder(RecurrentNetwork& net, PartReader& parts, bool lstm, bool paper) {
    const int64_t layers = parts.integer("encoder_layers", 1), gnmt = net.family == Family::gnmt;
    const bool bidirectional = parts.integer("bidirectional", 0),
               divided = bidirectional && net.family == Family::luong;
    if (divided && net.units % 2) throw std::invalid_argument("hidden: two directions need an even number");
    int64_t inputs = net.embedding;
    for (int64_t l = 0; l < layers; ++l) {
        const std::string prefix = "encoder." + std::to_string(l) + ".";
        const int64_t units = divided ? net.units / 2 : net.units;
        EncoderStage stage;
        stage.forward = unit(parts, prefix + "ahead", inputs, units, lstm, paper);
        if (bidirectional && (l == 0 || !gnmt))
            stage.backward = unit(parts, prefix + "back", inputs, units, lstm, paper);
        stage.residual = gnmt && l > 1;
        inputs = stage.width();
        net.encoder.push_back(stage);
    }
}

void build_decoder(RecurrentNetwork& net, PartReader& parts, bool lstm, bool paper, int64_t features) {
    const int64_t layers = parts.integer("decoder_layers", 1), units = net.units, words = net.embedding;
    for (int64_t l = 0; l < layers; ++l) {
        int64_t inputs = l ? units : words;
        if (net.family == Family::luong && l == 0 && net.input_feeding) inputs += units;
        if (net.family == Family::gnmt) inputs += net.values;
        if (net.family == Family::bahdanau)
            inputs = net.conditional ? (l ? net.values : words) : words + net.values;
        net.decoder.push_back(unit(parts, "decoder." + std::to_string(l), inputs, units, lstm,
                                   paper && net.family == Family::bahdanau));
    }
    if (net.family == Family::bahdanau && layers != (net.conditional ? 2 : 1))
        throw std::invalid_argument("decoder_layers: out of range");
    if (net.family == Family::cho && layers != 1) throw std::invalid_argument("decoder_layers: out of range");
    if (net.family == Family::luong) net.combine = parts.linear("combine", units, net.values + units);
    if (net.family == Family::cho || net.family == Family::bahdanau) {
        net.bridge = parts.linear("bridge", units, units);
        net.read_out = parts.linear("read_out", 2 * features,
                                    units + words + (net.family == Family::cho ? units : net.values));
    }
    if (net.family != Family::cho) return;
    net.summary = parts.linear("summary", units, units);
    net.summary_gates = parts.linear("decoder.0.beside", 3 * units, units);
    net.summary_under_reset = paper;
}

void build_attention(RecurrentNetwork& net, PartReader& parts) {
    net.score.kind = option(parts, "score", Score::none, Score::location);
    const bool attends = net.family != Family::cho && net.family != Family::sutskever;
    if (attends != net.attends()) throw std::invalid_argument("score: unknown value");
    if (!attends) return;
    net.values = net.encoder.back().width();
    if (net.score.kind == Score::additive || parts.integer("prepared_keys", 0)) {
        net.score.key = parts.matrix("score.key", net.units, net.values);
        net.prepared = net.units;
    } else if (net.score.kind == Score::dot && net.values != net.units) {
        throw std::invalid_argument("score: queries and keys differ in width");
    }
    net.score.scale = parts.number("score_scale");
    if (net.score.kind == Score::additive) {
        net.score.query = parts.matrix("score.query", net.units, net.units);
        net.score.vector = parts.vector("score.vector", net.units);
    }
    if (net.score.kind == Score::location)
        net.score.query = parts.matrix("score.query", parts.integer("max_length", 1), net.units);
    net.locality = option(parts, "locality", Locality::global, Locality::predictive);
    if (net.locality != Locality::global) net.reach = parts.integer("window", 1);
    if (net.locality != Locality::predictive) return;
    net.window = parts.matrix("window.inner", net.units, net.units);
    net.window_vector = parts.vector("window.vector", net.units);
}

// The width of a row's cells.
int64_t cells_of(const RecurrentNetwork& net) {
    int64_t cells = net.input_feeding ? net.units : 0;
    for (const Unit& unit : net.decoder) cells += unit.state_width();
    return net.conditional ? net.units : cells;
}

}  // namespace

std::shared_ptr<Network> build_recurrent(const Parts& all_parts) {
    auto network = std::make_shared<RecurrentNetwork>();
    RecurrentNetwork& net = *network;
    PartReader parts(net, all_parts);
    net.family = option(parts, "family", Family::cho, Family::gnmt);
    net.embedding = parts.integer("embedding", 1);
    net.units = parts.integer("hidden", 1);
    net.reversed = parts.integer("reverse", 0);
    net.input_feeding = net.family == Family::luong && parts.integer("input_feeding", 0);
    net.conditional = net.family == Family::bahdanau && parts.integer("conditional", 0);
    net.width = parts.integer("features", 1);
    net.max_length = parts.integer("max_length", 1);
    net.source_vocabulary = parts.integer("source_vocabulary", 1);
    net.target_vocabulary = parts.integer("target_vocabulary", 1);
    net.source_embedding = parts.embedding("source", net.source_vocabulary, net.embedding);
    net.target_embedding = parts.embedding("target", net.target_vocabulary, net.embedding);
    const bool lstm = net.family == Family::sutskever || net.family == Family::luong ||
                      net.family == Family::gnmt;
    const bool paper = !lstm && parts.integer("gru_paper", 0);
    build_encoder(net, parts, lstm, paper);
    build_attention(net, parts);
    build_decoder(net, parts, lstm, paper, net.width);
    net.output_weight = parts.matrix("output", net.target_vocabulary, net.width);
    net.output_bias = parts.optional_vector("output.bias", net.target_vocabulary);
    parts.check_all_used();
    net.cells = cells_of(net);
    net.initial_width = net.family == Family::cho ? 5 * net.units : net.cells;
    net.cross_attention.layers = net.attends() ? 1 : 0;
    net.token_bytes = net.entry_size() * int64_t{sizeof(float)};
    net.row_bytes = 8 * net.cells + 4 * net.initial_width;
    const int64_t chunk = (64 * net.entry_size() + 4 * net.initial_width) * int64_t{sizeof(float)};
    net.pages.configure(chunk, 0);
    net.chunks.configure(chunk, int64_t{4} << 20);
    return network;
}

}  // namespace uwaga
