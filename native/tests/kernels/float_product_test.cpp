// The products with float32 and bfloat16 weights.
#include "epilogue.h"
#include "packed.h"
#include "tests.h"

namespace uwaga {

void test_float_product(const Kernels& kernels, bool bfloat16) {
    Random random(6);
    const int64_t sizes[][2] = {{1, 1}, {32, 64}, {33, 65}, {5, 200}, {100, 37}, {70, 512}};
    int turn = 0;
    for (const auto& size : sizes) {
        const int64_t outputs = size[0], inputs = size[1], max_rows = 40, x_stride = inputs + 1;
        Floats w = normals(random, outputs * inputs), x = normals(random, max_rows * x_stride - 1);
        const PackedFloats floats(w.get(), outputs, inputs);
        const PackedBfloat16 bfloat16s(w.get(), outputs, inputs);
        const auto product = [&](int64_t first, int64_t rows, const Epilogue& e, float* y, int64_t stride) {
            if (bfloat16)
                kernels.bfloat16_product(x.get() + first * x_stride, rows, x_stride, bfloat16s.matrix(), e, y,
                                         stride);
            else
                kernels.float_product(x.get() + first * x_stride, rows, x_stride, floats.matrix(), e, y,
                                      stride);
        };
        const Operands operands{normals(random, outputs), normals(random, max_rows * (outputs + 1)),
                                normals(random, max_rows * (outputs + 2))};
        std::vector<double> plain(static_cast<size_t>(max_rows * outputs)), magnitudes(plain);
        for (int64_t r = 0; r < max_rows; ++r) {
            for (int64_t n = 0; n < outputs; ++n) {
                double sum = 0, magnitude = 0;
                for (int64_t k = 0; k < inputs; ++k) {
                    const float weight = bfloat16 ? rounded_to_bfloat16(w[n * inputs + k])
                                                  : w[n * inputs + k];
                    const double term = static_cast<double>(x[r * x_stride + k]) * weight;
                    sum += term;
                    magnitude += std::fabs(term);
                }
                plain[static_cast<size_t>(r * outputs + n)] = sum;
                magnitudes[static_cast<size_t>(r * outputs + n)] = magnitude;
            }
        }
        for (int64_t rows = 1; rows <= max_rows; ++rows) {
            const int64_t stride = outputs + 3;
            Floats y(rows * stride, 77.0f), single(outputs);
            const Epilogue e = operands.epilogue(turn++, outputs);
            product(0, rows, e, y.get(), stride);
            const int64_t row = random.below(rows);
            Epilogue single_epilogue = e;
            if (single_epilogue.gate) single_epilogue.gate += row * e.gate_stride;
            if (single_epilogue.residual) single_epilogue.residual += row * e.residual_stride;
            product(row, 1, single_epilogue, single.get(), outputs);
            CHECK(same_bits(single.get(), y.get() + row * stride, outputs), "row %lld of %lld alone",
                  static_cast<long long>(row), static_cast<long long>(rows));
            for (int64_t r = 0; r < rows; ++r) {
                for (int64_t n = 0; n < stride; ++n) {
                    if (n >= outputs) {
                        CHECK(y[r * stride + n] == 77.0f, "written beyond the row");
                        continue;
                    }
                    const size_t index = static_cast<size_t>(r * outputs + n);
                    const double should = finished(e, r, n, plain[index]), is = y[r * stride + n];
                    const double gate = e.gate ? std::fabs(e.gate[r * e.gate_stride + n]) : 1;
                    CHECK(std::fabs(is - should) <=
                              2e-6 * (1 + std::fabs(should)) + 1e-6 * magnitudes[index] * (1 + gate),
                          "%.9g for %.9g", is, should);
                }
            }
        }
    }
}

}  // namespace uwaga
