// Recording of all attention matrices for known targets: one pass over each side, separate from encode() and
// step().
//
// The probabilities are bit-identical to those of encode() and step(): queries, keys and values come from the
// same products, and attention from the same kernel.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "transformer/blocks.h"
#include "transformer/encoder.h"

namespace uwaga {

namespace {

constexpr int64_t recorded_queries_between_checks = 64;  // attention over a long sentence may take seconds

// Sentences whose rows are packed together, one sentence after another.
struct RecordedGroup {
    std::size_t first = 0, last = 0;  // range of sentences
    int64_t rows = 0;
};
std::vector<RecordedGroup> make_groups(const std::vector<int64_t>& lengths) {
    std::vector<RecordedGroup> groups;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
        if (groups.empty() || groups.back().rows + lengths[i] > group_rows) groups.push_back({i, i, 0});
        groups.back().last = i + 1;
        groups.back().rows += lengths[i];
    }
    return groups;
}

// The selected arrays of a translation, which a pass fills.
struct Insight {
    std::vector<NamedArray>& arrays;

    // The values of an array; null if it is not selected.
    float* find(const std::string& name) const {
        for (NamedArray& array : arrays) {
            if (array.name == name) return array.values.data();
        }
        return nullptr;
    }
};

// A pass of the rows of a group through the layers; the rows are in ws.x.
struct Pass {
    const Transformer& model;
    const Heads& heads;
    const Side& side;
    Workspace& ws;
    std::vector<int64_t> lengths = {};  // length of each sentence
    int64_t rows = 0;
    Buffer<uint16_t> halves = {};      // keys and values in float16
    const Insight* insight = nullptr;  // null: none; otherwise the pass has one sentence

