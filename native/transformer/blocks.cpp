// What encoder and decoder share.
#include <algorithm>
#include <cstring>

#include "transformer/model.h"

namespace uwaga {

namespace {
// Strides are odd multiples of a cache line, so that rows do not fall into the same cache sets.
int64_t padded(int64_t width) {
    const int64_t whole = rounded(width, 32);
    return whole % 512 == 0 ? whole + 32 : whole;
}
}  // namespace

int64_t stride_of(int64_t width) { return padded(width); }

void normalise(const Model& model, const Norm& norm, float* x, int64_t rows, float* y) {
    const int64_t stride = stride_of(model.shape.width);
    model.kernels->norm(x, rows, model.shape.width, stride, norm.gain, norm.bias, model.shape.epsilon, model.shape.rms, y, stride);
}

Rows rows_of(Workspace& ws, const float* x, int64_t rows, int64_t width, int64_t stride) {
    // An odd number of cache lines, as above; what follows the width is filled by the quantising kernel.
    int64_t bytes = rounded(width, 64);
    if (bytes % 512 == 0) bytes += 64;
    return {x, rows, width, stride, ws.quantised.ensure(rows * bytes), ws.scales.ensure(rows), bytes};
}

// What follows a block: x is y, normalised in a post-norm model.
void settle(const Model& model, const Norm& norm, float* y, int64_t rows, float* x) {
    if (!model.shape.pre_norm) return normalise(model, norm, y, rows, x);
    if (x != y) std::memcpy(x, y, static_cast<std::size_t>(rows * stride_of(model.shape.width)) * sizeof(float));
}

void feed_forward(const Model& model, const FeedForward& layer, float* x, int64_t rows, Workspace& ws, Workspace& shared, const Share& share) {
    const Kernels& kernels = *model.kernels;
    const int64_t width = model.shape.width, stride = stride_of(width);
    const int64_t inner = layer.inner.weight.outputs(), inner_stride = stride_of(inner);
    const float* in = x;
    if (model.shape.pre_norm) {
        normalise(model, layer.norm, x, rows, ws.normed.ensure(rows * stride));
        in = ws.normed.get();
    }
    Rows source = rows_of(ws, in, rows, width, stride);
    float* hidden = share.size == 1 ? shared.hidden.ensure(rows * inner_stride) : shared.hidden.get();
    Epilogue first;
    if (layer.gate.weight) {
        Epilogue gate;
        gate.bias = layer.gate.bias;
        float* gates = share.size == 1 ? shared.gate.ensure(rows * inner_stride) : shared.gate.get();
        product(kernels, source, layer.gate.weight, gate, gates, inner_stride, share);
        first.gate = gates;
        first.gate_stride = inner_stride;
    }
    first.bias = layer.inner.bias;
    first.activation = model.shape.activation;
    product(kernels, source, layer.inner.weight, first, hidden, inner_stride, share);
    share.wait();
    Rows middle = rows_of(ws, hidden, rows, inner, inner_stride);
    Epilogue second;
    second.bias = layer.outer.bias;
    second.residual = x;
    second.residual_stride = stride;
    float* y = share.size == 1 ? x : shared.features.get();
    product(kernels, middle, layer.outer.weight, second, y, stride, share);
    share.wait();
    settle(model, layer.norm, y, rows, x);
}

void embed_rows(const Model& model, const Side& side, const int32_t* tokens, const int32_t* positions, int64_t rows, float* x) {
    const Shape& shape = model.shape;
    const int64_t stride = stride_of(shape.width);
    embed(*model.kernels, side.embedding, tokens, rows, shape.embedding_scale, x, stride);
    if (side.positions) {
        for (int64_t row = 0; row < rows; ++row) {
            const float* position = side.positions + positions[row] * shape.width;
            float* to = x + row * stride;
            for (int64_t i = 0; i < shape.width; ++i) to[i] += position[i];
        }
    }
    if (side.norm.gain) normalise(model, side.norm, x, rows, x);
}

void attend_entries(const Model& model, const float* query, const uint8_t* keys, const int64_t* where, int64_t length, const float* bias, float* weights, float* context) {
    const Shape& shape = model.shape;
    const int64_t inner = shape.decoder_inner(), heads = shape.decoder_heads, width = shape.decoder_head_width;
    if (shape.half_memory) {
        const uint16_t* from = reinterpret_cast<const uint16_t*>(keys);
        model.kernels->attend_float16(query, from, from + inner, where, length, heads, width, width, shape.decoder_scale, bias, weights, context);
    } else {
        const float* from = reinterpret_cast<const float*>(keys);
        model.kernels->attend_float(query, from, from + inner, where, length, heads, width, width, shape.decoder_scale, bias, weights, context);
    }
}

void write_entry(const Model& model, const float* key_value, uint8_t* to) {
    if (model.shape.half_memory) model.kernels->to_float16(key_value, model.entry(), reinterpret_cast<uint16_t*>(to));
    else std::memcpy(to, key_value, static_cast<std::size_t>(model.entry()) * sizeof(float));
}

// The bias (heads, length) of one query's scores, or null where positions are not relative.
const float* distance_bias(const Side& side, int64_t heads, int64_t reach, int64_t query, int64_t length, Workspace& ws) {
    if (!side.distances) return nullptr;
    float* bias = ws.bias.ensure(heads * length);
    for (int64_t head = 0; head < heads; ++head) {
        const float* of_head = side.distances + head * (2 * reach + 1) + reach;
        for (int64_t key = 0; key < length; ++key) {
            bias[head * length + key] = of_head[std::clamp(key - query, -reach, reach)];
        }
    }
    return bias;
}

}  // namespace uwaga
