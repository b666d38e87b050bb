#include "transformer/build.h"

#include "recurrent/network.h"
#include "transformer/part_reader.h"

namespace uwaga {

namespace {

class Builder : private PartReader {
  public:
    using PartReader::PartReader;

    void build(void (*check_interrupt)()) {
        model_.workers.configure(whole("threads", 1), check_interrupt);
        if (has("family")) return build_network(model_, *this);
        read_shape();
        const Shape& shape = model_.shape;
        if (model_.has_source()) {
            model_.source = side("source", model_.source_vocabulary, shape.encoder.count);
            for (int64_t l = 0; l < whole("encoder_layers", 1); ++l) model_.encoder.push_back(encoder_layer("encoder." + std::to_string(l) + "."));
            if (shape.pre_norm) model_.encoder_norm = norm("encoder_norm");
        }
        model_.target = side("target", model_.target_vocabulary, shape.decoder.count);
        for (int64_t l = 0; l < whole("decoder_layers", 1); ++l) model_.decoder.push_back(decoder_layer("decoder." + std::to_string(l) + "."));
        if (shape.pre_norm) model_.decoder_norm = norm("decoder_norm");
        model_.output_weight = matrix("output", model_.target_vocabulary, shape.width);
        model_.output_bias = optional_vector("output.bias", model_.target_vocabulary);
        check_all_used();
        link_prefetches();
        if (shape.recurrent) model_.cells = static_cast<int64_t>(model_.decoder.size()) * shape.width;
        configure_pools(model_);
    }

  private:
    void read_shape() {
        Shape& shape = model_.shape;
        shape.width = whole("width", 1);
        shape.max_length = whole("max_length", 1);
        shape.encoder = heads("encoder");
        shape.decoder = heads("decoder");
        shape.max_distance = whole("max_distance", 0);
        shape.shared_width = whole("shared_width", 0);
        shape.pre_norm = whole("pre_norm", 0);
        shape.rms = whole("rms", 0);
        shape.float16_cache = whole("float16_cache", 0);
        shape.recurrent = whole("recurrent", 0);
        shape.epsilon = number("epsilon");
        shape.embedding_scale = number("embedding_scale");
        shape.output_scale = number("output_scale");
        shape.activation = static_cast<Activation>(whole("activation", 0));
        if (static_cast<int>(shape.activation) > 4) refuse("activation: unknown value");
        model_.source_vocabulary = whole("source_vocabulary", 0);
        model_.target_vocabulary = whole("target_vocabulary", 1);
        if (!model_.has_source()) read_decoder_only();
    }

    // Settings of decoder-only models alone.
    void read_decoder_only() {
        Shape& shape = model_.shape;
        const int64_t stored = whole("key_value_heads", 1);
        if (shape.decoder.count % stored) refuse("key_value_heads: does not divide the heads");
        shape.decoder.group = shape.decoder.count / stored;
        shape.decoder.cap = number("score_cap");
        shape.logit_cap = number("logit_cap");
        shape.norm_rotated = whole("norm_rotated", 0);
        both_norms_ = whole("both_norms", 0);
        if (both_norms_ && !shape.pre_norm) refuse("both_norms: needs pre_norm");
        for (int64_t table = 0; table < whole("rotary", 0); ++table) {
            if (shape.decoder.width % 2) refuse("decoder_head_width: rotary positions need an even one");
            const std::string at = "rotary." + std::to_string(table) + ".";
            Rotary rotary;
            rotary.factor = setting(at + "factor");
            for (int64_t pair = 0; pair < shape.decoder.width / 2; ++pair) rotary.frequencies.push_back(setting(at + std::to_string(pair)));
            model_.rotary.push_back(std::move(rotary));
        }
    }

    // The norms of a head's queries and keys, the window and the rotary positions of layer model_.decoder.size().
    void place_queries_and_keys(const std::string& self, DecoderLayer& layer) {
        const int64_t width = model_.shape.decoder.width, number = static_cast<int64_t>(model_.decoder.size());
        layer.query_norm = optional_vector(self + ".query_norm.weight", width);
        layer.key_norm = optional_vector(self + ".key_norm.weight", width);
        const int64_t window = whole("window", 0), global_every = whole("global_every", 0);
        const bool local = window && !(global_every && (number + 1) % global_every == 0);
        if (local) layer.window = window;
        if (!model_.rotary.empty()) layer.rotary = local ? static_cast<int64_t>(model_.rotary.size()) - 1 : 0;
    }

    EncoderLayer encoder_layer(const std::string& at) {
        const int64_t width = model_.shape.width, inner = model_.shape.encoder.inner();
        EncoderLayer layer;
        layer.query_key_value = linear(at + "attention.query_key_value", 3 * inner, width);
        layer.self_output = linear(at + "attention.output", width, inner);
        layer.self_norm = block_norms(at + "attention");
        layer.feed_forward = feed_forward(at);
        return layer;
    }

