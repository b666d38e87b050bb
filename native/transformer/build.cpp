// Builds a Transformer from its settings and named weights.
#include "network/part_reader.h"
#include "transformer/transformer.h"

namespace uwaga {

namespace {

class Builder : private PartReader {
  public:
    Builder(Transformer& model, const Parts& parts) : PartReader(model, parts), model_(model) {}

    void build() {
        read_shape();
        const Shape& shape = model_.shape;
        if (model_.has_source()) {
            model_.source = side("source", model_.source_vocabulary, shape.encoder.count);
            for (int64_t l = 0; l < integer("encoder_layers", 1); ++l)
                model_.encoder.push_back(encoder_layer("encoder." + std::to_string(l) + "."));
            if (shape.pre_norm) model_.encoder_norm = norm("encoder_norm");
        }
        model_.target = side("target", model_.target_vocabulary, shape.decoder.count);
        for (int64_t l = 0; l < integer("decoder_layers", 1); ++l)
            model_.decoder.push_back(decoder_layer("decoder." + std::to_string(l) + "."));
        if (shape.pre_norm) model_.decoder_norm = norm("decoder_norm");
        model_.output_weight = matrix("output", model_.target_vocabulary, model_.width);
        model_.output_bias = optional_vector("output.bias", model_.target_vocabulary);
        check_all_used();
        link_prefetches();
        if (shape.ssru) model_.cells = static_cast<int64_t>(model_.decoder.size()) * model_.width;
        model_.token_bytes = model_.key_value_width() * static_cast<int64_t>(model_.decoder.size()) *
                             model_.cache_element_size();
        model_.row_bytes = 8 * model_.cells;
        model_.encoder_attention = {static_cast<int64_t>(model_.encoder.size()), shape.encoder.count};
        if (!shape.ssru) model_.decoder_attention.layers = static_cast<int64_t>(model_.decoder.size());
        if (model_.has_source()) model_.cross_attention.layers = static_cast<int64_t>(model_.decoder.size());
        model_.decoder_attention.heads = model_.cross_attention.heads = shape.decoder.count;
        model_.configure_pools();
    }

  private:
    void read_shape() {
        Shape& shape = model_.shape;
        model_.width = integer("width", 1);
        model_.max_length = integer("max_length", 1);
        shape.encoder = heads("encoder");
        shape.decoder = heads("decoder");
        shape.max_distance = integer("max_distance", 0);
        model_.shared_width = integer("shared_width", 0);
        shape.pre_norm = integer("pre_norm", 0);
        shape.rms = integer("rms", 0);
        shape.float16_cache = integer("float16_cache", 0);
        shape.ssru = integer("recurrent", 0);
        shape.epsilon = number("epsilon");
        shape.embedding_scale = number("embedding_scale");
        shape.output_scale = number("output_scale");
        shape.activation = static_cast<Activation>(integer("activation", 0));
        if (static_cast<int>(shape.activation) > 4) refuse("activation: unknown value");
        model_.source_vocabulary = integer("source_vocabulary", 0);
        model_.target_vocabulary = integer("target_vocabulary", 1);
        if (!model_.has_source()) read_decoder_only();
    }

    // Settings that only decoder-only models have.
    void read_decoder_only() {
        Shape& shape = model_.shape;
        const int64_t stored = integer("key_value_heads", 1);
        if (shape.decoder.count % stored) refuse("key_value_heads: does not divide the heads");
        shape.decoder.group = shape.decoder.count / stored;
        shape.decoder.cap = number("score_cap");
        model_.logit_cap = number("logit_cap");
        shape.norm_rotated = integer("norm_rotated", 0);
        both_norms_ = integer("both_norms", 0);
        if (both_norms_ && !shape.pre_norm) refuse("both_norms: needs pre_norm");
        for (int64_t table = 0; table < integer("rotary", 0); ++table) {
            if (shape.decoder.width % 2) refuse("decoder_head_width: rotary positions need an even one");
            const std::string prefix = "rotary." + std::to_string(table) + ".";
            Rotary rotary;
            rotary.factor = setting(prefix + "factor");
            for (int64_t pair = 0; pair < shape.decoder.width / 2; ++pair)
                rotary.frequencies.push_back(setting(prefix + std::to_string(pair)));
            model_.rotary.push_back(std::move(rotary));
        }
    }

    // The norms of a head's queries and keys, the window and the rotary positions of layer
    // model_.decoder.size().
    void configure_queries_and_keys(const std::string& self, DecoderLayer& layer) {
        const int64_t width = model_.shape.decoder.width,
                      number = static_cast<int64_t>(model_.decoder.size());
        layer.query_norm = optional_vector(self + ".query_norm.weight", width);
        layer.key_norm = optional_vector(self + ".key_norm.weight", width);
        const int64_t window = integer("window", 0), global_every = integer("global_every", 0);
        const bool local = window && !(global_every && (number + 1) % global_every == 0);
        if (local) layer.window = window;
        if (!model_.rotary.empty()) layer.rotary = local ? static_cast<int64_t>(model_.rotary.size()) - 1 : 0;
    }

    EncoderLayer encoder_layer(const std::string& prefix) {
        const int64_t width = model_.width, inner = model_.shape.encoder.inner();
        EncoderLayer layer;
        layer.query_key_value = linear(prefix + "attention.query_key_value", 3 * inner, width);
        layer.self_output = linear(prefix + "attention.output", width, inner);
        layer.self_norm = block_norms(prefix + "attention");
        layer.feed_forward = feed_forward(prefix);
        return layer;
    }

