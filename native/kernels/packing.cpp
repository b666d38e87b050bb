// Packing of weights into panels of 32 outputs: portable, done once when a folder is written or read.
#include <cmath>
#include <cstring>

#include "kernels/rounding.h"
#include "kernels/spread_rows.h"

namespace uwaga {
namespace {

constexpr int64_t lanes = 16;  // for the compiler to vectorise

constexpr int64_t rounded_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

uint16_t bfloat16_of(float f) {
    uint32_t bits;
    std::memcpy(&bits, &f, 4);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
    return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace

int64_t padded_outputs(int64_t outputs) { return rounded_up(outputs, panel); }
int64_t padded_inputs(int64_t inputs) { return rounded_up(inputs, 64); }
int64_t int8_panels_size(int64_t outputs, int64_t inputs) {
    return padded_outputs(outputs) * padded_inputs(inputs);
}
int64_t float_panels_size(int64_t outputs, int64_t inputs) { return padded_outputs(outputs) * inputs; }
int64_t bfloat16_panels_size(int64_t outputs, int64_t inputs) {
    return padded_outputs(outputs) * rounded_up(inputs, 2);
}

float largest_magnitude(const float* row, int64_t inputs) {
    float largest[lanes] = {}, not_finite[lanes] = {};  // NaN if a weight is not finite
    const auto add = [&](float weight, int64_t lane) {
        const float magnitude = std::fabs(weight);
        largest[lane] = magnitude > largest[lane] ? magnitude : largest[lane];
        not_finite[lane] += weight * 0.0f;
    };
    int64_t k = 0;
    for (; k + lanes <= inputs; k += lanes) {
        for (int64_t lane = 0; lane < lanes; ++lane) add(row[k + lane], lane);
    }
    for (; k < inputs; ++k) add(row[k], 0);
    for (int64_t lane = 1; lane < lanes; ++lane) {
        largest[0] = largest[lane] > largest[0] ? largest[lane] : largest[0];
        not_finite[0] += not_finite[lane];
    }
    return std::isnan(not_finite[0]) ? not_finite[0] : largest[0];
}

void pack_int8(const float* w, int64_t outputs, int64_t inputs, int levels, int8_t* panels, float* scales,
               int32_t* sums, const Spread& spread) {
    const int64_t depth = padded_inputs(inputs);
    SpreadRows rows(w, inputs, spread);
    std::memset(panels, 0, static_cast<size_t>(int8_panels_size(outputs, inputs)));
    for (int64_t n = 0; n < padded_outputs(outputs); ++n) {
        scales[n] = 0.0f;
        sums[n] = 0;
        if (n >= outputs) continue;
        const float* row = rows.row_at(n);
        const float largest = largest_magnitude(row, inputs);
        if (std::isnan(largest)) {
            scales[n] = largest;
            continue;
        }
        if (largest < 1e-30f) continue;
        const float max = static_cast<float>(levels), inverse = max / largest;
        int32_t sum = 0;
        int8_t* to = panels + n / panel * panel * depth + n % panel * 4;
        for (int64_t first = 0; first < inputs; first += 64) {
            int8_t numbers[64] = {};
            const int64_t count = inputs - first < 64 ? inputs - first : 64;
            for (int64_t k = 0; k < count; ++k) {
                const float q = clamp(nearest(row[first + k] * inverse), -max, max);
                numbers[k] = static_cast<int8_t>(static_cast<int32_t>(q));
                sum += numbers[k];
            }
            for (int64_t k = 0; k < 64; k += 4) std::memcpy(to + (first + k) * panel, numbers + k, 4);
        }
        scales[n] = largest / max;
        sums[n] = 128 * sum;
    }
}

void pack_int8_numbers(const int8_t* w, const float* row_scales, int64_t rows, int64_t outputs,
                       int64_t inputs, int8_t* panels, float* scales, int32_t* sums) {
    const int64_t depth = padded_inputs(inputs);
    std::memset(panels, 0, static_cast<size_t>(int8_panels_size(outputs, inputs)));
    for (int64_t n = 0; n < padded_outputs(outputs); ++n) {
        scales[n] = n < rows ? row_scales[n] : 0.0f;
        sums[n] = 0;
        if (n >= rows) continue;
        const int8_t* row = w + n * inputs;
        int8_t* to = panels + n / panel * panel * depth + n % panel * 4;
        int32_t sum = 0;
        int64_t k = 0;
        for (; k + 4 <= inputs; k += 4) {
            std::memcpy(to + k * panel, row + k, 4);
            sum += row[k] + row[k + 1] + row[k + 2] + row[k + 3];
        }
        for (; k < inputs; ++k) {
            to[k / 4 * 4 * panel + k % 4] = row[k];
            sum += row[k];
        }
        sums[n] = 128 * sum;
    }
}

void pack_float(const float* w, int64_t outputs, int64_t inputs, float* panels) {
    for (int64_t n = 0; n < padded_outputs(outputs); ++n) {
        float* to = panels + n / panel * panel * inputs + n % panel;
        for (int64_t k = 0; k < inputs; ++k) to[k * panel] = n < outputs ? w[n * inputs + k] : 0.0f;
    }
}

void pack_bfloat16(const float* w, int64_t outputs, int64_t inputs, uint16_t* panels) {
    const int64_t depth = rounded_up(inputs, 2);
    for (int64_t n = 0; n < padded_outputs(outputs); ++n) {
        uint16_t* to = panels + n / panel * panel * depth + n % panel * 2;
        for (int64_t k = 0; k < depth; ++k) {
            to[k / 2 * 2 * panel + k % 2] = n < outputs && k < inputs ? bfloat16_of(w[n * inputs + k])
                                                                      : static_cast<uint16_t>(0);
        }
    }
}

}  // namespace uwaga