    DecoderLayer decoder_layer(const std::string& at) {
        const int64_t width = model_.shape.width, inner = model_.shape.decoder.inner();
        const std::string self = at + (model_.has_source() ? "self_attention" : "attention");
        DecoderLayer layer;
        if (model_.shape.recurrent) {
            layer.forget = linear(at + "ssru.forget", width, width);
            layer.input = linear(at + "ssru.input", width, width);
        } else {
            layer.query_key_value = linear(self + ".query_key_value", model_.shape.decoder.projected_width(), width);
            layer.self_output = linear(self + ".output", width, inner);
        }
        layer.self_norm = block_norms(self);
        if (!model_.has_source()) place_queries_and_keys(self, layer);
        if (model_.has_source()) {
            layer.query = linear(at + "cross_attention.query", inner, width);
            layer.key_value = linear(at + "cross_attention.key_value", 2 * inner, width);
            layer.cross_output = linear(at + "cross_attention.output", width, inner);
            layer.cross_norm = block_norms(at + "cross_attention");
        }
        layer.feed_forward = feed_forward(at);
        return layer;
    }

    // Tell each quantised matrix which one is read after it, because their order in a file differs.
    void link_prefetches() {
        std::vector<Matrix*> read;
        const auto add = [&](std::initializer_list<Linear*> linears) {
            for (Linear* linear : linears) {
                if (linear->weight) read.push_back(&linear->weight);
            }
        };
        for (EncoderLayer& l : model_.encoder) {
            add({&l.query_key_value, &l.self_output, &l.feed_forward.gate, &l.feed_forward.inner, &l.feed_forward.outer});
        }
        for (DecoderLayer& l : model_.decoder) add({&l.key_value});
        const std::size_t step = read.size();
        for (DecoderLayer& l : model_.decoder) {
            add({&l.query_key_value, &l.self_output, &l.forget, &l.input, &l.query, &l.cross_output, &l.feed_forward.gate, &l.feed_forward.inner, &l.feed_forward.outer});
        }
        read.push_back(&model_.output_weight);
        choose_output_terms(read);
        for (std::size_t i = 0; i < read.size(); ++i) {
            const Matrix& next = *read[i + 1 < read.size() ? i + 1 : step];
            if (!read[i]->quantised() || !next.quantised()) continue;
            const bool int8 = next.kind == Matrix::Kind::int8;
            const int64_t size = int8 ? int8_panels_size(next.outputs(), next.inputs()) : int4_panels_size(next.outputs(), next.inputs());
            const void* const panels = int8 ? static_cast<const void*>(next.int8.panels) : next.int4.panels;
            if (read[i]->kind == Matrix::Kind::int8) {
                read[i]->int8.prefetch = static_cast<const int8_t*>(panels);
                read[i]->int8.prefetch_size = size;
            } else {
                read[i]->int4.prefetch = static_cast<const uint8_t*>(panels);
                read[i]->int4.prefetch_size = size;
            }
        }
    }

    // Rounding the inputs of a decoder-only model's output layer changes its probabilities as much as that of several layers;
    // two terms are worth their time where the output layer is a small part of the model.
    void choose_output_terms(const std::vector<Matrix*>& read) {
        const Matrix& output = model_.output_weight;
        if (model_.has_source() || output.kind != Matrix::Kind::int8 || output.inputs() > 16384) return;
        int64_t weights = 0;
        for (const Matrix* matrix : read) weights += matrix->outputs() * matrix->inputs();
        if (4 * output.outputs() * output.inputs() <= weights) model_.output_terms = 2;
    }

    Heads heads(const std::string& stack) const {
        return {whole(stack + "_heads", 1), whole(stack + "_head_width", 1), number(stack + "_scale")};
    }

    Norm norm(const std::string& name) {
        const int64_t width = model_.shape.width;
        return {vector(name + ".weight", width), model_.shape.rms ? nullptr : vector(name + ".bias", width)};
    }
    BlockNorms block_norms(const std::string& block) {
        BlockNorms made;
        (model_.shape.pre_norm ? made.before : made.after) = norm(block + "_norm");
        if (both_norms_) made.after = norm(block + "_after_norm");
        return made;
    }
    FeedForward feed_forward(const std::string& at) {
        const std::string name = at + "feed_forward.inner";
        const int64_t inner = of(parts_.matrices, name).outputs(), width = model_.shape.width;
        FeedForward layer;
        layer.inner = linear(name, inner, width);
        if (whole("gated", 0)) layer.gate = linear(at + "feed_forward.gate", inner, width);
        layer.outer = linear(at + "feed_forward.outer", width, inner);
        layer.norm = block_norms(at + "feed_forward");
        return layer;
    }
    Side side(const std::string& name, int64_t vocabulary, int64_t heads) {
        const Shape& shape = model_.shape;
        Side made;
        made.embedding = embedding(name, vocabulary, shape.width);
        made.positions = optional_vector(name + "_positions", shape.max_length * shape.width);
        made.relative_bias = optional_vector(name + "_relative_bias", heads * (2 * shape.max_distance + 1));
        if (parts_.vectors.count(name + "_norm.weight")) made.norm = norm(name + "_norm");
        return made;
    }

    bool both_norms_ = false;  // of each block, before and after it
};

}  // namespace

void configure_pools(Model& model) {
    const int64_t page = page_entries * model.key_value_width() * static_cast<int64_t>(model.decoder.size()) * model.cache_element_size();
    model.pages.configure(page, int64_t{16} << 20);
    model.chunks.configure(page, int64_t{4} << 20);
}

std::shared_ptr<Model> build_model(const Parts& parts, Isa isa, void (*check_interrupt)()) {
    auto model = std::make_shared<Model>();
    model->kernels = &kernels_of(isa);
    Builder(*model, parts).build(check_interrupt);
    return model;
}

}  // namespace uwaga
