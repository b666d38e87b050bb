// The encoder: from sources to the keys and values that the decoder reads. Rows are packed in groups, without
// padding.
#include "transformer/encoder.h"

#include <algorithm>

#include "transformer/blocks.h"

namespace uwaga {

namespace {

constexpr int64_t min_group_rows = 64;
constexpr int64_t rows_between_checks = 256;  // attention over a long sentence may take seconds
constexpr int64_t max_excess_rows = 16;  // tokens by which a group may exceed an even share: sentences are
                                         // not split

struct Group {
    std::size_t first = 0, last = 0;  // range of sentences
    int64_t rows = 0;
};

// Groups sized so that every thread gets one, unless they would be too small to be worth a pass over the
// weights.
std::vector<Group> make_groups(const std::vector<Tokens>& sources, int64_t threads) {
    std::vector<Group> groups;
    int64_t total = 0;
    for (const std::vector<int32_t>& source : sources) total += static_cast<int64_t>(source.size());
    const int64_t limit = std::clamp((total + threads - 1) / threads + max_excess_rows, min_group_rows,
                                     group_rows);
    for (std::size_t i = 0; i < sources.size(); ++i) {
        const int64_t length = static_cast<int64_t>(sources[i].size());
        if (groups.empty() || groups.back().rows + length > limit) groups.push_back({i, i, 0});
        groups.back().last = i + 1;
        groups.back().rows += length;
    }
    return groups;
}

// Self-attention of whole sentences over the projected rows (rows, query | key | value).
void attend(const Transformer& model, int64_t layer, const std::vector<Tokens>& sources, const Group& group,
            const float* projected, int64_t projected_stride, float* context, int64_t context_stride,
            Workspace& ws) {
    const Heads& heads = model.shape.encoder;
    SelfAttention attention;
    attention.stride = projected_stride;
    attention.head_width = heads.width;
    attention.scale = heads.scale;
    attention.max_distance = model.shape.max_distance;
    attention.context_stride = context_stride;
    const bool edited = model.edits && model.edits->touch(AttentionKind::encoder, layer);
    for (std::size_t s = group.first; s < group.last; ++s) {
        attention.length = static_cast<int64_t>(sources[s].size());
        if (edited)
            encode_edited(model, layer, projected, projected_stride, attention.length, context,
                          context_stride, nullptr, ws);
        attention.scratch = ws.weights.ensure((heads.width + 4) * padded_keys(attention.length));
        for (int64_t head = 0; head < heads.count && !edited; ++head) {
            attention.queries = projected + head * heads.width;
            attention.keys = attention.queries + heads.inner();
            attention.values = attention.keys + heads.inner();
            if (model.source.relative_bias)
                attention.relative = model.source.relative_bias + head * (2 * attention.max_distance + 1) +
                                     attention.max_distance;
            attention.context = context + head * heads.width;
            for (attention.first = 0; attention.first < attention.length; attention.first = attention.last) {
                attention.last = std::min(attention.first + rows_between_checks, attention.length);
                if (attention.first > 0) model.workers.check();
                model.kernels->self_attend(attention);
            }
        }
        projected += attention.length * projected_stride;
        context += attention.length * context_stride;
    }
}

void run_layer(const Transformer& model, std::size_t l, const std::vector<Tokens>& sources,
               const Group& group, float* x, Workspace& ws) {
    const EncoderLayer& layer = model.encoder[l];
    const int64_t rows = group.rows, inner = model.shape.encoder.inner();
    const int64_t projected_stride = stride_of(3 * inner), context_stride = stride_of(inner);
    float* projected = ws.projected.ensure(rows * projected_stride);
    float* context = ws.context.ensure(rows * context_stride);
    Rows in = block_input(model, layer.self_norm, x, rows, ws);
    Epilogue plain;
    plain.bias = layer.query_key_value.bias;
    product(*model.kernels, in, layer.query_key_value.weight, plain, projected, projected_stride);
    attend(model, static_cast<int64_t>(l), sources, group, projected, projected_stride, context,
           context_stride, ws);
    Rows attended = rows_of(ws, context, rows, inner, context_stride);
    block_output(model, layer.self_output, layer.self_norm, attended, x, ws, ws, ThreadSlice{});
    feed_forward(model, layer.feed_forward, x, rows, ws, ws, ThreadSlice{});
}

std::shared_ptr<const Chunk> run_group(const Transformer& model, const std::vector<Tokens>& sources,
                                       const Group& group, Workspace& ws) {
    const int64_t rows = group.rows, stride = stride_of(model.width);
    int32_t* tokens = ws.tokens.ensure(rows);
    int32_t* positions = ws.positions.ensure(rows);
    for (std::size_t s = group.first, row = 0; s < group.last; ++s) {
        for (std::size_t i = 0; i < sources[s].size(); ++i, ++row) {
            tokens[row] = sources[s][i];
            positions[row] = static_cast<int32_t>(i);
        }
    }
    float* x = ws.x.ensure(rows * stride);
    embed_rows(model, model.source, tokens, positions, rows, x, ws);
    for (std::size_t l = 0; l < model.encoder.size(); ++l) run_layer(model, l, sources, group, x, ws);
    if (model.shape.pre_norm) normalise(model, model.encoder_norm, x, rows, x);
    return keys_and_values(model, x, rows, ws);
}

}  // namespace

void check_sources(const Transformer& model, const std::vector<Tokens>& sources) {
    for (const std::vector<int32_t>& source : sources) {
        const int64_t length = static_cast<int64_t>(source.size());
        check_tables(model, AttentionKind::encoder, length - 1, length);
        check_tables(model, AttentionKind::cross, 0, length);
    }
}

std::shared_ptr<const Chunk> keys_and_values(const Transformer& model, const float* x, int64_t rows,
                                             Workspace& ws) {
    const int64_t width = model.width, stride = stride_of(width), entry = model.key_value_width(),
                  projected_stride = stride_of(entry);
    const int64_t bytes = static_cast<int64_t>(model.decoder.size()) * rows * entry *
                          model.cache_element_size();
    const auto chunk = std::make_shared<Chunk>(model.chunks, bytes, rows);
    float* projected = ws.projected.ensure(rows * projected_stride);
    Rows source = rows_of(ws, x, rows, width, stride);
    for (std::size_t l = 0; l < model.decoder.size(); ++l) {
        const Linear& linear = model.decoder[l].key_value;
        Epilogue plain;
        plain.bias = linear.bias;
        product(*model.kernels, source, linear.weight, plain, projected, projected_stride);
        uint8_t* to = chunk->page.data + static_cast<int64_t>(l) * rows * entry * model.cache_element_size();
        for (int64_t row = 0; row < rows; ++row, to += entry * model.cache_element_size()) {
            store_key_value(model, projected + row * projected_stride, to);
        }
    }
    return chunk;
}

Memory Transformer::encode(const std::vector<Tokens>& sources, const std::vector<float*>& attention) const {
    if (!has_source()) return read_prompts(*this, sources);
    if (!attention.empty()) return encode_recorded(*this, sources, attention);
    check_sources(*this, sources);
    const std::vector<Group> groups = make_groups(sources, workers.threads());
    std::vector<std::shared_ptr<const Chunk>> encoded(groups.size());
    workers.run(static_cast<int64_t>(groups.size()), [&](int64_t part) {
        WorkspacePool::Loan ws(workspaces);
        const std::size_t g = static_cast<std::size_t>(part);
        encoded[g] = run_group(*this, sources, groups[g], *ws);
    });
    Memory memory{shared_from_this(), {}};
    memory.sentences.reserve(sources.size());
    for (std::size_t g = 0; g < groups.size(); ++g) {
        int64_t first = 0;
        for (std::size_t s = groups[g].first; s < groups[g].last; ++s) {
            const int64_t length = static_cast<int64_t>(sources[s].size());
            memory.sentences.push_back({encoded[g], first, length});
            first += length;
        }
    }
    return memory;
}

}  // namespace uwaga
