// Packing, and embeddings read from packed weights.
#include "packed.h"
#include "tests.h"

namespace uwaga {

void test_packing() {
    Random random(12);
    for (const int levels : {127, 63}) {
        Floats w = normals(random, 37 * 70);
        for (int64_t k = 0; k < 70; ++k) w[4 * 70 + k] = 0.0f;
        const PackedInt8 packed(w.get(), 37, 70, levels);
        for (int64_t n = 0; n < padded_outputs(37); ++n) {
            int64_t sum = 0;
            for (int64_t k = 0; k < padded_inputs(70); ++k) {
                const int64_t q = packed.value(n, k);
                sum += q;
                const double should = n < 37 && k < 70 ? w[n * 70 + k] : 0.0f;
                CHECK(q >= -levels && q <= levels, "level %lld", static_cast<long long>(q));
                CHECK(std::fabs(static_cast<double>(q) * packed.scales[n] - should) <=
                          0.5001 * packed.scales[n],
                      "weight %g", should);
            }
            CHECK(packed.sums[n] == 128 * sum, "sum of output %lld", static_cast<long long>(n));
        }
    }
}

void test_embed(const Kernels& kernels) {
    Random random(10);
    const int64_t outputs = 75, inputs = 71, rows = 6, stride = inputs + 2;
    Floats w = normals(random, outputs * inputs), y(rows * stride, 77.0f);
    const PackedInt8 int8(w.get(), outputs, inputs, 127);
    const PackedFloats floats(w.get(), outputs, inputs);
    const PackedBfloat16 bfloat16s(w.get(), outputs, inputs);
    const int32_t tokens[] = {0, 31, 32, 74, 5, 5};
    for (const Kind kind : {Kind::int8, Kind::float32, Kind::bfloat16}) {
        if (kind == Kind::int8) kernels.int8_embed(int8.matrix(), tokens, rows, 3.5f, y.get(), stride);
        else if (kind == Kind::float32)
            kernels.float_embed(floats.matrix(), tokens, rows, 3.5f, y.get(), stride);
        else kernels.bfloat16_embed(bfloat16s.matrix(), tokens, rows, 3.5f, y.get(), stride);
        for (int64_t r = 0; r < rows; ++r) {
            for (int64_t k = 0; k < inputs; ++k) {
                const int64_t token = tokens[r];
                double should = 3.5 * w[token * inputs + k];
                if (kind == Kind::int8)
                    should = 3.5 * static_cast<double>(int8.value(token, k)) * int8.scales[token];
                if (kind == Kind::bfloat16) should = 3.5 * rounded_to_bfloat16(w[token * inputs + k]);
                CHECK(std::fabs(y[r * stride + k] - should) <= 1e-6 * std::fabs(should), "%g for %g",
                      static_cast<double>(y[r * stride + k]), should);
            }
            CHECK(y[r * stride + inputs] == 77.0f, "written beyond the row");
        }
    }
}

}  // namespace uwaga
