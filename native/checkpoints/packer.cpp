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

std::vector<int64_t> stored_shape(const Product& one, int64_t outputs) { return one.shape.empty() ? std::vector<int64_t>{outputs, one.inputs} : one.shape; }

// Read a weight, or, if its product has a shape, the block of (outputs, inputs) from its first output and input; of a
// bias, with one input, its outputs.
void read_block(const StoredWeights& weights, const std::string& name, const std::vector<int64_t>& stored, const Product& one, int64_t column, int64_t outputs, int64_t inputs, float* to) {
    if (one.shape.empty()) return weights.read(name, stored, to);
    const int64_t stride = size_of(stored) / stored[0];
    Buffer<float> all(size_of(stored));
    weights.read(name, stored, all.get());
    for (int64_t row = 0; row < outputs; ++row) std::copy_n(all.get() + (one.first + row) * stride + column, inputs, to + row * inputs);
}

}  // namespace

int64_t size_of(const std::vector<int64_t>& shape) {
    int64_t size = 1;
    for (const int64_t axis : shape) size *= axis;
    return size;
}

float from_half(uint16_t half) {
    const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16, exponent = (half >> 10) & 31u, fraction = half & 0x3ffu;
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
    const std::vector<Product> matrices = products(made_.settings, source_, target_);
    const auto shapes = vectors(made_.settings, target_);
    int64_t bytes = 0, largest = 0;
    for (const Product& one : matrices) {
        bytes += matrix_bytes(int8 ? Matrix::Kind::int8 : Matrix::Kind::float32, one.outputs(), one.inputs);
        largest = std::max(largest, one.outputs() * one.inputs * 4);
    }
    reserve(bytes, largest);
    for (const Product& one : matrices) {  // all shapes, before anything of their size is allocated
        for (const auto& [part, outputs] : one.parts) {
            weights.check(weight_name(part), stored_shape(one, outputs));
            if (one.bias) weights.check(bias_name(part), {stored_shape(one, outputs)[0]});
        }
    }
    for (const auto& [name, shape] : shapes) weights.check(name, shape);
    weights.check_used();
    for (const Product& one : matrices) {
        if (!int8 || !pack_integers(weights, one)) {
            Buffer<float> whole(one.outputs() * one.inputs);
            int64_t row = 0;
            for (const auto& [part, outputs] : one.parts) {
                read_block(weights, weight_name(part), stored_shape(one, outputs), one, one.column, outputs, one.inputs, whole.get() + row * one.inputs);
                row += outputs;
            }
            check_finite(weights.file(), one.name, whole.get(), row * one.inputs);
            parts.matrices[one.name] = int8 ? packed_int8(one, whole.get()) : packed_float(one, whole.get());
        }
        if (!one.bias) continue;
        Buffer<float> bias(one.outputs());
        int64_t row = 0;
        for (const auto& [part, outputs] : one.parts) {
            read_block(weights, bias_name(part), {stored_shape(one, outputs)[0]}, one, 0, outputs, 1, bias.get() + row);
            row += outputs;
        }
        keep_vector(weights.file(), one.name + ".bias", std::move(bias), row);
    }
    for (const auto& [name, shape] : shapes) {
        Buffer<float> values(size_of(shape));
        weights.read(name, shape, values.get());
        keep_vector(weights.file(), name, std::move(values), size_of(shape));
    }
    made_.precision = int8 ? "int8" : "float32";
    build(weights.file());
}

