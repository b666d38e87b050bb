#include "checkpoints/recurrent_settings.h"

#include <algorithm>
#include <cmath>

#include "text/affixes.h"

namespace uwaga {

namespace {

constexpr int64_t max_positions = int64_t{1} << 24;  // numbers of a table of positions

void read_transformer(Fields& fields, Settings& s) {
    s.encoder_layers = fields.integer("encoder_layers", 1, max_layers, 6);
    s.decoder_layers = fields.integer("decoder_layers", 1, max_layers, 6);
    s.positions = static_cast<PositionKind>(fields.choice("positions",
                                                          {"sinusoidal", "learned", "relative"}));
    s.sinusoids = static_cast<Sinusoids>(fields.choice("sinusoids",
                                                       {"interleaved", "halves", "tensor2tensor"}));
    s.relative_buckets = fields.integer("relative_buckets", 4, max_size, 32);
    s.relative_distance = fields.integer("relative_distance", 4, max_size, 128);
    const int self_attention = fields.choice("self_attention", {"attention", "ssru", "aan"});
    s.ssru = self_attention == 1;
    s.average = self_attention == 2;
    fields.ignore({"aan_layers", "aan_feed_forward", "aan_activation", "aan_gate"});
    if (s.average) {
        s.average_layers = fields.integer("aan_layers", 1, 16, 2);
        s.average_gate = fields.boolean("aan_gate", true);
        if (fields.has("aan_feed_forward"))
            s.average_feed_forward = fields.integer("aan_feed_forward", 1, max_size);
    }
    if (fields.has("decoder_heads")) s.decoder_heads = fields.integer("decoder_heads", 1, max_size);
    if (fields.has("decoder_feed_forward"))
        s.decoder_feed_forward = fields.integer("decoder_feed_forward", 1, max_size);
    s.output_scale = fields.boolean("output_scale", false);
    s.tie = static_cast<Tie>(fields.choice("tie", {"all", "none", "embeddings", "decoder"}));
    if (s.positions == PositionKind::sinusoidal && s.width % 2)
        fields.refuse("width", "must be even with sinusoidal positions");
    if (s.positions == PositionKind::relative && s.relative_distance <= s.relative_buckets / 2)
        fields.refuse("relative_distance", "must be more than half of relative_buckets");
    if (s.positions == PositionKind::relative && (s.ssru || s.average))
        fields.refuse("positions", "relative positions need self_attention: attention");
}

void read_decoder_only(Fields& fields, Settings& s) {
    s.decoder_only = true;
    s.decoder_layers = fields.integer("layers", 1, max_layers, 12);
    s.rotary = fields.choice("positions", {"learned", "rotary"}) == 1;
    s.positions = PositionKind::learned;
    s.key_value_heads = fields.has("key_value_heads") ? fields.integer("key_value_heads", 1, max_size)
                                                      : s.encoder_heads;
    s.query_key_norm = fields.choice("query_key_norm", {"none", "before", "after"}) != 0;
    s.output_projection_bias = fields.has("output_projection_bias") ? fields.boolean("output_projection_bias")
                                                                    : s.attention_bias;
    s.tie = fields.boolean("tie_output", true) ? Tie::all : Tie::none;
    fields.ignore({"rotary", "local_rotary", "window", "global_every", "score_scale", "score_cap",
                   "logit_cap"});
}

int64_t width_of_heads(const Fields& fields, int64_t width, int64_t heads) {
    if (width % heads) fields.refuse("width", "is not a multiple of the heads");
    return width / heads;
}

using Products = std::vector<Product>;

void add(Products& products, const std::string& name, int64_t outputs, int64_t inputs, bool bias) {
    products.push_back({name, {{name, outputs}}, inputs, bias});
}

void add_attention(Products& products, const std::string& name, int64_t width, int64_t inner,
                   int64_t key_value, bool bias, bool output_bias) {
    products.push_back({name + ".query_key_value",
                        {{name + ".query", inner}, {name + ".key_value", key_value}},
                        width,
                        bias});
    add(products, name + ".output", width, inner, output_bias);
}

void add_feed_forward(Products& products, const std::string& name, const Settings& s, int64_t inner) {
    add(products, name + ".inner", inner, s.width, s.feed_forward_bias);
    if (s.gated) add(products, name + ".gate", inner, s.width, s.feed_forward_bias);
    add(products, name + ".outer", s.width, inner, s.feed_forward_bias);
}

void add_average(Products& products, const std::string& name, const Settings& s) {
    const int64_t inner = s.average_feed_forward ? s.average_feed_forward : s.decoder_feed_forward;
    int64_t width = s.width;
    // The last matrix maps to the model's width, unless the vectors have it already.
    for (int64_t l = 0; l + 1 < s.average_layers || width != s.width; ++l) {
        const int64_t outputs = l + 1 < s.average_layers ? inner : s.width;
        add(products, name + ".layers." + std::to_string(l), outputs, width, true);
        width = outputs;
    }
    if (s.average_gate) {
        for (const char* const gate : {".input_gate", ".forget_gate"})
            add(products, name + gate, s.width, s.width, true);
    }
}

Products decoder_only_products(const Settings& s, int64_t vocabulary) {
    Products products;
    const int64_t inner = s.decoder_heads * s.decoder_head_width,
                  key_value = 2 * s.key_value_heads * s.decoder_head_width;
    for (int64_t l = 0; l < s.decoder_layers; ++l) {
        const std::string prefix = "decoder." + std::to_string(l);
        add_attention(products, prefix + ".attention", s.width, inner, key_value, s.attention_bias,
                      s.output_projection_bias);
        add_feed_forward(products, prefix + ".feed_forward", s, s.feed_forward);
    }
    products.push_back({"output", {{"output_weight", vocabulary}}, s.width, false});
    if (s.tie == Tie::none)
        products.push_back({"target_embedding", {{"embedding.weight", vocabulary}}, s.width, false});
    return products;
}

}  // namespace

std::string weight_name(const std::string& part) {
    return ends_with(part, "weight") || ends_with(part, "_l0") ? part : part + ".weight";
}

std::string bias_name(const std::string& part) {
    if (!ends_with(part, "_l0")) return part + ".bias";
    std::string name = part;
    return name.replace(name.rfind("weight"), 6, "bias");
}

Settings read_settings(const Json& model, const std::string& location) {
    Fields fields(model, location + ": model.", Fault::model);
    Settings s;
    const std::string family = fields.text("family");
    if (is_recurrent(family)) {
        s.recurrent = std::make_shared<const RecurrentSettings>(read_recurrent(fields, family));
        fields.check_all_used();
        s.tie = s.recurrent->tie;
        s.encoder_layers = s.recurrent->encoder_layers;
        s.decoder_layers = s.decoder_heads = 1;  // of attention
        return s;
    }
    if (family != "transformer" && family != "decoder-only")
        fields.refuse("family", "'" + family.substr(0, 60) +
                                    "' cannot run here; Transformers and recurrent models can");
    s.width = fields.integer("width", 1, max_size, 512);
    s.encoder_heads = fields.integer("heads", 1, max_size, 8);
    s.feed_forward = fields.integer("feed_forward", 1, max_size, 2048);
    s.activation = 1 + fields.choice("activation", {"relu", "gelu", "gelu_tanh", "silu"});
    s.gated = fields.boolean("gated", false);
    const int norm = fields.choice("norm", {"post", "pre", "both"});
    s.pre_norm = norm != 0;
    s.both_norms = norm == 2;
    if (s.both_norms && family == "transformer") fields.refuse("norm", "must be one of post, pre");
    s.max_length = fields.integer("max_length", 1, max_positions, 512);
    s.position_offset = fields.integer("position_offset", 0, max_positions, 0);
    s.embedding_scale = fields.boolean("embedding_scale", true);
    s.embedding_norm = fields.boolean("embedding_norm", false);
    s.rms = fields.choice("norm_kind", {"layer", "rms"}) == 1;
    s.norm_epsilon = fields.number("norm_epsilon", 1e-300, 1e300, 1e-5);
    s.attention_bias = fields.boolean("attention_bias", true);
    s.feed_forward_bias = fields.boolean("feed_forward_bias", true);
    s.attention_scale = fields.boolean("attention_scale", true);
    s.output_bias = fields.boolean("output_bias", false);
    fields.ignore({"dropout", "attention_dropout", "activation_dropout"});
    const int64_t head_width = fields.has("head_width") ? fields.integer("head_width", 1, max_size) : 0;
    if (family == "transformer") {
        read_transformer(fields, s);
    } else {
        read_decoder_only(fields, s);
    }
    fields.check_all_used();
    if (!s.decoder_heads) s.decoder_heads = s.encoder_heads;
    if (!s.decoder_feed_forward) s.decoder_feed_forward = s.feed_forward;
    s.encoder_head_width = head_width ? head_width : width_of_heads(fields, s.width, s.encoder_heads);
    s.decoder_head_width = head_width ? head_width : width_of_heads(fields, s.width, s.decoder_heads);
    for (const int64_t inner :
         {s.encoder_heads * s.encoder_head_width, s.decoder_heads * s.decoder_head_width}) {
        if (inner > max_size) fields.refuse("heads", "are too many for their width");
    }
    if (s.positions == PositionKind::relative &&
        s.relative_distance > max_positions / (2 * std::max(s.encoder_heads, s.decoder_heads) + 1))
        fields.refuse("relative_distance", "needs too large a table of positions");
    if (s.positions != PositionKind::relative && !s.decoder_only &&
        (s.max_length + s.position_offset) > max_positions / s.width)
        fields.refuse("max_length", "needs too large a table of positions");
    return s;
}

std::vector<Product> products(const Settings& s, int64_t source, int64_t target) {
    if (s.recurrent) return recurrent_products(*s.recurrent, source, target);
    if (s.decoder_only) return decoder_only_products(s, target);
    Products products;
    int64_t inner = s.encoder_heads * s.encoder_head_width;
    for (int64_t l = 0; l < s.encoder_layers; ++l) {
        const std::string prefix = "encoder." + std::to_string(l);
        add_attention(products, prefix + ".attention", s.width, inner, 2 * inner, s.attention_bias,
                      s.attention_bias);
        add_feed_forward(products, prefix + ".feed_forward", s, s.feed_forward);
    }
    inner = s.decoder_heads * s.decoder_head_width;
    for (int64_t l = 0; l < s.decoder_layers; ++l) {
        const std::string prefix = "decoder." + std::to_string(l);
        if (s.ssru) {
            add(products, prefix + ".ssru.forget", s.width, s.width, true);
            add(products, prefix + ".ssru.input", s.width, s.width, false);
        } else if (s.average) {
            add_average(products, prefix + ".aan", s);
        } else {
            add_attention(products, prefix + ".self_attention", s.width, inner, 2 * inner, s.attention_bias,
                          s.attention_bias);
        }
        add(products, prefix + ".cross_attention.query", inner, s.width, s.attention_bias);
        add(products, prefix + ".cross_attention.key_value", 2 * inner, s.width, s.attention_bias);
        add(products, prefix + ".cross_attention.output", s.width, inner, s.attention_bias);
        add_feed_forward(products, prefix + ".feed_forward", s, s.decoder_feed_forward);
    }
    products.push_back({"output", {{"output_weight", target}}, s.width, false});
    if (s.tie != Tie::all) {
        products.push_back({"source_embedding", {{"source_embedding.weight", source}}, s.width, false});
        if (s.tie == Tie::none)
            products.push_back({"target_embedding", {{"target_embedding.weight", target}}, s.width, false});
    }
    return products;
}

Shapes vectors(const Settings& s, int64_t target) {
    if (s.recurrent) return recurrent_vectors(*s.recurrent, target);
    Shapes shapes;
    const auto add_norm = [&](const std::string& name) {
        shapes.push_back({name + ".weight", {s.width}});
        if (!s.rms) shapes.push_back({name + ".bias", {s.width}});
    };
    const auto add_norms = [&](const std::string& stack, int64_t layers,
                               std::initializer_list<const char*> blocks) {
        for (int64_t l = 0; l < layers; ++l) {
            for (const char* const block : blocks) add_norm(stack + "." + std::to_string(l) + block);
        }
    };
    const int64_t rows = s.max_length + s.position_offset;
    if (s.decoder_only) {
        if (!s.rotary) shapes.push_back({"positions.weight", {rows, s.width}});
        if (s.both_norms) {
            add_norms("decoder", s.decoder_layers,
                      {".attention_norm", ".feed_forward_norm", ".attention_after_norm",
                       ".feed_forward_after_norm"});
        } else {
            add_norms("decoder", s.decoder_layers, {".attention_norm", ".feed_forward_norm"});
        }
        if (s.pre_norm) add_norm("decoder_norm");
        if (s.embedding_norm) add_norm("embedding_norm");
        for (int64_t l = 0; s.query_key_norm && l < s.decoder_layers; ++l) {
            for (const char* const part : {".query_norm", ".key_norm"})
                shapes.push_back({"decoder." + std::to_string(l) + ".attention" + part + ".weight",
                                  {s.decoder_head_width}});
        }
    } else {
        for (const auto& [side, heads] :
             {std::pair<std::string, int64_t>("source", s.encoder_heads), {"target", s.decoder_heads}}) {
            if (s.positions == PositionKind::learned)
                shapes.push_back({side + "_positions.weight", {rows, s.width}});
            if (s.positions == PositionKind::relative)
                shapes.push_back({side + "_positions.weight", {s.relative_buckets, heads}});
        }
        add_norms("encoder", s.encoder_layers, {".attention_norm", ".feed_forward_norm"});
        add_norms("decoder", s.decoder_layers,
                  {".self_attention_norm", ".cross_attention_norm", ".feed_forward_norm"});
        for (const char* const stack : {"encoder_norm", "decoder_norm"}) {
            if (s.pre_norm) add_norm(stack);
        }
        for (const char* const side : {"source_norm", "target_norm"}) {
            if (s.embedding_norm) add_norm(side);
        }
    }
    if (s.output_bias) shapes.push_back({"output_bias", {target}});
    return shapes;
}

std::map<std::string, double> model_settings(const Settings& s, bool float16_cache) {
    if (s.recurrent) return recurrent_model_settings(*s.recurrent);
    const bool relative = s.positions == PositionKind::relative;
    const auto real = [](int64_t value) { return static_cast<double>(value); };
    const auto scale = [&](int64_t width) { return s.attention_scale ? 1 / std::sqrt(real(width)) : 1.0; };
    return {
        {"width", real(s.width)},
        {"max_length", relative ? 2147483647.0 : real(s.max_length)},
        {"encoder_layers", real(s.encoder_layers)},
        {"decoder_layers", real(s.decoder_layers)},
        {"encoder_heads", real(s.encoder_heads)},
        {"encoder_head_width", real(s.encoder_head_width)},
        {"decoder_heads", real(s.decoder_heads)},
        {"decoder_head_width", real(s.decoder_head_width)},
        {"max_distance", relative ? real(s.relative_distance) : 0},
        {"pre_norm", s.pre_norm},
        {"rms", s.rms},
        {"gated", s.gated},
        {"recurrent", s.ssru},
        {"float16_cache", float16_cache},
        {"epsilon", s.norm_epsilon},
        {"embedding_scale", s.embedding_scale ? std::sqrt(real(s.width)) : 1.0},
        {"output_scale", s.output_scale ? 1 / std::sqrt(real(s.width)) : 1.0},
        {"encoder_scale", scale(s.encoder_head_width)},
        {"decoder_scale", scale(s.decoder_head_width)},
        {"activation", real(s.activation)},
    };
}

}  // namespace uwaga
