// Packed weights and quantised rows with their memory, and conversions of 16-bit numbers to float.
#pragma once

#include "check.h"

namespace uwaga {

inline float from_float16(uint16_t h) {
    const int exponent = h >> 10 & 31, fraction = h & 1023;
    const float size = exponent ? std::ldexp(static_cast<float>(1024 + fraction), exponent - 25)
                                : std::ldexp(static_cast<float>(fraction), -24);
    return h & 0x8000 ? -size : size;
}

inline float from_bfloat16(uint16_t h) {
    const uint32_t bits = static_cast<uint32_t>(h) << 16;
    float f;
    std::memcpy(&f, &bits, 4);
    return f;
}

inline float rounded_to_bfloat16(float f) {  // rounds to nearest even
    uint32_t bits;
    std::memcpy(&bits, &f, 4);
    return from_bfloat16(static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16));
}

struct PackedInt8 {
    Aligned<int8_t> panels;
    Floats scales;
    Aligned<int32_t> sums;
    int64_t outputs, inputs;
    int levels;

    PackedInt8(const float* w, int64_t n, int64_t k, int how_many)
        : panels(int8_panels_size(n, k)), scales(padded_outputs(n)), sums(padded_outputs(n)), outputs(n),
          inputs(k), levels(how_many) {
        pack_int8(w, n, k, levels, panels.get(), scales.get(), sums.get());
    }
    Int8Matrix matrix() const { return {panels.get(), scales.get(), sums.get(), outputs, inputs, levels}; }
    int64_t value(int64_t n, int64_t k) const {
        return panels[n / panel * panel * padded_inputs(inputs) + k / 4 * 4 * panel + n % panel * 4 + k % 4];
    }
};

// With the same numbers in int8.
struct PackedInt4 {
    Aligned<uint8_t> panels;
    Floats scales;
    Aligned<int32_t> sums;
    Aligned<int8_t> unpacked;
    int64_t outputs, inputs;

    PackedInt4(const float* w, int64_t n, int64_t k)
        : panels(int4_panels_size(n, k)), scales(padded_outputs(n)), sums(padded_outputs(n)),
          unpacked(int8_panels_size(n, k)), outputs(n), inputs(k) {
        pack_int4(w, n, k, panels.get(), scales.get(), sums.get());
        unpack();
    }
    void unpack() {  // after `panels` were written
        unpack_int4(panels.get(), padded_outputs(outputs) / panel, inputs, unpacked.get());
        for (int64_t n = 0; n < padded_outputs(outputs); ++n) {
            sums[n] = 0;
            for (int64_t k = 0; k < padded_inputs(inputs); ++k)
                sums[n] += static_cast<int32_t>(128 * value(n, k));
        }
    }
    Int4Matrix matrix() const { return {panels.get(), scales.get(), sums.get(), outputs, inputs}; }
    Int8Matrix as_int8() const { return {unpacked.get(), scales.get(), sums.get(), outputs, inputs}; }
    const uint8_t* group(int64_t n, int64_t k) const {
        return panels.get() +
               (n / panel * (padded_inputs(inputs) / int4_inputs) + k / int4_inputs) * int4_group;
    }
    int64_t step(int64_t n, int64_t k) const { return group(n, k)[2 * (n % panel)]; }
    int64_t middle(int64_t n, int64_t k) const {
        return static_cast<int8_t>(group(n, k)[2 * (n % panel) + 1]);
    }
    int64_t value(int64_t n, int64_t k) const {  // read from the groups
        const int packed = group(n, k)[2 * panel + k % int4_inputs / 8 * 4 * panel + n % panel * 4 + k % 4];
        return step(n, k) * ((k % 8 < 4 ? packed & 15 : packed >> 4) - 8) + middle(n, k);
    }
};

struct PackedFloats {
    Floats panels;
    int64_t outputs, inputs;
    PackedFloats(const float* w, int64_t n, int64_t k)
        : panels(float_panels_size(n, k)), outputs(n), inputs(k) {
        pack_float(w, n, k, panels.get());
    }
    FloatMatrix matrix() const { return {panels.get(), outputs, inputs}; }
};
struct PackedBfloat16 {
    Aligned<uint16_t> panels;
    int64_t outputs, inputs;
    PackedBfloat16(const float* w, int64_t n, int64_t k)
        : panels(bfloat16_panels_size(n, k)), outputs(n), inputs(k) {
        pack_bfloat16(w, n, k, panels.get());
    }
    Bfloat16Matrix matrix() const { return {panels.get(), outputs, inputs}; }
};

struct Quantised {
    int64_t stride;
    Aligned<uint8_t> values;
    Floats scales;

    Quantised(const Kernels& kernels, const float* x, int64_t rows, int64_t inputs, int64_t x_stride)
        : stride(padded_inputs(inputs) + 64), values(rows * stride), scales(rows) {
        kernels.quantise(x, rows, inputs, x_stride, values.get(), scales.get(), stride);
    }
    QuantisedRows rows(int64_t first = 0) const {
        return {values.get() + first * stride, scales.get() + first, stride};
    }
};

}  // namespace uwaga