    void embed_tokens(const std::vector<const Tokens*>& sentences);
    float* project(const Linear& linear, Rows& in);
    void encoder_attend(std::size_t l, const std::vector<float*>& to);
    void decoder_attend(std::size_t l, const std::vector<float*>& to);
    void cross_attend(std::size_t l, const std::vector<const EncodedSentence*>& sources,
                      const std::vector<float*>& to, int64_t head = -1);
    void finish(const Linear& out, const BlockNorms& norm);
    float* array(const std::string& name) const { return insight ? insight->find(name) : nullptr; }
    void copy_rows(const std::string& name);
    void copy_heads(const std::string& name, const void* numbers, bool float16, int64_t stride, int64_t count,
                    int64_t group = 1);
    void copy_scores(const std::string& name, AttentionKind kind, int64_t layer, const float* queries,
                     int64_t query_stride, const void* keys, bool float16, int64_t key_stride, int64_t length,
                     int64_t window = no_window);
    void recur_layer(const DecoderLayer& layer);
    void run_feed_forward(const FeedForward& layer) {
        feed_forward(model, layer, ws.x.get(), rows, ws, ws, ThreadSlice{});
    }
};

void Pass::embed_tokens(const std::vector<const Tokens*>& sentences) {
    for (const std::vector<int32_t>* sentence : sentences) {
        lengths.push_back(static_cast<int64_t>(sentence->size()));
        rows += lengths.back();
    }
    int32_t* tokens = ws.tokens.ensure(rows);
    int32_t* positions = ws.positions.ensure(rows);
    for (const std::vector<int32_t>* sentence : sentences) {
        int32_t position = 0;
        for (const int32_t token : *sentence) {
            *tokens++ = token;
            *positions++ = position++;
        }
    }
    if (&side == &model.target) rotary_angles(model, ws.positions.get(), rows, ws);
    embed_rows(model, side, ws.tokens.get(), ws.positions.get(), rows,
               ws.x.ensure(rows * stride_of(model.width)), ws);
}

// Copy the current vectors (rows, width).
void Pass::copy_rows(const std::string& name) {
    const int64_t width = model.width;
    float* to = array(name);
    for (int64_t row = 0; to && row < rows; ++row)
        std::copy_n(ws.x.get() + row * stride_of(width), width, to + row * width);
}

float read_number(const void* numbers, bool float16, int64_t index) {
    return float16 ? float_of(static_cast<const uint16_t*>(numbers)[index])
                   : static_cast<const float*>(numbers)[index];
}

// (heads, count, head width) of rows (count, stride) that begin with the heads side by side, each for `group`
// heads.
void Pass::copy_heads(const std::string& name, const void* numbers, bool float16, int64_t stride,
                      int64_t count, int64_t group) {
    float* to = array(name);
    if (!to) return;
    for (int64_t head = 0; head < heads.count; ++head) {
        for (int64_t row = 0; row < count; ++row) {
            for (int64_t i = 0; i < heads.width; ++i)
                *to++ = read_number(numbers, float16, row * stride + head / group * heads.width + i);
        }
    }
}

// (heads, rows, length) scores before the softmax; -inf where a query may not look.
void Pass::copy_scores(const std::string& name, AttentionKind kind, int64_t layer, const float* queries,
                       int64_t query_stride, const void* keys, bool float16, int64_t key_stride,
                       int64_t length, int64_t window) {
    float* to = array(name);
    for (int64_t query = 0; to && query < rows; ++query) {
        const float* bias = kind == AttentionKind::cross
                                ? nullptr
                                : relative_bias(model, side, heads, query, length, ws);
        for (int64_t head = 0; head < heads.count; ++head) {
            const float scale = scale_of(model, heads, kind, layer, head);
            float* row = to + (head * rows + query) * length;
            for (int64_t key = 0; key < length; ++key) {
                double sum = 0;
                for (int64_t i = 0; i < heads.width; ++i) {
                    sum += static_cast<double>(queries[query * query_stride + head * heads.width + i]) *
                           static_cast<double>(read_number(keys, float16,
                                                           key * key_stride +
                                                               head / heads.group * heads.width + i));
                }
                row[key] = static_cast<float>(sum * static_cast<double>(scale)) +
                           (bias ? bias[head * length + key] : 0.0f);
                if (heads.cap != 0) row[key] = heads.cap * std::tanh(row[key] / heads.cap);
                if (kind == AttentionKind::decoder && (key > query || query - key >= window))
                    row[key] = -std::numeric_limits<float>::infinity();
            }
        }
    }
}

std::string layer_name(const char* kind, std::size_t l) {
    return std::string(kind) + "." + std::to_string(l + 1) + ".";
}

float* Pass::project(const Linear& linear, Rows& in) {
    const int64_t stride = stride_of(linear.weight.outputs());
    float* projected = ws.projected.ensure(rows * stride);
    Epilogue plain;
    plain.bias = linear.bias;
    product(*model.kernels, in, linear.weight, plain, projected, stride);
    return projected;
}

// Attention of a sentence's queries over its keys, followed by their values, as in a step; the weights are
// copied.
struct RecordedAttention {
    const float* queries;
    int64_t query_stride, count;  // count: number of queries
    const void* keys;
    int64_t key_stride, length;  // length: number of keys
    bool causal;                 // self-attention in which a query sees only itself and earlier positions
    int64_t layer;
    float* to;                   // (heads, count, length), or null
    int64_t head = -1;           // the only head copied, as (count, length); negative: all heads
    int64_t window = no_window;  // keys that a query sees at most, of causal attention
};
void record_attention(const Transformer& model, const Heads& heads, const RecordedAttention& recorded,
                      float* context, Workspace& ws) {
    const int64_t context_stride = stride_of(heads.inner());
    int64_t* offsets = ws.offsets.ensure(recorded.length);
    for (int64_t key = 0; key < recorded.length; ++key) offsets[key] = key * recorded.key_stride;
    float* weights = ws.weights.ensure(heads.count * recorded.length);
    for (int64_t query = 0; query < recorded.count; ++query) {
        if (query % recorded_queries_between_checks == recorded_queries_between_checks - 1)
            model.workers.check();
        const int64_t end = recorded.causal ? query + 1 : recorded.length,
                      length = std::min(end, recorded.window), first = end - length;
        const float* bias = recorded.causal ? relative_bias(model, model.target, heads, query, length, ws)
                                            : nullptr;
        const AttentionKind kind = recorded.causal ? AttentionKind::decoder : AttentionKind::cross;
        attend_cached(model, heads, {kind, recorded.layer, query, first}, recorded.keys,
                      single_query(recorded.queries + query * recorded.query_stride, offsets + first, length,
                                   bias, weights, context + query * context_stride));
        if (!recorded.to) continue;
        if (recorded.head >= 0) {
            std::copy_n(weights + recorded.head * length, length, recorded.to + query * recorded.length);
            continue;
        }
        for (int64_t head = 0; head < heads.count; ++head) {
            std::copy_n(weights + head * length, length,
                        recorded.to + (head * recorded.count + query) * recorded.length + first);
        }
    }
}

// Like the encoder's attention, but with few enough queries at a time that their weights can be copied.
void Pass::encoder_attend(std::size_t l, const std::vector<float*>& to) {
    const EncoderLayer& layer = model.encoder[l];
    const bool edited = model.edits && model.edits->touch(AttentionKind::encoder, static_cast<int64_t>(l));
    const int64_t inner = heads.inner(), context_stride = stride_of(inner);
    Rows source = block_input(model, layer.self_norm, ws.x.get(), rows, ws);
    const float* projected = project(layer.query_key_value, source);  // (rows, query | key | value)
    float* context = ws.context.ensure(rows * context_stride);
    if (insight) {
        const std::string name = layer_name("encoder", l);
        const int64_t stride = stride_of(3 * inner);
        copy_heads(name + "query", projected, false, stride, rows);
        copy_heads(name + "key", projected + inner, false, stride, rows);
        copy_heads(name + "value", projected + 2 * inner, false, stride, rows);
        copy_scores(name + "scores", AttentionKind::encoder, static_cast<int64_t>(l), projected, stride,
                    projected + inner, false, stride, rows);
    }
    SelfAttention attention;
    attention.stride = stride_of(3 * inner);
    attention.head_width = heads.width;
    attention.scale = heads.scale;
    attention.max_distance = model.shape.max_distance;
    attention.context_stride = context_stride;
    for (std::size_t s = 0; s < lengths.size(); ++s) {
        const int64_t length = attention.length = lengths[s], padded = padded_keys(length);
        if (edited)
            encode_edited(model, static_cast<int64_t>(l), projected, attention.stride, length, context,
                          context_stride, to[s], ws);
        attention.scratch = ws.weights.ensure((heads.width + queries_at_once) * padded);
        for (int64_t head = 0; head < heads.count && !edited; ++head) {
            attention.queries = projected + head * heads.width;
            attention.keys = attention.queries + inner;
            attention.values = attention.keys + inner;
            if (side.relative_bias)
                attention.relative = side.relative_bias + head * (2 * attention.max_distance + 1) +
                                     attention.max_distance;
            attention.context = context + head * heads.width;
            for (attention.first = 0; attention.first < length; attention.first = attention.last) {
                attention.last = std::min(attention.first + queries_at_once, length);
                if (attention.first % recorded_queries_between_checks == 0) model.workers.check();
                model.kernels->self_attend(attention);
                for (int64_t query = attention.first; query < attention.last; ++query) {
                    const float* weights = attention.scratch +
                                           (heads.width + query - attention.first) * padded;
                    if (to[s]) std::copy_n(weights, length, to[s] + (head * length + query) * length);
                }
            }
        }
        projected += length * attention.stride;
        context += length * context_stride;
    }
    copy_heads(layer_name("encoder", l) + "context", ws.context.get(), false, context_stride, rows);
    finish(layer.self_output, layer.self_norm);
}

void Pass::decoder_attend(std::size_t l, const std::vector<float*>& to) {
    const DecoderLayer& layer = model.decoder[l];
    const int64_t inner = heads.inner(), stride = stride_of(heads.projected_width()),
                  context_stride = stride_of(inner), size = model.cache_element_size();
    Rows source = block_input(model, layer.self_norm, ws.x.get(), rows, ws);
    float* projected = project(layer.query_key_value, source);  // (rows, query | key | value)
    const int64_t angle_stride = static_cast<int64_t>(model.rotary.size()) * heads.width;
    for (int64_t row = 0; row < rows; ++row)
        normalise_and_rotate(model, layer, ws.angles.get() + row * angle_stride, true,
                             projected + row * stride);
    const void* cache = projected + inner;
    int64_t key_stride = stride;
    if (model.shape.float16_cache) {
        key_stride = model.key_value_width();
        uint16_t* half = halves.ensure(rows * key_stride);
        for (int64_t row = 0; row < rows; ++row)
            model.kernels->to_float16(projected + row * stride + inner, key_stride, half + row * key_stride);
        cache = half;
    }
    if (insight) {
        const std::string name = layer_name("decoder", l);
        const bool float16 = model.shape.float16_cache;
        const void* values = static_cast<const uint8_t*>(cache) + heads.key_width() * size;
        copy_heads(name + "query", projected, false, stride, rows);
        copy_heads(name + "key", cache, float16, key_stride, rows, heads.group);
        copy_heads(name + "value", values, float16, key_stride, rows, heads.group);
        copy_scores(name + "scores", AttentionKind::decoder, static_cast<int64_t>(l), projected, stride,
                    cache, float16, key_stride, rows, layer.window);
    }
    float* context = ws.context.ensure(rows * context_stride);
    int64_t first = 0;
    for (std::size_t s = 0; s < lengths.size(); ++s) {
        const void* keys = static_cast<const uint8_t*>(cache) + first * key_stride * size;
        record_attention(model, heads,
                         {projected + first * stride, stride, lengths[s], keys, key_stride, lengths[s], true,
                          static_cast<int64_t>(l), to[s], -1, layer.window},
                         context + first * context_stride, ws);
        first += lengths[s];
    }
    copy_heads(layer_name("decoder", l) + "context", context, false, context_stride, rows);
    finish(layer.self_output, layer.self_norm);
}

void Pass::cross_attend(std::size_t l, const std::vector<const EncodedSentence*>& sources,
                        const std::vector<float*>& to, int64_t head) {
    const DecoderLayer& layer = model.decoder[l];
    const int64_t inner = heads.inner(), stride = stride_of(inner), entry = model.key_value_width();
    Rows in = block_input(model, layer.cross_norm, ws.x.get(), rows, ws);
    const float* queries = project(layer.query, in);
    float* context = ws.context.ensure(rows * stride);
    int64_t first = 0;
    for (std::size_t s = 0; s < lengths.size(); ++s) {
        const EncodedSentence& source = *sources[s];
        const int64_t first_key = (static_cast<int64_t>(l) * source.chunk->rows + source.first) * entry;
        const void* keys = source.chunk->page.data + first_key * model.cache_element_size();
        if (insight) {
            const std::string name = layer_name("cross", l);
            const bool float16 = model.shape.float16_cache;
            const void* values = static_cast<const uint8_t*>(keys) + inner * model.cache_element_size();
            copy_heads(name + "query", queries, false, stride, rows);
            copy_heads(name + "key", keys, float16, entry, source.length);
            copy_heads(name + "value", values, float16, entry, source.length);
            copy_scores(name + "scores", AttentionKind::cross, static_cast<int64_t>(l), queries, stride, keys,
                        float16, entry, source.length);
        }
        record_attention(model, heads,
                         {queries + first * stride, stride, lengths[s], keys, entry, source.length, false,
                          static_cast<int64_t>(l), to[s], head},
                         context + first * stride, ws);
        first += lengths[s];
    }
    copy_heads(layer_name("cross", l) + "context", context, false, stride, rows);
    finish(layer.cross_output, layer.cross_norm);
}

// Project the contexts and add them to the residual stream.
void Pass::finish(const Linear& out, const BlockNorms& norm) {
    const int64_t inner = heads.inner();
    Rows attended = rows_of(ws, ws.context.get(), rows, inner, stride_of(inner));
    block_output(model, out, norm, attended, ws.x.get(), ws, ws, ThreadSlice{});
}

// Run each sentence's rows in order: the cells after one position are those before the next.
void Pass::recur_layer(const DecoderLayer& layer) {
    const int64_t width = model.width, stride = stride_of(width);
    float* x = ws.x.get();
    Rows in = block_input(model, layer.self_norm, x, rows, ws);
    const float* forget = project(layer.forget, in);
    float* input = ws.context.ensure(rows * stride);
    product(*model.kernels, in, layer.input.weight, Epilogue{}, input, stride);
    int64_t first = 0;
    for (const int64_t length : lengths) {
        std::vector<float> cells(static_cast<std::size_t>((length + 1) * width));
        const Recurrence unit{forget + first * stride,
                              input + first * stride,
                              stride,
                              cells.data(),
                              cells.data() + width,
                              width};
        recur(model, unit, layer.self_norm, x + first * stride, length, ws, ThreadSlice{});
        first += length;
    }
}

// The addresses of layer l in each sentence's matrices, which begin at `to`; null if that is null.
std::vector<float*> layer_addresses(const std::vector<float*>& to, const std::vector<int64_t>& sizes,
                                    std::size_t l) {
    std::vector<float*> addresses;
    for (std::size_t s = 0; s < to.size(); ++s)
        addresses.push_back(to[s] ? to[s] + static_cast<int64_t>(l) * sizes[s] : nullptr);
    return addresses;
}

std::shared_ptr<const Chunk> encode_group(const Transformer& model, const std::vector<Tokens>& sources,
                                          const RecordedGroup& group, const std::vector<float*>& matrices,
                                          Workspace& ws) {
    std::vector<const Tokens*> sentences;
    for (std::size_t s = group.first; s < group.last; ++s) sentences.push_back(&sources[s]);
    const std::vector<float*> to(matrices.begin() + static_cast<std::ptrdiff_t>(group.first),
                                 matrices.begin() + static_cast<std::ptrdiff_t>(group.last));
    Pass pass{model, model.shape.encoder, model.source, ws};
    pass.embed_tokens(sentences);
    std::vector<int64_t> sizes;  // elements of a layer's matrices
    for (const int64_t length : pass.lengths) sizes.push_back(pass.heads.count * length * length);
    for (std::size_t l = 0; l < model.encoder.size(); ++l) {
        const EncoderLayer& layer = model.encoder[l];
        model.workers.check();
        pass.encoder_attend(l, layer_addresses(to, sizes, l));
        pass.run_feed_forward(layer.feed_forward);
    }
    if (model.shape.pre_norm) normalise(model, model.encoder_norm, ws.x.get(), pass.rows, ws.x.get());
    return keys_and_values(model, ws.x.get(), pass.rows, ws);
}

void record_group(const Transformer& model, const std::vector<DecoderInput>& inputs,
                  const std::vector<AttentionMatrices>& matrices, const RecordedGroup& group,
                  const std::optional<CrossHead>& selected, Workspace& ws) {
    Pass pass{model, model.shape.decoder, model.target, ws};
    std::vector<const Tokens*> sentences;
    std::vector<const EncodedSentence*> sources;
    std::vector<float*> decoder, cross;
    std::vector<int64_t> squares, oblongs;  // elements of a layer's matrices
    for (std::size_t s = group.first; s < group.last; ++s) {
        const int64_t length = static_cast<int64_t>(inputs[s].target.size());
        sentences.push_back(&inputs[s].target);
        sources.push_back(inputs[s].source);
        decoder.push_back(selected ? nullptr : matrices[s].decoder);
        cross.push_back(matrices[s].cross);
        squares.push_back(pass.heads.count * length * length);
        oblongs.push_back(model.has_source() ? pass.heads.count * length * inputs[s].source->length : 0);
    }
    const std::vector<float*> no_addresses(cross.size(), nullptr);
    pass.embed_tokens(sentences);
    for (std::size_t l = 0; l < model.decoder.size(); ++l) {
        const DecoderLayer& layer = model.decoder[l];
        const bool last = selected && static_cast<int64_t>(l) == selected->layer;
        model.workers.check();
        if (model.shape.ssru) pass.recur_layer(layer);
        else pass.decoder_attend(l, layer_addresses(decoder, squares, l));
        if (last) return pass.cross_attend(l, sources, cross, selected->head);
        if (model.has_source())
            pass.cross_attend(l, sources, selected ? no_addresses : layer_addresses(cross, oblongs, l));
        if (l + 1 < model.decoder.size()) pass.run_feed_forward(layer.feed_forward);
    }
}

std::vector<RecordedGroup> target_groups(const Transformer& model, const std::vector<DecoderInput>& inputs) {
    std::vector<int64_t> lengths;
    for (const DecoderInput& input : inputs) {
        const int64_t length = static_cast<int64_t>(input.target.size());
        lengths.push_back(length);
        check_tables(model, AttentionKind::decoder, length - 1, length);
        if (input.source) check_tables(model, AttentionKind::cross, length - 1, input.source->length);
    }
    return make_groups(lengths);
}

}  // namespace

