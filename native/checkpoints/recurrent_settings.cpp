#include "checkpoints/recurrent_settings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace uwaga {

namespace {

using Name = RecurrentSettings::ScoreName;
using Products = std::vector<Product>;

constexpr std::array<std::string_view, 5> families{"cho", "sutskever", "bahdanau", "luong", "gnmt"};

void read_score(Fields& fields, RecurrentSettings& s) {
    s.attends = true;
    const std::string name = fields.text("score", s.family == Family::luong ? "general" : "additive");
    const auto score = std::find(score_names.begin(), score_names.end(), name);
    if (score == score_names.end()) {
        std::string listed;
        for (const std::string_view known : score_names)
            listed += (listed.empty() ? "" : ", ") + std::string(known);
        fields.refuse("score", "must be one of " + listed);
    }
    s.score = static_cast<Name>(score - score_names.begin());
    if (s.family == Family::bahdanau && s.score >= Name::dot)
        fields.refuse("score", "needs states and annotations of one width");
}

void read_luong(Fields& fields, RecurrentSettings& s) {
    s.locality = static_cast<Locality>(fields.choice("attention", {"global", "local-m", "local-p"}));
    if (fields.has("window")) s.window = fields.integer("window", 1, max_size);
    if ((s.locality == Locality::global) != (s.window == 0))
        fields.refuse("window", "belongs to local attention, which needs it");
    s.input_feeding = fields.boolean("input_feeding", true);
    s.bidirectional = fields.boolean("bidirectional", false);
    if (s.bidirectional && (s.reverse || s.hidden % 2))
        fields.refuse("bidirectional", "needs reverse: false and an even hidden");
}

void add(Products& products, const std::string& name, const std::string& stored, int64_t outputs,
         int64_t inputs, bool bias) {
    products.push_back({name, {{stored, outputs}}, inputs, bias});
}

void add_block(Products& products, const std::string& name, const std::string& stored, int64_t outputs,
               int64_t inputs, bool bias, std::vector<int64_t> shape, int64_t first, int64_t column) {
    products.push_back({name, {{stored, outputs}}, inputs, bias, std::move(shape), first, column});
}

void add_unit(Products& products, const std::string& name, const std::string& stored, int64_t inputs,
              int64_t units, int64_t gates, bool paper_gru = false) {
    const std::string states = stored + ".layer.weight_hh_l0";
    add(products, name + ".inputs", stored + ".layer.weight_ih_l0", gates * units, inputs, true);
    if (!paper_gru) return add(products, name + ".states", states, gates * units, units, true);
    add_block(products, name + ".states", states, 2 * units, units, true, {gates * units, units}, 0, 0);
    add_block(products, name + ".candidate", states, units, units, true, {gates * units, units}, 2 * units,
              0);
}

void add_encoder(Products& products, const RecurrentSettings& s) {
    const int64_t words = s.embedding, units = s.hidden;
    if (s.family == Family::cho)
        return add_unit(products, "encoder.0.ahead", "encoder", words, units, 3, s.paper_gru);
    if (s.family == Family::bahdanau) {
        add_unit(products, "encoder.0.ahead", "forward_encoder", words, units, 3, s.paper_gru);
        return add_unit(products, "encoder.0.back", "backward_encoder", words, units, 3, s.paper_gru);
    }
    if (s.family == Family::gnmt) {
        for (const std::string side : {"ahead", "back"})
            add_unit(products, "encoder.0." + side, side, words, units, 4);
    }
    for (int64_t l = s.family == Family::gnmt ? 1 : 0; l < s.encoder_layers; ++l) {
        const std::string prefix = "encoder." + std::to_string(l) + ".",
                          below = std::to_string(s.family == Family::gnmt ? l - 1 : l);
        const int64_t width = l > 1 || (l == 1 && s.family != Family::gnmt) ? units
                              : l == 1                                      ? 2 * units
                                                                            : words;
        if (s.bidirectional && s.family == Family::luong) {
            for (const std::string side : {"ahead", "back"})
                add_unit(products, prefix + side, "encoder." + side + "." + below, width, units / 2, 4);
        } else {
            add_unit(products, prefix + "ahead", "encoder.layers." + below, width, units, 4);
        }
    }
}

void add_decoder(Products& products, const RecurrentSettings& s) {
    const int64_t words = s.embedding, units = s.hidden, width = s.annotations();
    const int64_t context = s.family == Family::cho ? units : width;
    if (s.family == Family::cho) {
        add(products, "summary", "summary", units, units, true);
        add(products, "bridge", "bridge", units, units, true);
        const std::vector<int64_t> shape{3 * units, words + units};
        add_block(products, "decoder.0.inputs", "decoder.layer.weight_ih_l0", 3 * units, words, true, shape,
                  0, 0);
        add_block(products, "decoder.0.beside", "decoder.layer.weight_ih_l0", 3 * units, units, false, shape,
                  0, words);
        add(products, "decoder.0.states", "decoder.layer.weight_hh_l0", 3 * units, units, true);
    } else if (s.family == Family::bahdanau) {
        add(products, "bridge", "bridge", units, units, true);
        if (s.conditional) add_unit(products, "decoder.0", "inner", words, units, 3, s.paper_gru);
        add_unit(products, s.conditional ? "decoder.1" : "decoder.0", "decoder",
                 s.conditional ? width : words + width, units, 3, s.paper_gru);
    } else if (s.family == Family::gnmt) {
        add_unit(products, "decoder.0", "bottom", words + units, units, 4);
        for (int64_t l = 1; l < s.decoder_layers; ++l)
            add_unit(products, "decoder." + std::to_string(l), "upper.layers." + std::to_string(l - 1),
                     2 * units, units, 4);
    } else {
        for (int64_t l = 0; l < s.decoder_layers; ++l) {
            const std::string layer = std::to_string(l);
            add_unit(products, "decoder." + layer, "decoder.layers." + layer,
                     l ? units : words + (s.input_feeding ? units : 0), units, 4);
        }
        if (s.family == Family::luong) add(products, "combine", "combine", units, 2 * units, false);
    }
    if (s.family == Family::cho || s.family == Family::bahdanau)
        add(products, "read_out", "read_out.inner", 2 * s.features, units + words + context, true);
}

void add_score(Products& products, const RecurrentSettings& s) {
    const int64_t units = s.hidden, width = s.annotations();
    const std::vector<int64_t> joint{units, width + units};
    switch (s.score) {
        case Name::general: return add(products, "score.key", "score.weight.weight", units, width, false);
        case Name::location:
            return add(products, "score.query", "score.weight.weight", s.max_length, units, false);
        case Name::additive:
            add(products, "score.key", "score.key", units, width, false);
            return add(products, "score.query", "score.query", units, units, false);
        case Name::additive_joint:  // W [h; s]
            add_block(products, "score.key", "score.weight.weight", units, width, false, joint, 0, 0);
            return add_block(products, "score.query", "score.weight.weight", units, units, false, joint, 0,
                             width);
        case Name::concat:  // W [s; h]
            add_block(products, "score.key", "score.weight", units, width, false, joint, 0, units);
            return add_block(products, "score.query", "score.weight", units, units, false, joint, 0, 0);
        case Name::dot:
        case Name::scaled_dot: return;
    }
}

Score kind_of(const RecurrentSettings& s) {
    if (!s.attends) return Score::none;
    if (s.score == Name::location) return Score::location;
    return s.score <= Name::concat ? Score::additive : Score::dot;
}

}  // namespace

