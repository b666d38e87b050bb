// Kernels that work row by row: quantising, norm, the recurrent unit, float16.
#include "packed.h"
#include "tests.h"

namespace uwaga {

void test_quantise(const Kernels& kernels) {
    Random random(1);
    for (const int64_t inputs : {1, 3, 16, 31, 64, 65, 100, 512, 700}) {
        const int64_t rows = 5, x_stride = inputs + 3;
        Floats x = normals(random, rows * x_stride - 3);
        for (int64_t k = 0; k < inputs; ++k) x[2 * x_stride + k] = 0.0f;
        Quantised q(kernels, x.get(), rows, inputs, x_stride);
        for (int64_t r = 0; r < rows; ++r) {
            float largest = 0;
            for (int64_t k = 0; k < inputs; ++k) largest = std::fmax(largest, std::fabs(x[r * x_stride + k]));
            CHECK(std::fabs(q.scales[r] - largest / 127) <= 1e-6 * largest, "scale of row %lld",
                  static_cast<long long>(r));
            for (int64_t k = 0; k < q.stride; ++k) {
                const double value = k < inputs ? x[r * x_stride + k] : 0.0f,
                             is = (q.values[r * q.stride + k] - 128.0) * q.scales[r];
                CHECK(std::fabs(value - is) <= 0.5001 * q.scales[r], "%g became %g", value, is);
                CHECK(q.values[r * q.stride + k] >= 1, "-128 must not occur");
            }
        }
    }
    const float nan = std::numeric_limits<float>::quiet_NaN(),
                infinity = std::numeric_limits<float>::infinity();
    for (const float bad : {nan, infinity, -infinity}) {
        for (const int64_t position : {0, 17, 39}) {
            Floats x = normals(random, 3 * 40);
            x[40 + position] = bad;
            Quantised q(kernels, x.get(), 3, 40, 40);
            CHECK(std::isfinite(q.scales[0]) && std::isnan(q.scales[1]) && std::isfinite(q.scales[2]),
                  "a bad value spoils its row alone");
        }
    }
    for (const float small : {1e-45f, 1e-38f, 1e-31f, 3e38f}) {
        Floats x(40, small);
        Quantised q(kernels, x.get(), 1, 40, 40);
        CHECK(std::fabs((q.values[7] - 128.0f) * q.scales[0] - small) <= 1e-30f + 1e-6f * small, "%g",
              static_cast<double>(small));
    }
}

// R by its definition: signs, Hadamard within a block, Hartley across the blocks.
void test_spread(const Kernels& kernels) {
    Random random(15);
    CHECK(!spread_of(24) && !spread_of(16 * 65) && !spread_of(2 * 65536) && spread_of(65536),
          "inputs that cannot be spread");
    for (const int64_t inputs : {16, 32, 48, 64, 144, 512, 576, 640, 1024, 2048, 16 * 63}) {
        const Spread s = spread_of(inputs);
        CHECK(s.block * s.blocks == inputs && s.blocks % 2 == 1, "%lld inputs",
              static_cast<long long>(inputs));
        const Floats x = normals(random, inputs);
        Floats y(2 * inputs), restored(2 * inputs), expected(2 * inputs), single(inputs);
        kernels.spread(x.get(), s, false, y.get());
        for (int64_t n = 0; n < inputs; ++n) {
            double sum = 0;
            for (int64_t k = 0; k < inputs; ++k) {
                const int64_t shared_bits = (n % s.block) & (k % s.block), pairs = k & (k >> 1);
                const double angle = 2 * std::acos(-1.0) *
                                     static_cast<double>((n / s.block) * (k / s.block)) /
                                     static_cast<double>(s.blocks);
                const bool negative = (__builtin_popcountll(static_cast<unsigned long long>(shared_bits)) +
                                       __builtin_popcountll(static_cast<unsigned long long>(pairs))) %
                                      2;
                sum += x[k] * (std::cos(angle) + std::sin(angle)) * (negative ? -1 : 1);
            }
            CHECK(std::fabs(y[n] - sum / std::sqrt(inputs)) < 1e-5, "%g for %g", static_cast<double>(y[n]),
                  sum / std::sqrt(inputs));
        }
        kernels.spread(y.get(), s, true, restored.get());
        for (int64_t k = 0; k < inputs; ++k)
            CHECK(std::fabs(restored[k] - x[k]) < 1e-5, "back to %g, not %g",
                  static_cast<double>(restored[k]), static_cast<double>(x[k]));
        kernels_of(Isa::portable).spread(x.get(), s, false, expected.get());
        CHECK(std::memcmp(y.get(), expected.get(), static_cast<size_t>(inputs) * sizeof(float)) == 0,
              "the bits of the portable kernel");
        for (int64_t k = 0; k < inputs; ++k) single[k] = k == inputs / 3 ? 1000.0f : 0.0f;
        kernels.spread(single.get(), s, false, y.get());
        for (int64_t n = 0; n < inputs; ++n)
            CHECK(std::fabs(y[n]) < 1001 * std::sqrt(2.0 / static_cast<double>(inputs)),
                  "one large number is spread over all");
    }
}

void test_norm(const Kernels& kernels) {
    Random random(2);
    for (const int64_t width : {1, 7, 16, 40, 512, 515}) {
        for (const bool rms : {false, true}) {
            const int64_t rows = 4, stride = width + 5;
            Floats x = normals(random, rows * stride), gain = normals(random, width),
                   bias = normals(random, width), y(rows * width);
            const float* b = rms ? nullptr : bias.get();
            kernels.norm(x.get(), rows, width, stride, gain.get(), b, 1e-5f, rms, y.get(), width);
            for (int64_t r = 0; r < rows; ++r) {
                double mean = 0, square = 0;
                for (int64_t k = 0; k < width; ++k)
                    mean += static_cast<double>(x[r * stride + k]) / static_cast<double>(width);
                if (rms) mean = 0;
                for (int64_t k = 0; k < width; ++k)
                    square += std::pow(x[r * stride + k] - mean, 2) / static_cast<double>(width);
                for (int64_t k = 0; k < width; ++k) {
                    const double z = (x[r * stride + k] - mean) / std::sqrt(square + 1e-5) * gain[k] +
                                     (rms ? 0.0f : bias[k]);
                    CHECK(std::fabs(z - y[r * width + k]) < 2e-5 * (1 + std::fabs(z)), "%g for %g",
                          static_cast<double>(y[r * width + k]), z);
                }
            }
            Floats single(width);
            kernels.norm(x.get() + 2 * stride, 1, width, stride, gain.get(), b, 1e-5f, rms, single.get(),
                         width);
            CHECK(same_bits(single.get(), y.get() + 2 * width, width), "a row alone");
            kernels.norm(x.get(), rows, width, stride, gain.get(), b, 1e-5f, rms, x.get(), stride);
            CHECK(same_bits(x.get() + stride, y.get() + width, width), "in place");
        }
    }
}

void test_ssru(const Kernels& kernels) {
    Random random(4);
    for (const int64_t width : {1, 7, 16, 40, 256, 515}) {
        Floats forget = normals(random, width), input = normals(random, width),
               before = normals(random, width), x = normals(random, width), after(width), y(width);
        if (width > 8)
            forget[2] = 90.0f, forget[3] = -90.0f, forget[4] = std::numeric_limits<float>::infinity(),
            forget[5] = -std::numeric_limits<float>::infinity();
        kernels.ssru(forget.get(), input.get(), before.get(), x.get(), width, after.get(), y.get());
        for (int64_t k = 0; k < width; ++k) {
            const double forget_gate = 1.0 / (1.0 + std::exp(-static_cast<double>(forget[k])));
            const double cell = forget_gate * before[k] + (1.0 - forget_gate) * input[k],
                         sum = x[k] + std::fmax(cell, 0.0);
            CHECK(std::fabs(cell - after[k]) < 2e-6 * (1 + std::fabs(before[k]) + std::fabs(input[k])),
                  "%g for %g", static_cast<double>(after[k]), cell);
            CHECK(std::fabs(sum - y[k]) < 4e-6 * (1 + std::fabs(sum)), "%g for %g", static_cast<double>(y[k]),
                  sum);
        }
        kernels.ssru(forget.get(), input.get(), before.get(), x.get(), width, before.get(), x.get());
        CHECK(same_bits(x.get(), y.get(), width) && same_bits(before.get(), after.get(), width), "in place");
    }
}

void test_to_float16(const Kernels& kernels) {
    Random random(3);
    const float nan = std::numeric_limits<float>::quiet_NaN(),
                infinity = std::numeric_limits<float>::infinity();
    for (const int64_t n : {1, 5, 16, 37, 100, 2000}) {
        Floats x = normals(random, n);
        Aligned<uint16_t> y(n);
        if (n > 20) {
            const float special[] = {0.0f,           -0.0f,   infinity,  -infinity, nan,
                                     1e-40f,         3.4e38f, -65519.0f, 65505.0f,  1.00048828125f,
                                     1.00146484375f, 6e-8f,   2.98e-8f,  6.1e-5f,   -6.0975e-5f};
            for (int i = 0; i < 15; ++i) x[i] = special[i];
        }
        for (int64_t i = 100; i < n; ++i) x[i] *= std::ldexp(1.0f, static_cast<int>(random.below(44)) - 28);
        kernels.to_float16(x.get(), n, y.get());
        for (int64_t i = 0; i < n; ++i) {
            const uint16_t actual = y[i], size = actual & 0x7fff;
            if (std::isnan(x[i])) {
                CHECK(size > 0x7c00, "NaN stays");
                continue;
            }
            const float clamped = std::fmax(-65504.0f, std::fmin(65504.0f, x[i])),
                        off = std::fabs(from_float16(actual) - clamped);
            CHECK(size < 0x7c00 && (actual >> 15 != 0) == std::signbit(x[i]), "%g became %04x",
                  static_cast<double>(x[i]), static_cast<unsigned>(actual));
            for (const int neighbour : {size - 1, size + 1}) {
                if (neighbour < 0 || neighbour >= 0x7c00) continue;
                const float its = std::fabs(from_float16(static_cast<uint16_t>(neighbour |
                                                                               (actual & 0x8000))) -
                                            clamped);
                CHECK(off < its || (off == its && !(actual & 1)), "%g became %g", static_cast<double>(x[i]),
                      static_cast<double>(from_float16(actual)));
            }
        }
    }
}

}  // namespace uwaga