// Pack a matrix all of whose parts are stored as integers, unchanged; see uwaga.engine.packing.pack.
bool Packer::pack_integers(const StoredWeights& weights, const Product& one) {
    if (!one.shape.empty()) return false;
    Int8Weights whole;
    for (const auto& [part, outputs] : one.parts) {
        if (!weights.integers(weight_name(part), {outputs, one.inputs}, whole)) return false;
    }
    check_finite(weights.file(), one.name, whole.scales.data(), whole.rows());
    parts.matrices[one.name] = packed_integers(one, whole);
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

void Packer::reserve(int64_t bytes, int64_t besides) {
    int64_t positions = 2 * made_.settings.max_length * made_.settings.width * 4;
    if (made_.settings.positions == Places::relative) positions = 0;
    made_.bytes += bytes + positions;
    if (options_.memory && made_.bytes + besides > options_.memory) {
        throw Failure(Fault::memory, (place_.empty() ? std::string("the model") : place_) + ": needs " + std::to_string(made_.bytes + besides) + " bytes to open, and the bound is " + std::to_string(options_.memory));
    }
}

void Packer::check_finite(const std::string& file, const std::string& name, const float* values, int64_t count) {
    if (!finite(values, count)) throw Failure(Fault::model, file + ": '" + name + "' holds numbers that are not finite; the file is damaged");
}

uint8_t* Packer::room(int64_t bytes) {
    made_.panels.emplace_back(std::max<int64_t>(bytes, 1));
    return made_.panels.back().get();
}

Matrix Packer::packed_float(const Product& one, const float* whole) {
    auto* const panels = reinterpret_cast<float*>(room(float_panels_size(one.outputs(), one.inputs) * 4));
    pack_float(whole, one.outputs(), one.inputs, panels);
    Matrix matrix;
    matrix.kind = Matrix::Kind::float32;
    matrix.float32 = {panels, one.outputs(), one.inputs};
    return matrix;
}

// Room for an int8 matrix, which `fill` fills.
template <class Fill>
static Matrix filled_int8(Packer& packer, const Product& one, const Fill& fill) {
    check_int8_inputs(one.inputs);
    auto* const panels = reinterpret_cast<int8_t*>(packer.room(int8_panels_size(one.outputs(), one.inputs)));
    auto* const scales = reinterpret_cast<float*>(packer.room(padded_outputs(one.outputs()) * 4));
    auto* const sums = reinterpret_cast<int32_t*>(packer.room(padded_outputs(one.outputs()) * 4));
    fill(panels, scales, sums);
    Matrix matrix;
    matrix.kind = Matrix::Kind::int8;
    matrix.int8 = Int8Matrix{panels, scales, sums, one.outputs(), one.inputs, 127};
    return matrix;
}

Matrix Packer::packed_int8(const Product& one, const float* whole) {
    return filled_int8(*this, one, [&](int8_t* panels, float* scales, int32_t* sums) { pack_int8(whole, one.outputs(), one.inputs, 127, panels, scales, sums); });
}

Matrix Packer::packed_integers(const Product& one, const Int8Weights& w) {
    return filled_int8(*this, one, [&](int8_t* panels, float* scales, int32_t* sums) {
        pack_int8_numbers(w.values.data(), w.scales.data(), w.rows(), one.outputs(), one.inputs, panels, scales, sums);
    });
}

void Packer::keep_vector(const std::string& file, const std::string& name, Buffer<float> values, int64_t size) {
    check_finite(file, name, values.get(), size);
    parts.vectors[name == "output_bias" ? "output.bias" : name] = {values.get(), size};
    values_.push_back(std::move(values));
}

// Replace the stored positions by a table for each side, as src/uwaga/engine/model.py does.
void Packer::put_positions() {
    const Settings& s = made_.settings;
    if (s.recurrent) return;
    for (const bool source : {true, false}) {
        const std::string side = source ? "source" : "target";
        if (s.positions == Places::sinusoidal) {
            if (source) tables_.push_back(sinusoids(s.sinusoids, s.width, s.position_offset, s.max_length));
            parts.vectors[side + "_positions"] = {tables_.back().data(), static_cast<int64_t>(tables_.back().size())};
            continue;
        }
        const auto found = parts.vectors.find(side + "_positions.weight");
        const Vector stored = found->second;
        parts.vectors.erase(found);
        if (s.positions == Places::learned) {
            parts.vectors[side + "_positions"] = {stored.data + s.position_offset * s.width, s.max_length * s.width};
        } else {
            const int64_t heads = source ? s.encoder_heads : s.decoder_heads;
            tables_.push_back(distances(stored.data, s.relative_buckets, heads, s.relative_distance, source));
            parts.vectors[side + "_relative_bias"] = {tables_.back().data(), static_cast<int64_t>(tables_.back().size())};
        }
    }
}

void Packer::build(const std::string& file) {
    put_positions();
    if (made_.settings.tie == Tie::embeddings) parts.matrices["target_embedding"] = parts.matrices["source_embedding"];
    parts.settings = model_settings(made_.settings, made_.precision != "float32");
    parts.settings["source_vocabulary"] = static_cast<double>(source_);
    parts.settings["target_vocabulary"] = static_cast<double>(target_);
    parts.settings["threads"] = static_cast<double>(options_.threads);
    parts.settings["shared_width"] = 384;
    made_.model = named(file, [&] { return build_model(parts, options_.isa, nullptr); });
}

}  // namespace uwaga