    DecoderLayer decoder_layer(const std::string& prefix) {
        const int64_t width = model_.width, inner = model_.shape.decoder.inner();
        const std::string self = prefix + (model_.has_source() ? "self_attention" : "attention");
        DecoderLayer layer;
        if (model_.shape.ssru) {
            layer.forget = linear(prefix + "ssru.forget", width, width);
            layer.input = linear(prefix + "ssru.input", width, width);
        } else {
            layer.query_key_value = linear(self + ".query_key_value", model_.shape.decoder.projected_width(),
                                           width);
            layer.self_output = linear(self + ".output", width, inner);
        }
        layer.self_norm = block_norms(self);
        if (!model_.has_source()) configure_queries_and_keys(self, layer);
        if (model_.has_source()) {
            layer.query = linear(prefix + "cross_attention.query", inner, width);
            layer.key_value = linear(prefix + "cross_attention.key_value", 2 * inner, width);
            layer.cross_output = linear(prefix + "cross_attention.output", width, inner);
            layer.cross_norm = block_norms(prefix + "cross_attention");
        }
        layer.feed_forward = feed_forward(prefix);
        return layer;
    }

    // Link each quantised matrix to the one that is read after it, because their order in a file differs.
    void link_prefetches() {
        std::vector<Matrix*> matrices;
        const auto add = [&](std::initializer_list<Linear*> linears) {
            for (Linear* linear : linears) {
                if (linear->weight) matrices.push_back(&linear->weight);
            }
        };
        for (EncoderLayer& l : model_.encoder) {
            add({&l.query_key_value, &l.self_output, &l.feed_forward.gate, &l.feed_forward.inner,
                 &l.feed_forward.outer});
        }
        for (DecoderLayer& l : model_.decoder) add({&l.key_value});
        const std::size_t step = matrices.size();
        for (DecoderLayer& l : model_.decoder) {
            add({&l.query_key_value, &l.self_output, &l.forget, &l.input, &l.query, &l.cross_output,
                 &l.feed_forward.gate, &l.feed_forward.inner, &l.feed_forward.outer});
        }
        matrices.push_back(&model_.output_weight);
        choose_output_terms(matrices);
        for (std::size_t i = 0; i < matrices.size(); ++i) {
            const Matrix& next = *matrices[i + 1 < matrices.size() ? i + 1 : step];
            if (!matrices[i]->quantised() || !next.quantised()) continue;
            const bool int8 = next.kind == Matrix::Kind::int8;
            const int64_t size = int8 ? int8_panels_size(next.outputs(), next.inputs())
                                      : int4_panels_size(next.outputs(), next.inputs());
            const void* const panels = int8 ? static_cast<const void*>(next.int8.panels) : next.int4.panels;
            if (matrices[i]->kind == Matrix::Kind::int8) {
                matrices[i]->int8.prefetch = static_cast<const int8_t*>(panels);
                matrices[i]->int8.prefetch_size = size;
            } else {
                matrices[i]->int4.prefetch = static_cast<const uint8_t*>(panels);
                matrices[i]->int4.prefetch_size = size;
            }
        }
    }

    // Rounding the inputs of a decoder-only model's output layer changes its probabilities as much as that of
    // several layers; two terms are worth their time where the output layer is a small part of the model.
    void choose_output_terms(const std::vector<Matrix*>& matrices) {
        const Matrix& output = model_.output_weight;
        if (model_.has_source() || output.kind != Matrix::Kind::int8 || output.inputs() > 16384) return;
        int64_t weights = 0;
        for (const Matrix* matrix : matrices) weights += matrix->outputs() * matrix->inputs();
        if (4 * output.outputs() * output.inputs() <= weights) model_.output_terms = 2;
    }

    Heads heads(const std::string& stack) const {
        return {integer(stack + "_heads", 1), integer(stack + "_head_width", 1), number(stack + "_scale")};
    }

    Norm norm(const std::string& name) {
        const int64_t width = model_.width;
        return {vector(name + ".weight", width), model_.shape.rms ? nullptr : vector(name + ".bias", width)};
    }
    BlockNorms block_norms(const std::string& block) {
        BlockNorms norms;
        (model_.shape.pre_norm ? norms.before : norms.after) = norm(block + "_norm");
        if (both_norms_) norms.after = norm(block + "_after_norm");
        return norms;
    }
    FeedForward feed_forward(const std::string& prefix) {
        const std::string name = prefix + "feed_forward.inner";
        const int64_t inner = find(parts_.matrices, name).outputs(), width = model_.width;
        FeedForward layer;
        layer.inner = linear(name, inner, width);
        if (integer("gated", 0)) layer.gate = linear(prefix + "feed_forward.gate", inner, width);
        layer.outer = linear(prefix + "feed_forward.outer", width, inner);
        layer.norm = block_norms(prefix + "feed_forward");
        return layer;
    }
    Side side(const std::string& name, int64_t vocabulary, int64_t heads) {
        const Shape& shape = model_.shape;
        Side result;
        result.embedding = embedding(name, vocabulary, model_.width);
        result.positions = optional_vector(name + "_positions", model_.max_length * model_.width);
        result.relative_bias = optional_vector(name + "_relative_bias", heads * (2 * shape.max_distance + 1));
        if (parts_.vectors.count(name + "_norm.weight")) result.norm = norm(name + "_norm");
        return result;
    }

    Transformer& model_;
    bool both_norms_ = false;  // of each block, before and after it
};

}  // namespace

void Transformer::configure_pools() {
    const int64_t page = page_entries * token_bytes;
    pages.configure(page, int64_t{16} << 20);
    chunks.configure(page, int64_t{4} << 20);
}

std::shared_ptr<Network> build_transformer(const Parts& parts) {
    auto model = std::make_shared<Transformer>();
    Builder(*model, parts).build();
    return model;
}

}  // namespace uwaga