Memory encode_recorded(const Transformer& model, const std::vector<Tokens>& sources,
                       const std::vector<float*>& attention) {
    check_sources(model, sources);
    std::vector<int64_t> lengths;
    for (const std::vector<int32_t>& source : sources) lengths.push_back(static_cast<int64_t>(source.size()));
    const std::vector<RecordedGroup> groups = make_groups(lengths);
    std::vector<std::shared_ptr<const Chunk>> chunks(groups.size());
    model.workers.run(static_cast<int64_t>(groups.size()), [&](int64_t part) {
        WorkspacePool::Loan ws(model.workspaces);
        const std::size_t g = static_cast<std::size_t>(part);
        chunks[g] = encode_group(model, sources, groups[g], attention, *ws);
    });
    Memory memory{model.shared_from_this(), {}};
    for (std::size_t g = 0; g < groups.size(); ++g) {
        int64_t first = 0;
        for (std::size_t s = groups[g].first; s < groups[g].last; ++s) {
            memory.sentences.push_back({chunks[g], first, lengths[s]});
            first += lengths[s];
        }
    }
    return memory;
}

std::vector<NamedArray> Transformer::insight_arrays(int64_t source_length, int64_t target_length,
                                                    const std::vector<std::string>& selection) const {
    std::vector<NamedArray> arrays;
    const auto add_attention = [&](const std::string& name, const Heads& heads, int64_t queries,
                                   int64_t keys) {
        arrays.push_back({name + "query", {heads.count, queries, heads.width}});
        for (const char* const part : {"key", "value"})
            arrays.push_back({name + part, {heads.count, keys, heads.width}});
        for (const char* const part : {"scores", "weights"})
            arrays.push_back({name + part, {heads.count, queries, keys}});
        arrays.push_back({name + "context", {heads.count, queries, heads.width}});
        arrays.push_back({name + "attention", {queries, width}});
    };
    if (has_source()) {
        arrays.push_back({"encoder.embedding", {source_length, width}});
        for (std::size_t l = 0; l < encoder.size(); ++l) {
            add_attention(layer_name("encoder", l), shape.encoder, source_length, source_length);
            arrays.push_back({layer_name("encoder", l) + "feed_forward", {source_length, width}});
        }
        arrays.push_back({"encoder.output", {source_length, width}});
    }
    arrays.push_back({"decoder.embedding", {target_length, width}});
    for (std::size_t l = 0; l < decoder.size(); ++l) {
        if (shape.ssru) arrays.push_back({layer_name("decoder", l) + "recurrence", {target_length, width}});
        else add_attention(layer_name("decoder", l), shape.decoder, target_length, target_length);
        if (has_source()) add_attention(layer_name("cross", l), shape.decoder, target_length, source_length);
        arrays.push_back({layer_name("decoder", l) + "feed_forward", {target_length, width}});
    }
    arrays.push_back({"decoder.output", {target_length, width}});
    arrays.push_back({"logits", {target_length, target_vocabulary}});
    if (selection.empty()) return arrays;
    std::vector<NamedArray> selected;
    std::vector<bool> matched(selection.size());
    for (const NamedArray& array : arrays) {
        bool matches = false;
        for (std::size_t i = 0; i < selection.size(); ++i) {
            if (array.name != selection[i] &&
                array.name.compare(0, selection[i].size() + 1, selection[i] + ".") != 0)
                continue;
            matches = matched[i] = true;
        }
        if (matches) selected.push_back(array);
    }
    for (std::size_t i = 0; i < selection.size(); ++i) {
        if (matched[i]) continue;
        std::string names;
        for (const NamedArray& array : arrays) names += (names.empty() ? "" : ", ") + array.name;
        throw NoSuchArray("no array has the name '" + selection[i].substr(0, 60) + "'; the model has " +
                          names);
    }
    return selected;
}