bool is_recurrent(const std::string& family) {
    return std::find(families.begin(), families.end(), family) != families.end();
}

RecurrentSettings read_recurrent(Fields& fields, const std::string& family) {
    RecurrentSettings s;
    s.family = static_cast<Family>(1 +
                                   (std::find(families.begin(), families.end(), family) - families.begin()));
    const bool gnmt = s.family == Family::gnmt, gru = s.family == Family::cho || s.family == Family::bahdanau;
    const int64_t default_embedding = gnmt                           ? 1024
                                      : s.family == Family::cho      ? 100
                                      : s.family == Family::bahdanau ? 620
                                                                     : 1000;
    s.embedding = fields.integer("embedding", 1, max_size, default_embedding);
    s.hidden = s.features = fields.integer("hidden", 1, max_size, gnmt ? 1024 : 1000);
    s.max_length = fields.integer("max_length", 1, max_size, 512);
    s.tie = std::array{Tie::none, Tie::decoder,
                       Tie::all}[static_cast<std::size_t>(fields.choice("tie", {"none", "decoder", "all"}))];
    s.bidirectional = gnmt || s.family == Family::bahdanau;
    fields.ignore({"dropout", "variational"});
    if (gru) {
        s.features = fields.integer("read_out", 1, max_size, 500);
        s.paper_gru = fields.choice("gru", {"paper", "fused"}) == 0;
    } else if (gnmt) {
        s.encoder_layers = fields.integer("encoder_layers", 2, max_layers, 8);
        s.decoder_layers = fields.integer("decoder_layers", 2, max_layers, 8);
    } else {
        s.encoder_layers = s.decoder_layers = fields.integer("layers", 1, max_layers, 4);
    }
    if (s.family == Family::bahdanau &&
        (s.conditional = fields.choice("decoder", {"paper", "conditional"}) == 1))
        s.decoder_layers = 2;
    if (s.family != Family::bahdanau && !gnmt) s.reverse = fields.boolean("reverse", s.family != Family::cho);
    if (s.family != Family::cho && s.family != Family::sutskever) read_score(fields, s);
    if (s.family == Family::luong) read_luong(fields, s);
    if (s.tie != Tie::none && s.embedding != s.features)
        fields.refuse("tie", "shares embeddings and an output layer of different widths");
    return s;
}

