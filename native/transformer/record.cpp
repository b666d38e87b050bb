#include "transformer/record.h"

#include <algorithm>

#include "transformer/blocks.h"

namespace uwaga {

namespace {

constexpr int64_t rows_between_checks = 64;  // of a long sentence, whose attention may take seconds

// Sentences whose rows are packed together.
struct Group {
    std::size_t first = 0, last = 0;  // sentences
    int64_t rows = 0;                 // of the longer side
};

std::vector<Group> grouped(const std::vector<Reading>& readings) {
    std::vector<Group> groups;
    for (std::size_t i = 0; i < readings.size(); ++i) {
        const int64_t rows = static_cast<int64_t>(std::max(readings[i].source.size(), readings[i].target.size()));
        if (groups.empty() || groups.back().rows + rows > group_rows) groups.push_back({i, i, 0});
        groups.back().last = i + 1;
        groups.back().rows += rows;
    }
    return groups;
}

// One side of a group: the rows of its sentences, one sentence after the other.
struct Span {
    int64_t first, length;
};
struct PackedRows {
    std::vector<Span> spans;
    int64_t rows = 0;
};

// The attention of one layer: from which rows to which, and where its matrices go.
struct Attention {
    const Heads& heads;
    const PackedRows &queries, &keys;
    const Side* side;  // whose relative positions count, or null
    bool causal;
    float* Matrices::*to;
    std::size_t layer;
};

struct Recorder {
    const Model& model;
    const std::vector<Reading>& readings;
    const std::vector<Matrices>& to;
    const Group& group;
    Workspace& ws;      // of the rows that go through the layers
    Workspace& memory;  // of the encodings, which the decoder reads

