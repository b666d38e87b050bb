// Packing of weights into groups of 4-bit numbers: portable, done once when a folder is written or read.
#include <cmath>
#include <cstring>

#include "kernels/kernels.h"
#include "kernels/rounding.h"

namespace uwaga {
namespace {

constexpr int64_t group = int4_inputs;

float sum(const float (&x)[group]) {
    float lanes[8] = {};
    for (int64_t k = 0; k < group; k += 8) {
        for (int64_t i = 0; i < 8; ++i) lanes[i] += x[k + i];
    }
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

// The numbers step * (q - 8) + middle nearest to a group's weights, which are given in units of the output's
// scale: from -127 to 127, `count` of them, the remaining ones 0.
struct Grid {
    int step = 0, middle = 0;
    uint8_t q[group] = {};
    float error = 0;
};

constexpr float share_covered = 0.75f;  // least part of the range of the weights that a tried grid spans

Grid nearest_grid(const float (&v)[group], int64_t count) {
    float min = v[0], max = v[0];
    for (int64_t k = 1; k < count; ++k) {
        min = std::fmin(min, v[k]);
        max = std::fmax(max, v[k]);
    }
    const float full_step = (max - min) / 15.0f;  // the step that spans all
    const int last = full_step > 16.0f ? 16 : full_step > 1.0f ? static_cast<int>(std::ceil(full_step)) : 1;
    const int first = full_step * share_covered > 1.0f ? static_cast<int>(full_step * share_covered) : 1;
    Grid best;
    for (int step = last; step >= first; --step) {
        const float step_size = static_cast<float>(step), inverse = 1.0f / step_size;
        const float lowest = -127.0f + 8.0f * step_size, highest = 127.0f - 7.0f * step_size;  // middles
                                                                                               // whose grid
                                                                                               // fits in int8
        float middle = clamp(nearest(0.5f * (min + max + step_size)), lowest, highest);
        for (int iteration = 0; iteration < 3; ++iteration) {
            float q[group], off[group], squares[group];
            for (int64_t k = 0; k < group; ++k) {
                q[k] = clamp(nearest((v[k] - middle) * inverse), -8.0f, 7.0f);
                off[k] = k < count ? v[k] - (step_size * q[k] + middle) : 0.0f;
                squares[k] = off[k] * off[k];
            }
            const float error = sum(squares);
            if ((step == last && iteration == 0) || error < best.error) {
                best.step = step;
                best.middle = static_cast<int>(middle);
                best.error = error;
                for (int64_t k = 0; k < group; ++k)
                    best.q[k] = static_cast<uint8_t>(static_cast<int>(q[k]) + 8);
            }
            const float better = clamp(nearest(middle + sum(off) / static_cast<float>(count)), lowest,
                                       highest);
            if (better == middle) break;
            middle = better;
        }
    }
    return best;
}

// Write a group of one output; returns the sum of its 32 int8 numbers.
int32_t put(const Grid& grid, int64_t column, uint8_t* to) {
    to[2 * column] = static_cast<uint8_t>(grid.step);
    to[2 * column + 1] = static_cast<uint8_t>(static_cast<int8_t>(grid.middle));
    uint8_t* numbers = to + 2 * panel + 4 * column;
    int32_t total = 0;
    for (int64_t k = 0; k < group; ++k) {
        uint8_t& packed = numbers[k / 8 * 4 * panel + k % 4];
        packed = static_cast<uint8_t>(k % 8 < 4 ? grid.q[k] : packed | grid.q[k] << 4);
        total += grid.step * (grid.q[k] - 8) + grid.middle;
    }
    return total;
}

}  // namespace

int64_t int4_panels_size(int64_t outputs, int64_t inputs) {
    return padded_outputs(outputs) / panel * (padded_inputs(inputs) / group) * int4_group;
}

void pack_int4(const float* w, int64_t outputs, int64_t inputs, uint8_t* panels, float* scales,
               int32_t* sums) {
    const int64_t groups = padded_inputs(inputs) / group;
    std::memset(panels, 0, static_cast<size_t>(int4_panels_size(outputs, inputs)));
    for (int64_t n = 0; n < padded_outputs(outputs); ++n) {
        scales[n] = 0.0f;
        sums[n] = 0;
        if (n >= outputs) continue;
        const float* row = w + n * inputs;
        const float largest = largest_magnitude(row, inputs);
        if (std::isnan(largest)) {
            scales[n] = largest;
            continue;
        }
        if (largest < 1e-30f) continue;
        scales[n] = largest / 127.0f;
        const float inverse = 127.0f / largest;
        for (int64_t k = 0; k < inputs; k += group) {
            const int64_t count = inputs - k < group ? inputs - k : group;
            float v[group] = {};
            for (int64_t i = 0; i < count; ++i) v[i] = row[k + i] * inverse;
            sums[n] += 128 * put(nearest_grid(v, count), n % panel,
                                 panels + (n / panel * groups + k / group) * int4_group);
        }
    }
}

void unpack_int4(const uint8_t* panels, int64_t count, int64_t inputs, int8_t* to) {
    const int64_t groups = count * padded_inputs(inputs) / group;
    for (int64_t g = 0; g < groups; ++g, panels += int4_group, to += group * panel) {
        for (int64_t k = 0; k < group; ++k) {
            const uint8_t* numbers = panels + 2 * panel + k / 8 * 4 * panel + k % 4;
            for (int64_t c = 0; c < panel; ++c) {
                const int q = k % 8 < 4 ? numbers[4 * c] & 15 : numbers[4 * c] >> 4;
                to[k / 4 * 4 * panel + 4 * c + k % 4] =
                    static_cast<int8_t>(panels[2 * c] * (q - 8) + static_cast<int8_t>(panels[2 * c + 1]));
            }
        }
    }
}

}  // namespace uwaga