std::vector<Product> recurrent_products(const RecurrentSettings& s, int64_t source, int64_t target) {
    Products products;
    add_encoder(products, s);
    add_decoder(products, s);
    if (s.attends) add_score(products, s);
    if (s.locality == Locality::predictive)
        add(products, "window.inner", "window.inner", s.hidden, s.hidden, false);
    add(products, "output", "output_weight", target, s.features, false);
    if (s.tie != Tie::all)
        add(products, "source_embedding", "source_embedding.weight", source, s.embedding, false);
    if (s.tie == Tie::none)
        add(products, "target_embedding", "target_embedding.weight", target, s.embedding, false);
    return products;
}

Shapes recurrent_vectors(const RecurrentSettings& s, int64_t target) {
    Shapes shapes{{"output_bias", {target}}};
    if (kind_of(s) == Score::additive) shapes.push_back({"score.vector", {s.hidden}});
    if (s.locality == Locality::predictive) shapes.push_back({"window.vector", {s.hidden}});
    return shapes;
}

std::map<std::string, double> recurrent_model_settings(const RecurrentSettings& s) {
    const auto real = [](auto value) { return static_cast<double>(value); };
    std::map<std::string, double> settings{
        {"family", real(static_cast<int>(s.family))},
        {"embedding", real(s.embedding)},
        {"hidden", real(s.hidden)},
        {"features", real(s.features)},
        {"max_length", real(s.max_length)},
        {"encoder_layers", real(s.encoder_layers)},
        {"decoder_layers", real(s.decoder_layers)},
        {"bidirectional", s.bidirectional},
        {"reverse", s.reverse},
        {"gru_paper", s.paper_gru},
        {"conditional", s.conditional},
        {"input_feeding", s.input_feeding},
        {"score", real(static_cast<int>(kind_of(s)))},
    };
    if (s.attends) {
        settings["prepared_keys"] = s.score == Name::general;
        settings["score_scale"] = s.score == Name::scaled_dot ? 1 / std::sqrt(real(s.hidden)) : 1.0;
        settings["locality"] = real(static_cast<int>(s.locality));
    }
    if (s.window) settings["window"] = real(s.window);
    return settings;
}

}  // namespace uwaga
