#include "transformer/blocks.h"

#include <algorithm>
#include <cstring>

#include "transformer/positions.h"

namespace uwaga {

void normalise(const Transformer& model, const Norm& norm, const float* x, int64_t rows, float* y) {
    const int64_t stride = stride_of(model.width);
    model.kernels->norm(x, rows, model.width, stride, norm.gain, norm.bias, model.shape.epsilon,
                        model.shape.rms, y, stride);
}

Rows block_input(const Transformer& model, const BlockNorms& norm, const float* x, int64_t rows,
                 Workspace& ws) {
    const int64_t width = model.width, stride = stride_of(width);
    if (!norm.before.gain) return rows_of(ws, x, rows, width, stride);
    float* normed = ws.normed.ensure(rows * stride);
    normalise(model, norm.before, x, rows, normed);
    return rows_of(ws, normed, rows, width, stride);
}

namespace {

// The end of a block with one norm: y, made by the whole team, is normalised into or copied to each member's
// x.
void finish_block(const Transformer& model, const BlockNorms& norm, const float* y, int64_t rows, float* x,
                  const ThreadSlice& slice) {
    const int64_t stride = stride_of(model.width);
    slice.wait();
    if (norm.after.gain) normalise(model, norm.after, y, rows, x);
    else if (x != y) std::memcpy(x, y, static_cast<std::size_t>(rows * stride) * sizeof(float));
}

}  // namespace

void block_output(const Transformer& model, const Linear& out, const BlockNorms& norm, Rows& in, float* x,
                  Workspace& ws, Workspace& shared, const ThreadSlice& slice) {
    const int64_t width = model.width, stride = stride_of(width);
    Epilogue residual;
    residual.bias = out.bias;
    if (norm.before.gain && norm.after.gain) {
        float* normed = ws.normed.ensure(in.rows * stride);
        float* y = slice.count == 1 ? normed : shared.features.get();
        product(*model.kernels, in, out.weight, residual, y, stride, slice);
        slice.wait();
        normalise(model, norm.after, y, in.rows, normed);
        for (int64_t row = 0; row < in.rows; ++row) {
            for (int64_t i = row * stride; i < row * stride + width; ++i) x[i] += normed[i];
        }
        return;
    }
    residual.residual = x;
    residual.residual_stride = stride;
    float* y = slice.count == 1 ? x : shared.features.get();
    product(*model.kernels, in, out.weight, residual, y, stride, slice);
    finish_block(model, norm, y, in.rows, x, slice);
}

void recur(const Transformer& model, const Recurrence& unit, const BlockNorms& norm, float* x, int64_t rows,
           Workspace& shared, const ThreadSlice& slice) {
    const int64_t width = model.width, stride = stride_of(width);
    float* y = slice.count == 1 ? x : shared.features.get();
    for (int64_t row = slice.first(rows); row < slice.last(rows); ++row) {
        model.kernels->ssru(unit.forget + row * unit.stride, unit.input + row * unit.stride,
                            unit.before + row * unit.cells_stride, x + row * stride, width,
                            unit.after + row * unit.cells_stride, y + row * stride);
    }
    finish_block(model, norm, y, rows, x, slice);
}

void feed_forward(const Transformer& model, const FeedForward& layer, float* x, int64_t rows, Workspace& ws,
                  Workspace& shared, const ThreadSlice& slice) {
    const Kernels& kernels = *model.kernels;
    const int64_t inner = layer.inner.weight.outputs(), inner_stride = stride_of(inner);
    Rows in = block_input(model, layer.norm, x, rows, ws);
    float* hidden = slice.count == 1 ? shared.hidden.ensure(rows * inner_stride) : shared.hidden.get();
    Epilogue activated;
    if (layer.gate.weight) {
        Epilogue gate;
        gate.bias = layer.gate.bias;
        float* gates = slice.count == 1 ? shared.gate.ensure(rows * inner_stride) : shared.gate.get();
        product(kernels, in, layer.gate.weight, gate, gates, inner_stride, slice);
        activated.gate = gates;
        activated.gate_stride = inner_stride;
    }
    activated.bias = layer.inner.bias;
    activated.activation = model.shape.activation;
    product(kernels, in, layer.inner.weight, activated, hidden, inner_stride, slice);
    slice.wait();
    Rows middle = rows_of(ws, hidden, rows, inner, inner_stride);
    block_output(model, layer.outer, layer.norm, middle, x, ws, shared, slice);
}

void scale_output(const Transformer& model, float* x, int64_t rows) {
    const float scale = model.shape.output_scale;
    const int64_t width = model.width, stride = stride_of(width);
    for (int64_t row = 0; scale != 1.0f && row < rows; ++row) {
        for (int64_t i = 0; i < width; ++i) x[row * stride + i] *= scale;
    }
}

void embed_rows(const Transformer& model, const Side& side, const int32_t* tokens, const int32_t* positions,
                int64_t rows, float* x, Workspace& ws) {
    const int64_t width = model.width, stride = stride_of(width);
    embed(*model.kernels, side.embedding, tokens, rows, model.shape.embedding_scale, x, stride);
    const Spread& spread = side.embedding.spread;
    float* scratch = ws.spread.ensure(2 * width);
    for (int64_t row = 0; spread && row < rows; ++row) {
        model.kernels->spread(x + row * stride, spread, true, scratch);
        std::copy_n(scratch, width, x + row * stride);
    }
    if (side.positions) {
        const std::vector<int32_t>* replaced = nullptr;
        if (model.edits)
            replaced = &side == &model.source ? &model.edits->source_positions
                                              : &model.edits->target_positions;
        for (int64_t row = 0; row < rows; ++row) {
            const std::size_t index = static_cast<std::size_t>(positions[row]);
            const float* position = side.positions + (replaced && index < replaced->size()
                                                          ? (*replaced)[index]
                                                          : positions[row]) *
                                                         width;
            float* to = x + row * stride;
            for (int64_t i = 0; i < width; ++i) to[i] += position[i];
        }
    }
    if (side.norm.gain) normalise(model, side.norm, x, rows, x);
}

const float* rotary_angles(const Transformer& model, const int32_t* positions, int64_t rows, Workspace& ws) {
    if (model.rotary.empty()) return nullptr;
    const int64_t width = model.shape.decoder.width, tables = static_cast<int64_t>(model.rotary.size());
    const std::vector<int32_t>* replaced = model.edits && !model.edits->target_positions.empty()
                                               ? &model.edits->target_positions
                                               : nullptr;
    float* to = ws.angles.ensure(rows * tables * width);
    for (int64_t row = 0; row < rows; ++row) {
        const std::size_t index = static_cast<std::size_t>(positions[row]);
        const int64_t position = replaced && index < replaced->size() ? (*replaced)[index] : positions[row];
        for (int64_t table = 0; table < tables; ++table) {
            const Rotary& rotary = model.rotary[static_cast<std::size_t>(table)];
            write_angles(rotary.frequencies, rotary.factor, position, to + (row * tables + table) * width);
        }
    }
    return to;
}

void normalise_and_rotate(const Transformer& model, const DecoderLayer& layer, const float* angles,
                          bool queries, float* projected) {
    const Heads& heads = model.shape.decoder;
    const auto process_heads = [&](float* x, int64_t count, const float* gain) {
        const auto normalised = [&](bool rotated) {
            if (gain && model.shape.norm_rotated == rotated)
                model.kernels->norm(x, count, heads.width, heads.width, gain, nullptr, model.shape.epsilon,
                                    true, x, heads.width);
        };
        normalised(false);
        if (layer.rotary >= 0)
            model.kernels->rotate(x, count, heads.width, angles + layer.rotary * heads.width);
        normalised(true);
    };
    if (queries) process_heads(projected, heads.count, layer.query_norm);
    process_heads(projected + heads.inner(), heads.count / heads.group, layer.key_norm);
}

void attend_keys(const Transformer& model, const Heads& heads, bool float16, const void* keys,
                 CachedAttention attention) {
    attention.heads = heads.count;
    attention.group = heads.group;
    attention.head_width = attention.head_stride = heads.width;
    attention.scale = heads.scale;
    attention.cap = heads.cap;
    const int64_t value = heads.key_width();
    if (float16)
        model.kernels->attend_float16(attention, static_cast<const uint16_t*>(keys),
                                      static_cast<const uint16_t*>(keys) + value);
    else
        model.kernels->attend_float(attention, static_cast<const float*>(keys),
                                    static_cast<const float*>(keys) + value);
}

CachedAttention single_query(const float* query, const int64_t* offsets, int64_t length, const float* bias,
                             float* weights, float* context) {
    CachedAttention attention;
    attention.query = query;
    attention.offsets = offsets;
    attention.length = length;
    attention.bias = bias;
    attention.weights = weights;
    attention.context = context;
    return attention;
}

void attend_cached(const Transformer& model, const Heads& heads, const QueryPosition& position,
                   const void* keys, const CachedAttention& attention) {
    const bool float16 = model.shape.float16_cache;
    if (model.edits) attend_edited(model, heads, position, float16, keys, attention);
    else attend_keys(model, heads, float16, keys, attention);
}

void store_key_value(const Transformer& model, const float* key_value, uint8_t* to) {
    const int64_t width = model.key_value_width();
    if (model.shape.float16_cache)
        model.kernels->to_float16(key_value, width, reinterpret_cast<uint16_t*>(to));
    else std::memcpy(to, key_value, static_cast<std::size_t>(width) * sizeof(float));
}

const float* relative_bias(const Transformer& model, const Side& side, const Heads& heads, int64_t query,
                           int64_t length, Workspace& ws) {
    if (!side.relative_bias) return nullptr;
    const int64_t max_distance = model.shape.max_distance;
    float* bias = ws.bias.ensure(heads.count * length);
    for (int64_t head = 0; head < heads.count; ++head) {
        const float* head_bias = side.relative_bias + head * (2 * max_distance + 1) + max_distance;
        for (int64_t key = 0; key < length; ++key)
            bias[head * length + key] = head_bias[std::clamp(key - query, -max_distance, max_distance)];
    }
    return bias;
}

}  // namespace uwaga
