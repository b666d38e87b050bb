#include "checkpoints/packer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace uwaga {

namespace {

bool finite(const float* values, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        if (!std::isfinite(values[i])) return false;
    }
    return true;
}

std::vector<int64_t> stored_shape(const Product& product, int64_t outputs) {
    return product.shape.empty() ? std::vector<int64_t>{outputs, product.inputs} : product.shape;
}

// Read a weight, or, if its product has a shape, the block of (outputs, inputs) from its first output and
// input; of a bias, with one input, its outputs.
void read_block(const StoredWeights& weights, const std::string& name, const std::vector<int64_t>& stored,
                const Product& product, int64_t column, int64_t outputs, int64_t inputs, float* to) {
    if (product.shape.empty()) return weights.read(name, stored, to);
    const int64_t stride = size_of(stored) / stored[0];
    Buffer<float> stored_values(size_of(stored));
    weights.read(name, stored, stored_values.get());
    for (int64_t row = 0; row < outputs; ++row)
        std::copy_n(stored_values.get() + (product.first + row) * stride + column, inputs, to + row * inputs);
}

}  // namespace

int64_t size_of(const std::vector<int64_t>& shape) {
    int64_t size = 1;
    for (const int64_t axis : shape) size *= axis;
    return size;
}

float from_half(uint16_t half) {
    const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16, exponent = (half >> 10) & 31u,
                   fraction = half & 0x3ffu;
    if (exponent == 0) {
        const float small = std::ldexp(static_cast<float>(fraction), -24);
        return sign ? -small : small;
    }
    const uint32_t bits = sign | (exponent == 31 ? 0x7f800000u : (exponent + 112) << 23) | fraction << 13;
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}

void Packer::pack(StoredWeights& weights, bool int8) {
    const std::vector<Product> matrices = products(opened_.settings, source_, target_);
    const auto shapes = vectors(opened_.settings, target_);
    int64_t bytes = 0, largest = 0;
    for (const Product& product : matrices) {
        bytes += matrix_bytes(int8 ? Matrix::Kind::int8 : Matrix::Kind::float32, product.outputs(),
                              product.inputs);
        largest = std::max(largest, product.outputs() * product.inputs * 4);
    }
    reserve(bytes, largest);
    for (const Product& product : matrices) {  // all shapes, before anything of their size is allocated
        for (const auto& [part, outputs] : product.parts) {
            weights.check(weight_name(part), stored_shape(product, outputs));
            if (product.bias) weights.check(bias_name(part), {stored_shape(product, outputs)[0]});
        }
    }
    for (const auto& [name, shape] : shapes) weights.check(name, shape);
    weights.check_used();
    for (const Product& product : matrices) {
        if (!int8 || !pack_integers(weights, product)) {
            Buffer<float> weights_buffer(product.outputs() * product.inputs);
            int64_t row = 0;
            for (const auto& [part, outputs] : product.parts) {
                read_block(weights, weight_name(part), stored_shape(product, outputs), product,
                           product.column, outputs, product.inputs,
                           weights_buffer.get() + row * product.inputs);
                row += outputs;
            }
            check_finite(weights.file(), product.name, weights_buffer.get(), row * product.inputs);
            parts.matrices[product.name] = int8 ? packed_int8(product, weights_buffer.get())
                                                : packed_float(product, weights_buffer.get());
        }
        if (!product.bias) continue;
        Buffer<float> bias(product.outputs());
        int64_t row = 0;
        for (const auto& [part, outputs] : product.parts) {
            read_block(weights, bias_name(part), {stored_shape(product, outputs)[0]}, product, 0, outputs, 1,
                       bias.get() + row);
            row += outputs;
        }
        add_vector(weights.file(), product.name + ".bias", std::move(bias), row);
    }
    for (const auto& [name, shape] : shapes) {
        Buffer<float> values(size_of(shape));
        weights.read(name, shape, values.get());
        add_vector(weights.file(), name, std::move(values), size_of(shape));
    }
    opened_.precision = int8 ? "int8" : "float32";
    build(weights.file());
}

// Pack a matrix all of whose parts are stored as integers, unchanged; see uwaga.engine.packing.pack.
bool Packer::pack_integers(const StoredWeights& weights, const Product& product) {
    if (!product.shape.empty()) return false;
    Int8Weights integers;
    for (const auto& [part, outputs] : product.parts) {
        if (!weights.integers(weight_name(part), {outputs, product.inputs}, integers)) return false;
    }
    check_finite(weights.file(), product.name, integers.scales.data(), integers.rows());
    parts.matrices[product.name] = packed_integers(product, integers);
    return true;
}

int64_t Packer::matrix_bytes(Matrix::Kind kind, int64_t outputs, int64_t inputs) {
    switch (kind) {
        case Matrix::Kind::int8: return int8_panels_size(outputs, inputs) + 8 * padded_outputs(outputs);
        case Matrix::Kind::int4: return int4_panels_size(outputs, inputs) + 8 * padded_outputs(outputs);
        case Matrix::Kind::bfloat16: return 2 * bfloat16_panels_size(outputs, inputs);
        default: return 4 * float_panels_size(outputs, inputs);
    }
}

