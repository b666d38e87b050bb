#include "network/matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace uwaga {

// Strides avoid multiples of 2 KB, so that rows do not map to the same cache sets.
int64_t stride_of(int64_t width) {
    const int64_t padded = rounded(width, 32);
    return padded % 512 == 0 ? padded + 32 : padded;
}

Rows rows_of(Workspace& ws, const float* x, int64_t rows, int64_t width, int64_t stride, int64_t terms) {
    // Avoid multiples of 512 bytes, as above. The quantising kernel fills the padding.
    int64_t bytes = rounded(width, 64);
    if (bytes % 512 == 0) bytes += 64;
    return {x,
            rows,
            width,
            stride,
            ws.quantised.ensure(rows * terms * bytes),
            ws.scales.ensure(rows * terms),
            bytes,
            ws.spread.ensure(2 * width),
            terms};
}

void Rows::quantise_rows(const Kernels& kernels, const Spread& spread) {
    for (int64_t row = 0; row < rows; ++row) {
        const float* from = x + row * stride;
        if (spread) {
            kernels.spread(from, spread, false, scratch);
            from = scratch;
        }
        uint8_t* to = values + row * terms * values_stride;
        float* scale = scales + row * terms;
        kernels.quantise(from, 1, width, width, to, scale, values_stride);
        if (terms == 1) continue;
        for (int64_t k = 0; k < width; ++k) scratch[k] = from[k] - scale[0] * static_cast<float>(to[k] - 128);
        kernels.quantise(scratch, 1, width, width, to + values_stride, scale + 1, values_stride);
    }
}

double logit_at(Rows& in, int64_t row, const Matrix& w, const LogitEpilogue& e, int64_t token) {
    const int64_t inputs = w.inputs(), panel_index = token / panel, column = token % panel;
    const float* x = in.x + row * in.stride;
    double sum = 0;
    if (w.quantised()) {
        // As in the kernels: for each term an exact integer and two roundings.
        const int64_t depth = padded_inputs(inputs);
        std::vector<int8_t> unpacked;
        if (w.kind == Matrix::Kind::int4) {
            unpacked.resize(static_cast<std::size_t>(depth * panel));
            unpack_int4(w.int4.panels + panel_index * int4_panels_size(panel, inputs), 1, inputs,
                        unpacked.data());
        }
        const int8_t* from = (w.kind == Matrix::Kind::int8 ? w.int8.panels + panel_index * panel * depth
                                                           : unpacked.data()) +
                             column * 4;
        float logit = 0;
        for (int64_t term = row * in.terms; term < (row + 1) * in.terms; ++term) {
            const uint8_t* values = in.values + term * in.values_stride;
            int32_t exact = 0;
            for (int64_t k = 0; k < inputs; ++k)
                exact += (static_cast<int32_t>(values[k]) - 128) * from[k / 4 * 4 * panel + k % 4];
            const float part = static_cast<float>(exact) * (in.scales[term] * w.scales()[token]);
            logit = term == row * in.terms ? part : logit + part;
        }
        if (e.bias) logit += e.bias[token];
        return e.cap != 0 ? e.cap * std::tanh(static_cast<double>(logit) / e.cap) : logit;
    }
    if (w.kind == Matrix::Kind::bfloat16) {
        const uint16_t* from = w.bfloat16.panels + panel_index * panel * ((inputs + 1) / 2 * 2) + column * 2;
        for (int64_t k = 0; k < inputs; ++k) {
            const uint32_t bits = static_cast<uint32_t>(from[k / 2 * 2 * panel + k % 2]) << 16;
            float value;
            std::memcpy(&value, &bits, 4);
            sum += static_cast<double>(x[k]) * value;
        }
    } else {
        const float* from = w.float32.panels + panel_index * panel * inputs + column;
        for (int64_t k = 0; k < inputs; ++k) sum += static_cast<double>(x[k]) * from[k * panel];
    }
    if (e.bias) sum += e.bias[token];
    return e.cap != 0 ? e.cap * std::tanh(sum / e.cap) : sum;
}

void check_int8_inputs(int64_t inputs) {
    if (inputs > max_int8_inputs)
        throw std::invalid_argument("a matrix has " + std::to_string(inputs) +
                                    " inputs; int8 allows at most " + std::to_string(max_int8_inputs));
}

void check_int8(const Int8Matrix& w) {
    constexpr int64_t group = 4 * panel, max_groups = 256;  // groups whose sums fit in 16 bits
    const int64_t groups = padded_inputs(w.inputs) / 4;
    const int8_t limit = static_cast<int8_t>(w.levels);
    const int8_t* from = w.panels;
    int excess = 0;
    for (int64_t first = 0; first < padded_outputs(w.outputs); first += panel) {
        int32_t sums[panel] = {};
        for (int64_t g = 0; g < groups; g += max_groups) {
            int16_t partial[group] = {};
            for (int64_t i = g; i < std::min(groups, g + max_groups); ++i, from += group) {
                int8_t outside = 0;
                for (int64_t k = 0; k < group; ++k) {
                    partial[k] = static_cast<int16_t>(partial[k] + from[k]);
                    outside |= static_cast<int8_t>((from[k] > limit) | (from[k] < -limit));
                }
                excess |= outside;
            }
            for (int64_t k = 0; k < group; ++k) sums[k / 4] += partial[k];
        }
        for (int64_t n = 0; n < panel; ++n) {
            if (w.sums[first + n] != 128 * sums[n])
                throw std::invalid_argument("sums: do not match the panels");
        }
    }
    if (excess)
        throw std::invalid_argument("panels: numbers exceed the " + std::to_string(w.levels) + " levels");
}

void check_int4(const Int4Matrix& w) {
    const int64_t groups = padded_inputs(w.inputs) / int4_inputs;
    const uint8_t* from = w.panels;
    for (int64_t first = 0; first < padded_outputs(w.outputs); first += panel) {
        int32_t sums[panel] = {};
        for (int64_t g = 0; g < groups; ++g, from += int4_group) {
            int32_t level_sums[panel] = {};
            for (int64_t i = 2 * panel; i < int4_group; i += 4 * panel) {
                for (int64_t k = 0; k < 4 * panel; ++k)
                    level_sums[k / 4] += (from[i + k] & 15) + (from[i + k] >> 4);
            }
            for (int64_t c = 0; c < panel; ++c) {
                const int32_t step = from[2 * c], middle = static_cast<int8_t>(from[2 * c + 1]);
                if (step > 16 || middle - 8 * step < -127 || middle + 7 * step > 127)
                    throw std::invalid_argument("panels: the grid of a group exceeds int8");
                sums[c] += step * (level_sums[c] - 8 * static_cast<int32_t>(int4_inputs)) +
                           middle * static_cast<int32_t>(int4_inputs);
            }
        }
        for (int64_t c = 0; c < panel; ++c) {
            if (w.sums[first + c] != 128 * sums[c])
                throw std::invalid_argument("sums: do not match the panels");
        }
    }
}

}  // namespace uwaga