    void run();
    PackedRows pack(std::vector<int32_t> Reading::*tokens, const Side& side, Workspace& at) const;
    void encode(const PackedRows& source);
    void decode(const PackedRows& source, const PackedRows& target);
    const float* project(const Linear& linear, Rows& in, Workspace& at) const;
    void attend(const Attention& one, const float* queries, int64_t query_stride, const float* keys, int64_t key_stride, float* context);
    void finish(const Attention& one, const Linear& out, const Norm& norm);
    void self_attend(const Linear& in, const Linear& out, const Norm& norm, const Attention& one);
    void cross_attend(const DecoderLayer& layer, const Attention& one);
    void recur_layer(const DecoderLayer& layer, const PackedRows& target);
};

// The embeddings of a side's tokens, in at.x.
PackedRows Recorder::pack(std::vector<int32_t> Reading::*tokens, const Side& side, Workspace& at) const {
    PackedRows packed;
    for (std::size_t s = group.first; s < group.last; ++s) {
        const int64_t length = static_cast<int64_t>((readings[s].*tokens).size());
        packed.spans.push_back({packed.rows, length});
        packed.rows += length;
    }
    int32_t* all = at.tokens.ensure(packed.rows);
    int32_t* positions = at.positions.ensure(packed.rows);
    for (std::size_t s = group.first, row = 0; s < group.last; ++s) {
        int32_t position = 0;
        for (const int32_t token : readings[s].*tokens) {
            all[row] = token;
            positions[row++] = position++;
        }
    }
    embed_rows(model, side, all, positions, packed.rows, at.x.ensure(packed.rows * stride_of(model.shape.width)));
    return packed;
}

const float* Recorder::project(const Linear& linear, Rows& in, Workspace& at) const {
    const int64_t stride = stride_of(linear.weight.outputs());
    float* projected = at.projected.ensure(in.rows * stride);
    Epilogue plain;
    plain.bias = linear.bias;
    product(*model.kernels, in, linear.weight, plain, projected, stride);
    return projected;
}

// Keys (and, `inner` numbers behind each, values) lie key_stride apart.
void Recorder::attend(const Attention& one, const float* queries, int64_t query_stride, const float* keys, int64_t key_stride, float* context) {
    const Heads& heads = one.heads;
    const int64_t inner = heads.inner(), context_stride = stride_of(inner);
    const void* cache = keys;
    if (model.shape.float16_cache) {
        uint16_t* half = ws.float16.ensure(one.keys.rows * 2 * inner);
        for (int64_t row = 0; row < one.keys.rows; ++row) model.kernels->to_float16(keys + row * key_stride, 2 * inner, half + row * 2 * inner);
        cache = half;
        key_stride = 2 * inner;
    }
    for (std::size_t s = 0; s < one.queries.spans.size(); ++s) {
        const Span& from = one.queries.spans[s];
        const Span& over = one.keys.spans[s];
        int64_t* offsets = ws.offsets.ensure(over.length);
        for (int64_t key = 0; key < over.length; ++key) offsets[key] = (over.first + key) * key_stride;
        float* weights = ws.weights.ensure(heads.count * over.length);
        float* matrix = to[group.first + s].*one.to + static_cast<int64_t>(one.layer) * heads.count * from.length * over.length;
        for (int64_t query = 0; query < from.length; ++query) {
            if (query % rows_between_checks == rows_between_checks - 1) model.workers.check();
            const int64_t row = from.first + query, length = one.causal ? query + 1 : over.length;
            const float* bias = one.side ? relative_bias(model, *one.side, heads, query, length, ws) : nullptr;
            attend_cached(model, heads, queries + row * query_stride, cache, offsets, length, bias, weights, context + row * context_stride);
            for (int64_t head = 0; head < heads.count; ++head) {
                std::copy_n(weights + head * length, length, matrix + (head * from.length + query) * over.length);
            }
        }
    }
}

// Contexts, in ws.context, through the output projection into the residual stream.
void Recorder::finish(const Attention& one, const Linear& out, const Norm& norm) {
    const int64_t inner = one.heads.inner();
    Rows attended = rows_of(ws, ws.context.get(), one.queries.rows, inner, stride_of(inner));
    block_output(model, out, norm, attended, ws.x.get(), ws, ThreadSlice{});
}

void Recorder::self_attend(const Linear& in, const Linear& out, const Norm& norm, const Attention& one) {
    const int64_t rows = one.queries.rows, inner = one.heads.inner(), stride = stride_of(3 * inner);
    Rows source = block_input(model, norm, ws.x.get(), rows, ws);
    const float* projected = project(in, source, ws);  // (rows, query | key | value)
    attend(one, projected, stride, projected + inner, stride, ws.context.ensure(rows * stride_of(inner)));
    finish(one, out, norm);
}

void Recorder::cross_attend(const DecoderLayer& layer, const Attention& one) {
    const int64_t rows = one.queries.rows, inner = one.heads.inner(), width = model.shape.width;
    Rows encodings = rows_of(memory, memory.x.get(), one.keys.rows, width, stride_of(width));
    const float* keys = project(layer.key_value, encodings, memory);
    Rows in = block_input(model, layer.cross_norm, ws.x.get(), rows, ws);
    const float* queries = project(layer.query, in, ws);
    attend(one, queries, stride_of(inner), keys, stride_of(2 * inner), ws.context.ensure(rows * stride_of(inner)));
    finish(one, layer.cross_output, layer.cross_norm);
}

// Each sentence's rows one after the other: what a position keeps is where the next one begins.
void Recorder::recur_layer(const DecoderLayer& layer, const PackedRows& target) {
    const int64_t width = model.shape.width, stride = stride_of(width);
    float* x = ws.x.get();
    Rows in = block_input(model, layer.self_norm, x, target.rows, ws);
    const float* forget = project(layer.forget, in, ws);
    float* input = ws.context.ensure(target.rows * stride);
    product(*model.kernels, in, layer.input.weight, Epilogue{}, input, stride);
    for (const Span& span : target.spans) {
        std::vector<float> cells(static_cast<std::size_t>((span.length + 1) * width));
        const Recurrence unit{forget + span.first * stride, input + span.first * stride, stride, cells.data(), cells.data() + width, width};
        recur(model, unit, layer.self_norm, x + span.first * stride, span.length, ws, ThreadSlice{});
    }
}

void Recorder::encode(const PackedRows& source) {
    const Shape& shape = model.shape;
    for (std::size_t l = 0; l < model.encoder.size(); ++l) {
        const EncoderLayer& layer = model.encoder[l];
        model.workers.check();
        self_attend(layer.query_key_value, layer.self_output, layer.self_norm, {shape.encoder, source, source, &model.source, false, &Matrices::encoder, l});
        feed_forward(model, layer.feed_forward, ws.x.get(), source.rows, ws, ws, ThreadSlice{});
    }
    if (shape.pre_norm) normalise(model, model.encoder_norm, ws.x.get(), source.rows, ws.x.get());
}

void Recorder::decode(const PackedRows& source, const PackedRows& target) {
    const Shape& shape = model.shape;
    for (std::size_t l = 0; l < model.decoder.size(); ++l) {
        const DecoderLayer& layer = model.decoder[l];
        model.workers.check();
        if (shape.recurrent) recur_layer(layer, target);
        else self_attend(layer.query_key_value, layer.self_output, layer.self_norm, {shape.decoder, target, target, &model.target, true, &Matrices::decoder, l});
        if (model.has_source()) cross_attend(layer, {shape.decoder, target, source, nullptr, false, &Matrices::cross, l});
        if (l + 1 < model.decoder.size()) feed_forward(model, layer.feed_forward, ws.x.get(), target.rows, ws, ws, ThreadSlice{});
    }
}

void Recorder::run() {
    PackedRows source;
    if (model.has_source()) {
        source = pack(&Reading::source, model.source, ws);
        encode(source);
        std::swap(ws.x, memory.x);
    }
    const PackedRows target = pack(&Reading::target, model.target, ws);
    decode(source, target);
}

}  // namespace

void record(const Model& model, const std::vector<Reading>& readings, const std::vector<Matrices>& to) {
    const std::vector<Group> groups = grouped(readings);
    model.workers.run(static_cast<int64_t>(groups.size()), [&](int64_t part) {
        WorkspacePool::Loan ws(model.workspaces), memory(model.workspaces);
        Recorder{model, readings, to, groups[static_cast<std::size_t>(part)], *ws, *memory}.run();
    });
}

}  // namespace uwaga
