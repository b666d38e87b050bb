#include "transformer/matrix.h"

#include <cstring>

namespace uwaga {

double logit_at(Rows& in, int64_t row, const Matrix& w, const float* bias, int64_t token) {
    const int64_t inputs = w.inputs(), at = token / panel, column = token % panel;
    const float* x = in.x + row * in.stride;
    double sum = 0;
    if (w.kind == Matrix::Kind::int8) {
        // As in the kernels: an exact integer and two roundings.
        const int64_t depth = padded_inputs(inputs);
        const int8_t* from = w.int8.panels + at * panel * depth + column * 4;
        const uint8_t* values = in.values + row * in.values_stride;
        int32_t exact = 0;
        for (int64_t k = 0; k < inputs; ++k) exact += (static_cast<int32_t>(values[k]) - 128) * from[k / 4 * 4 * panel + k % 4];
        const float logit = static_cast<float>(exact) * (in.scales[row] * w.int8.scales[token]);
        return bias ? logit + bias[token] : logit;
    }
    if (w.kind == Matrix::Kind::bfloat16) {
        const uint16_t* from = w.bfloat16.panels + at * panel * ((inputs + 1) / 2 * 2) + column * 2;
        for (int64_t k = 0; k < inputs; ++k) {
            const uint32_t bits = static_cast<uint32_t>(from[k / 2 * 2 * panel + k % 2]) << 16;
            float value;
            std::memcpy(&value, &bits, 4);
            sum += static_cast<double>(x[k]) * value;
        }
    } else {
        const float* from = w.float32.panels + at * panel * inputs + column;
        for (int64_t k = 0; k < inputs; ++k) sum += static_cast<double>(x[k]) * from[k * panel];
    }
    return bias ? sum + bias[token] : sum;
}

}  // namespace uwaga
