// The int8 product: exact integers for any shape, at the limits of all ranges, and with values that are not
// finite.
#include "epilogue.h"
#include "packed.h"
#include "tests.h"

namespace uwaga {

void test_int8_product(const Kernels& kernels, int levels) {
    Random random(4);
    const int64_t sizes[][2] = {{1, 1}, {32, 64}, {33, 65}, {5, 200}, {100, 129}, {64, 512}, {257, 96}};
    int turn = 0;
    for (const auto& size : sizes) {
        const int64_t outputs = size[0], inputs = size[1], max_rows = 70;
        Floats w = normals(random, outputs * inputs), x = normals(random, max_rows * inputs);
        PackedInt8 packed(w.get(), outputs, inputs, levels);
        Quantised q(kernels, x.get(), max_rows, inputs, inputs);
        const Operands operands{normals(random, outputs), normals(random, max_rows * (outputs + 1)),
                                normals(random, max_rows * (outputs + 2))};
        Floats plain(max_rows * outputs);
        for (int64_t r = 0; r < max_rows; ++r) {
            for (int64_t n = 0; n < outputs; ++n) {
                int64_t sum = 0;
                for (int64_t k = 0; k < inputs; ++k)
                    sum += (q.values[r * q.stride + k] - 128) * packed.value(n, k);
                plain[r * outputs + n] = static_cast<float>(sum) * (q.scales[r] * packed.scales[n]);
            }
        }
        Floats full(max_rows * outputs);
        kernels.int8_product(q.rows(), max_rows, packed.matrix(), Epilogue{}, full.get(), outputs);
        CHECK(same_bits(full.get(), plain.get(), max_rows * outputs),
              "exact integers, one rounding of each factor");
        for (int64_t rows = 1; rows <= max_rows; ++rows) {
            const int64_t stride = outputs + 3, first = random.below(max_rows - rows + 1);
            Floats y(rows * stride, 77.0f);
            const Epilogue epilogue = operands.epilogue(turn++, outputs);
            Epilogue e = epilogue;
            if (e.gate) e.gate += first * e.gate_stride;
            if (e.residual) e.residual += first * e.residual_stride;
            kernels.int8_product(q.rows(first), rows, packed.matrix(), e, y.get(), stride);
            Floats single(outputs);
            const int64_t row = random.below(rows);
            Epilogue single_epilogue = e;
            if (single_epilogue.gate) single_epilogue.gate += row * e.gate_stride;
            if (single_epilogue.residual) single_epilogue.residual += row * e.residual_stride;
            kernels.int8_product(q.rows(first + row), 1, packed.matrix(), single_epilogue, single.get(),
                                 outputs);
            CHECK(same_bits(single.get(), y.get() + row * stride, outputs), "row %lld of %lld alone",
                  static_cast<long long>(row), static_cast<long long>(rows));
            for (int64_t r = 0; r < rows; ++r) {
                for (int64_t n = 0; n < stride; ++n) {
                    const float is = y[r * stride + n];
                    if (n >= outputs) {
                        CHECK(is == 77.0f, "written beyond the row");
                        continue;
                    }
                    const double should = finished(e, r, n, plain[(first + r) * outputs + n]);
                    CHECK(std::fabs(is - should) <= 2e-6 * (1 + std::fabs(should)) +
                                                        1e-6 * std::fabs(plain[(first + r) * outputs + n]),
                          "%lldx%lld row %lld of %lld column %lld: %.9g for %.9g, activation %d",
                          static_cast<long long>(outputs), static_cast<long long>(inputs),
                          static_cast<long long>(r), static_cast<long long>(rows), static_cast<long long>(n),
                          static_cast<double>(is), should, static_cast<int>(e.activation));
                }
            }
        }
    }
}

// Values at the limits of their ranges, where 16-bit sums would saturate.
void test_int8_extremes(const Kernels& kernels, int levels) {
    const int64_t outputs = 40, inputs = 2048, rows = 9;
    for (int pattern = 0; pattern < 6; ++pattern) {
        Random random(static_cast<uint64_t>(pattern) + 50);
        Floats w(outputs * inputs), x(rows * inputs);
        const auto extreme = [&](int64_t index) {
            switch (pattern) {
                case 0: return 1.0f;
                case 1: return -1.0f;
                case 2: return index % 2 ? 1.0f : -1.0f;
                default: return random.below(2) ? 1.0f : -1.0f;
            }
        };
        for (int64_t i = 0; i < w.size; ++i) w[i] = extreme(i);
        for (int64_t i = 0; i < x.size; ++i) x[i] = pattern == 1 ? 1.0f : extreme(i);
        PackedInt8 packed(w.get(), outputs, inputs, levels);
        Quantised q(kernels, x.get(), rows, inputs, inputs);
        Floats y(rows * outputs);
        kernels.int8_product(q.rows(), rows, packed.matrix(), Epilogue{}, y.get(), outputs);
        for (int64_t r = 0; r < rows; ++r) {
            for (int64_t n = 0; n < outputs; ++n) {
                int64_t sum = 0;
                for (int64_t k = 0; k < inputs; ++k)
                    sum += (q.values[r * q.stride + k] - 128) * packed.value(n, k);
                CHECK(y[r * outputs + n] == static_cast<float>(sum) * (q.scales[r] * packed.scales[n]),
                      "pattern %d", pattern);
            }
        }
    }
}

// Depths that kernels slice and more rows than they hold at once; a quarter of all values are at the limits.
void test_int8_depths(const Kernels& kernels, int levels) {
    struct Shape {
        int64_t inputs, outputs, rows;
    };
    for (const Shape s :
         {Shape{513, 40, 17}, {1101, 33, 17}, {2048, 32, 40}, {600, 32, 300}, {65536, 2, 5}}) {
        Random random(static_cast<uint64_t>(s.inputs));
        const auto value = [&] {
            return random.below(4) ? random.uniform() : random.below(2) ? 1.0f : -1.0f;
        };
        Floats w(s.outputs * s.inputs), x(s.rows * s.inputs);
        for (int64_t i = 0; i < w.size; ++i) w[i] = value();
        for (int64_t i = 0; i < x.size; ++i) x[i] = value();
        for (int64_t k = 0; k < s.inputs; ++k) {  // one row and one output with the largest values, of
                                                  // opposite signs
            x[k] = k % 2 ? -1.0f : 1.0f;
            w[k] = -x[k];
        }
        PackedInt8 packed(w.get(), s.outputs, s.inputs, levels);
        Quantised q(kernels, x.get(), s.rows, s.inputs, s.inputs);
        Floats plain(s.rows * s.outputs), y(s.rows * s.outputs);
        for (int64_t r = 0; r < s.rows; ++r) {
            for (int64_t n = 0; n < s.outputs; ++n) {
                int64_t sum = 0;
                for (int64_t k = 0; k < s.inputs; ++k)
                    sum += (q.values[r * q.stride + k] - 128) * packed.value(n, k);
                plain[r * s.outputs + n] = static_cast<float>(sum) * (q.scales[r] * packed.scales[n]);
            }
        }
        CHECK(plain[0] < 0, "the largest sum has a sign");
        for (int64_t rows = 1; rows <= s.rows; rows += rows < 17 ? 1 : 23) {
            kernels.int8_product(q.rows(s.rows - rows), rows, packed.matrix(), Epilogue{}, y.get(),
                                 s.outputs);
            CHECK(same_bits(y.get(), plain.get() + (s.rows - rows) * s.outputs, rows * s.outputs),
                  "the last %lld of %lld rows of %lld inputs", static_cast<long long>(rows),
                  static_cast<long long>(s.rows), static_cast<long long>(s.inputs));
        }
    }
}

void test_int8_not_finite(const Kernels& kernels) {
    Random random(5);
    Floats w = normals(random, 40 * 70), x = normals(random, 3 * 70), y(3 * 40);
    x[70 + 69] = std::numeric_limits<float>::quiet_NaN();
    PackedInt8 packed(w.get(), 40, 70, 127);
    Quantised q(kernels, x.get(), 3, 70, 70);
    kernels.int8_product(q.rows(), 3, packed.matrix(), Epilogue{}, y.get(), 40);
    for (int64_t n = 0; n < 40; ++n) {
        CHECK(std::isfinite(y[n]) && std::isnan(y[40 + n]) && std::isfinite(y[80 + n]), "column %lld",
              static_cast<long long>(n));
    }
    w[5 * 70 + 3] = std::numeric_limits<float>::infinity();
    PackedInt8 damaged(w.get(), 40, 70, 127);
    kernels.int8_product(q.rows(), 3, damaged.matrix(), Epilogue{}, y.get(), 40);
    CHECK(std::isfinite(y[4]) && std::isnan(y[5]) && std::isfinite(y[6]), "a weight spoils its output alone");
}

}  // namespace uwaga