std::vector<NamedArray> Transformer::insight(const Tokens& source_tokens, const Tokens& target_tokens,
                                             const std::vector<std::string>& selection, int64_t bound) const {
    const Transformer& model = *this;
    std::vector<NamedArray> arrays = insight_arrays(static_cast<int64_t>(source_tokens.size()),
                                                    static_cast<int64_t>(target_tokens.size()), selection);
    int64_t bytes = 0;
    for (const NamedArray& array : arrays) {
        bytes += array.size() * static_cast<int64_t>(sizeof(float));
        if (bytes > bound)
            throw InsightTooLarge(array.name + ": the selected arrays take more than " +
                                  std::to_string(bound) + " bytes: select fewer names or raise the bound");
    }
    for (NamedArray& array : arrays) array.zeroed();
    const Insight filled{arrays};
    WorkspacePool::Loan loan(model.workspaces);
    Workspace& ws = *loan;
    EncodedSentence encoded;
    if (model.has_source()) {
        check_sources(model, {source_tokens});
        Pass pass{model, model.shape.encoder, model.source, ws};
        pass.insight = &filled;
        pass.embed_tokens({&source_tokens});
        pass.copy_rows("encoder.embedding");
        for (std::size_t l = 0; l < model.encoder.size(); ++l) {
            const std::string name = layer_name("encoder", l);
            model.workers.check();
            pass.encoder_attend(l, {pass.array(name + "weights")});
            pass.copy_rows(name + "attention");
            pass.run_feed_forward(model.encoder[l].feed_forward);
            pass.copy_rows(name + "feed_forward");
        }
        if (model.shape.pre_norm) normalise(model, model.encoder_norm, ws.x.get(), pass.rows, ws.x.get());
        pass.copy_rows("encoder.output");
        encoded = {keys_and_values(model, ws.x.get(), pass.rows, ws), 0, pass.rows};
    }
    const int64_t steps = static_cast<int64_t>(target_tokens.size());
    check_tables(model, AttentionKind::decoder, steps - 1, steps);
    if (model.has_source()) check_tables(model, AttentionKind::cross, steps - 1, encoded.length);
    Pass pass{model, model.shape.decoder, model.target, ws};
    pass.insight = &filled;
    pass.embed_tokens({&target_tokens});
    pass.copy_rows("decoder.embedding");
    for (std::size_t l = 0; l < model.decoder.size(); ++l) {
        const std::string name = layer_name("decoder", l), cross = layer_name("cross", l);
        model.workers.check();
        if (model.shape.ssru) pass.recur_layer(model.decoder[l]);
        else pass.decoder_attend(l, {pass.array(name + "weights")});
        pass.copy_rows(name + (model.shape.ssru ? "recurrence" : "attention"));
        if (model.has_source()) {
            pass.cross_attend(l, {&encoded}, {pass.array(cross + "weights")});
            pass.copy_rows(cross + "attention");
        }
        pass.run_feed_forward(model.decoder[l].feed_forward);
        pass.copy_rows(name + "feed_forward");
    }
    if (model.shape.pre_norm) normalise(model, model.decoder_norm, ws.x.get(), steps, ws.x.get());
    scale_output(model, ws.x.get(), steps);
    pass.copy_rows("decoder.output");
    float* logits = pass.array("logits");
    if (!logits) return arrays;
    Rows features = rows_of(ws, ws.x.get(), steps, model.width, stride_of(model.width), model.output_terms);
    std::vector<OutputRow> out(static_cast<std::size_t>(steps));
    for (int64_t row = 0; row < steps; ++row) {
        out[static_cast<std::size_t>(row)].count = 0;
        out[static_cast<std::size_t>(row)].logits = logits + row * model.target_vocabulary;
    }
    output(*model.kernels, features, model.output_weight, model.logits(), out.data());
    return arrays;
}

void Transformer::record(const std::vector<DecoderInput>& inputs, const std::vector<AttentionMatrices>& to,
                         const std::optional<CrossHead>& selected) const {
    const std::vector<RecordedGroup> groups = target_groups(*this, inputs);
    workers.run(static_cast<int64_t>(groups.size()), [&](int64_t part) {
        WorkspacePool::Loan ws(workspaces);
        record_group(*this, inputs, to, groups[static_cast<std::size_t>(part)], selected, *ws);
    });
}

}  // namespace uwaga