void Packer::reserve(int64_t bytes, int64_t extra) {
    int64_t positions = 2 * opened_.settings.max_length * opened_.settings.width * 4;
    if (opened_.settings.positions == PositionKind::relative) positions = 0;
    opened_.bytes += bytes + positions;
    if (options_.memory && opened_.bytes + extra > options_.memory) {
        throw Failure(Fault::memory, (location_.empty() ? std::string("the model") : location_) + ": needs " +
                                         std::to_string(opened_.bytes + extra) +
                                         " bytes to open, and the bound is " +
                                         std::to_string(options_.memory));
    }
}

void Packer::check_finite(const std::string& file, const std::string& name, const float* values,
                          int64_t count) {
    if (!finite(values, count))
        throw Failure(Fault::model,
                      file + ": '" + name + "' holds numbers that are not finite; the file is damaged");
}

uint8_t* Packer::allocate(int64_t bytes) {
    opened_.panels.emplace_back(std::max<int64_t>(bytes, 1));
    return opened_.panels.back().get();
}

Matrix Packer::packed_float(const Product& product, const float* values) {
    auto* const panels = reinterpret_cast<float*>(allocate(float_panels_size(product.outputs(),
                                                                             product.inputs) *
                                                           4));
    pack_float(values, product.outputs(), product.inputs, panels);
    Matrix matrix;
    matrix.kind = Matrix::Kind::float32;
    matrix.float32 = {panels, product.outputs(), product.inputs};
    return matrix;
}

// Allocate an int8 matrix, which `fill` fills.
template <class Fill>
static Matrix filled_int8(Packer& packer, const Product& product, const Fill& fill) {
    check_int8_inputs(product.inputs);
    auto* const panels = reinterpret_cast<int8_t*>(packer.allocate(int8_panels_size(product.outputs(),
                                                                                    product.inputs)));
    auto* const scales = reinterpret_cast<float*>(packer.allocate(padded_outputs(product.outputs()) * 4));
    auto* const sums = reinterpret_cast<int32_t*>(packer.allocate(padded_outputs(product.outputs()) * 4));
    fill(panels, scales, sums);
    Matrix matrix;
    matrix.kind = Matrix::Kind::int8;
    matrix.int8 = Int8Matrix{panels, scales, sums, product.outputs(), product.inputs, 127};
    return matrix;
}

Matrix Packer::packed_int8(const Product& product, const float* values) {
    return filled_int8(*this, product, [&](int8_t* panels, float* scales, int32_t* sums) {
        pack_int8(values, product.outputs(), product.inputs, 127, panels, scales, sums);
    });
}

Matrix Packer::packed_integers(const Product& product, const Int8Weights& integers) {
    return filled_int8(*this, product, [&](int8_t* panels, float* scales, int32_t* sums) {
        pack_int8_numbers(integers.values.data(), integers.scales.data(), integers.rows(), product.outputs(),
                          product.inputs, panels, scales, sums);
    });
}

void Packer::add_vector(const std::string& file, const std::string& name, Buffer<float> values,
                        int64_t size) {
    check_finite(file, name, values.get(), size);
    parts.vectors[name == "output_bias" ? "output.bias" : name] = {values.get(), size};
    values_.push_back(std::move(values));
}

// Replace the stored positions by a table for each side, as src/uwaga/engine/model.py does.
void Packer::add_position_tables() {
    const Settings& s = opened_.settings;
    if (s.recurrent) return;
    for (const bool source : {true, false}) {
        const std::string side = source ? "source" : "target";
        if (s.positions == PositionKind::sinusoidal) {
            if (source) tables_.push_back(sinusoids(s.sinusoids, s.width, s.position_offset, s.max_length));
            parts.vectors[side + "_positions"] = {tables_.back().data(),
                                                  static_cast<int64_t>(tables_.back().size())};
            continue;
        }
        const auto entry = parts.vectors.find(side + "_positions.weight");
        const Vector stored = entry->second;
        parts.vectors.erase(entry);
        if (s.positions == PositionKind::learned) {
            parts.vectors[side + "_positions"] = {stored.data + s.position_offset * s.width,
                                                  s.max_length * s.width};
        } else {
            const int64_t heads = source ? s.encoder_heads : s.decoder_heads;
            tables_.push_back(distances(stored.data, s.relative_buckets, heads, s.relative_distance, source));
            parts.vectors[side + "_relative_bias"] = {tables_.back().data(),
                                                      static_cast<int64_t>(tables_.back().size())};
        }
    }
}

void Packer::build(const std::string& file) {
    add_position_tables();
    if (opened_.settings.tie == Tie::embeddings)
        parts.matrices["target_embedding"] = parts.matrices["source_embedding"];
    parts.settings = model_settings(opened_.settings, opened_.precision != "float32");
    parts.settings["source_vocabulary"] = static_cast<double>(source_);
    parts.settings["target_vocabulary"] = static_cast<double>(target_);
    parts.settings["threads"] = static_cast<double>(options_.threads);
    parts.settings["shared_width"] = 384;
    opened_.model = named(file, [&] { return build_model(parts, options_.isa, nullptr); });
}

}  // namespace uwaga
