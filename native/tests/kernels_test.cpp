// Every kernel of every instruction set of this machine, and of the emulated ones, against plain loops in double and
// int64: sizes that fill nothing evenly, extremes, ties, banned tokens, values that are not finite, and the law that
// a row's result depends on nothing beside it. Exits with 1 and a message on the first failure.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace uwaga {
#if defined(__x86_64__)
extern const Kernels emulated_avxvnni_kernels, emulated_amx_kernels;
#endif
}  // namespace uwaga

using namespace uwaga;

namespace {

const char* now_testing = "";

#define CHECK(condition, ...)                                                              \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            std::printf("FAILED [%s] %s:%d: %s: ", now_testing, __FILE__, __LINE__, #condition); \
            std::printf(__VA_ARGS__);                                                      \
            std::printf("\n");                                                             \
            std::exit(1);                                                                  \
        }                                                                                  \
    } while (0)

struct Random {  // xorshift64*, the same numbers everywhere
    uint64_t state;
    explicit Random(uint64_t seed) : state(seed * 0x9e3779b97f4a7c15ull + 1) {}
    uint64_t bits() {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        return state * 0x2545f4914f6cdd1dull >> 11;
    }
    int64_t below(int64_t n) { return static_cast<int64_t>(bits() % static_cast<uint64_t>(n)); }
    float uniform() { return static_cast<float>(static_cast<double>(bits()) / 9007199254740992.0 * 2.0 - 1.0); }
    float normal() { return uniform() + uniform() + uniform(); }
};

// Starts on 64 bytes; ends where the allocation ends, so that the sanitizer sees a read beyond it.
template <class T>
class Aligned {
    std::unique_ptr<void, void (*)(void*)> memory;

public:
    int64_t size;
    explicit Aligned(int64_t n, T fill = T{}) : memory(nullptr, std::free), size(n) {
        void* p = nullptr;
        if (posix_memalign(&p, 64, static_cast<size_t>(n > 0 ? n : 1) * sizeof(T)) != 0) std::abort();
        memory.reset(p);
        for (int64_t i = 0; i < n; ++i) get()[i] = fill;
    }
    T* get() const { return static_cast<T*>(memory.get()); }
    T& operator[](int64_t i) const { return get()[i]; }
};

using Floats = Aligned<float>;

Floats normals(Random& random, int64_t n, float scale = 1.0f) {
    Floats f(n);
    for (int64_t i = 0; i < n; ++i) f[i] = random.normal() * scale;
    return f;
}

float of_float16(uint16_t h) {
    const int exponent = h >> 10 & 31, fraction = h & 1023;
    const float size = exponent ? std::ldexp(static_cast<float>(1024 + fraction), exponent - 25) : std::ldexp(static_cast<float>(fraction), -24);
    return h & 0x8000 ? -size : size;
}

float of_half(uint16_t h) {
    const uint32_t bits = static_cast<uint32_t>(h) << 16;
    float f;
    std::memcpy(&f, &bits, 4);
    return f;
}

bool same_bits(const float* a, const float* b, int64_t n) {
    return n < 1 || std::memcmp(a, b, static_cast<size_t>(n) * sizeof(float)) == 0;
}

struct PackedInt8 {
    Aligned<int8_t> panels;
    Floats scales;
    Aligned<int32_t> sums;
    int64_t outputs, inputs;
    int levels;

    PackedInt8(const float* w, int64_t n, int64_t k, int how_many)
        : panels(int8_panels_size(n, k)), scales(padded_outputs(n)), sums(padded_outputs(n)), outputs(n), inputs(k), levels(how_many) {
        pack_int8(w, n, k, levels, panels.get(), scales.get(), sums.get());
    }
    Int8Matrix matrix() const { return {panels.get(), scales.get(), sums.get(), outputs, inputs, levels}; }
    int64_t at(int64_t n, int64_t k) const {
        return panels[n / panel * panel * padded_inputs(inputs) + k / 4 * 4 * panel + n % panel * 4 + k % 4];
    }
};

struct Quantised {
    int64_t stride;
    Aligned<uint8_t> values;
    Floats scales;

    Quantised(const Kernels& kernels, const float* x, int64_t rows, int64_t inputs, int64_t x_stride)
        : stride(padded_inputs(inputs) + 64), values(rows * stride), scales(rows) {
        kernels.quantise(x, rows, inputs, x_stride, values.get(), scales.get(), stride);
    }
    QuantisedRows rows(int64_t first = 0) const { return {values.get() + first * stride, scales.get() + first, stride}; }
};

double activate(Activation a, double x) {
    switch (a) {
        case Activation::relu: return x > 0 ? x : 0;
        case Activation::gelu: return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
        case Activation::gelu_tanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
        case Activation::silu: return x / (1 + std::exp(-x));
        case Activation::none: break;
    }
    return x;
}

// ---- quantise, norm, to_float16 ----------------------------------------------------------------------------------

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
            CHECK(std::fabs(q.scales[r] - largest / 127) <= 1e-6 * largest, "scale of row %lld", static_cast<long long>(r));
            for (int64_t k = 0; k < q.stride; ++k) {
                const double value = k < inputs ? x[r * x_stride + k] : 0.0f, is = (q.values[r * q.stride + k] - 128.0) * q.scales[r];
                CHECK(std::fabs(value - is) <= 0.5001 * q.scales[r], "%g became %g", value, is);
                CHECK(q.values[r * q.stride + k] >= 1, "-128 must not occur");
            }
        }
    }
    const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
    for (const float bad : {nan, infinity, -infinity}) {
        for (const int64_t at : {0, 17, 39}) {
            Floats x = normals(random, 3 * 40);
            x[40 + at] = bad;
            Quantised q(kernels, x.get(), 3, 40, 40);
            CHECK(std::isfinite(q.scales[0]) && std::isnan(q.scales[1]) && std::isfinite(q.scales[2]), "a bad value spoils its row alone");
        }
    }
    for (const float small : {1e-45f, 1e-38f, 1e-31f, 3e38f}) {
        Floats x(40, small);
        Quantised q(kernels, x.get(), 1, 40, 40);
        CHECK(std::fabs((q.values[7] - 128.0f) * q.scales[0] - small) <= 1e-30f + 1e-6f * small, "%g", static_cast<double>(small));
    }
}

void test_norm(const Kernels& kernels) {
    Random random(2);
    for (const int64_t width : {1, 7, 16, 40, 512, 515}) {
        for (const bool rms : {false, true}) {
            const int64_t rows = 4, stride = width + 5;
            Floats x = normals(random, rows * stride), gain = normals(random, width), bias = normals(random, width), y(rows * width);
            const float* b = rms ? nullptr : bias.get();
            kernels.norm(x.get(), rows, width, stride, gain.get(), b, 1e-5f, rms, y.get(), width);
            for (int64_t r = 0; r < rows; ++r) {
                double mean = 0, square = 0;
                for (int64_t k = 0; k < width; ++k) mean += static_cast<double>(x[r * stride + k]) / static_cast<double>(width);
                if (rms) mean = 0;
                for (int64_t k = 0; k < width; ++k) square += std::pow(x[r * stride + k] - mean, 2) / static_cast<double>(width);
                for (int64_t k = 0; k < width; ++k) {
                    const double z = (x[r * stride + k] - mean) / std::sqrt(square + 1e-5) * gain[k] + (rms ? 0.0f : bias[k]);
                    CHECK(std::fabs(z - y[r * width + k]) < 2e-5 * (1 + std::fabs(z)), "%g for %g", static_cast<double>(y[r * width + k]), z);
                }
            }
            Floats alone(width);
            kernels.norm(x.get() + 2 * stride, 1, width, stride, gain.get(), b, 1e-5f, rms, alone.get(), width);
            CHECK(same_bits(alone.get(), y.get() + 2 * width, width), "a row alone");
            kernels.norm(x.get(), rows, width, stride, gain.get(), b, 1e-5f, rms, x.get(), stride);
            CHECK(same_bits(x.get() + stride, y.get() + width, width), "in place");
        }
    }
}

void test_to_float16(const Kernels& kernels) {
    Random random(3);
    const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
    for (const int64_t n : {1, 5, 16, 37, 100, 2000}) {
        Floats x = normals(random, n);
        Aligned<uint16_t> y(n);
        if (n > 20) {
            const float special[] = {0.0f, -0.0f, infinity, -infinity, nan, 1e-40f, 3.4e38f, -65519.0f, 65505.0f, 1.00048828125f, 1.00146484375f, 6e-8f, 2.98e-8f, 6.1e-5f, -6.0975e-5f};
            for (int i = 0; i < 15; ++i) x[i] = special[i];
        }
        for (int64_t i = 100; i < n; ++i) x[i] *= std::ldexp(1.0f, static_cast<int>(random.below(44)) - 28);
        kernels.to_float16(x.get(), n, y.get());
        for (int64_t i = 0; i < n; ++i) {
            const uint16_t found = y[i], size = found & 0x7fff;
            if (std::isnan(x[i])) {
                CHECK(size > 0x7c00, "NaN stays");
                continue;
            }
            const float kept = std::fmax(-65504.0f, std::fmin(65504.0f, x[i])), off = std::fabs(of_float16(found) - kept);
            CHECK(size < 0x7c00 && (found >> 15 != 0) == std::signbit(x[i]), "%g became %04x", static_cast<double>(x[i]), static_cast<unsigned>(found));
            for (const int other : {size - 1, size + 1}) {
                if (other < 0 || other >= 0x7c00) continue;
                const float its = std::fabs(of_float16(static_cast<uint16_t>(other | (found & 0x8000))) - kept);
                CHECK(off < its || (off == its && !(found & 1)), "%g became %g", static_cast<double>(x[i]), static_cast<double>(of_float16(found)));
            }
        }
    }
}

// ---- Products ----------------------------------------------------------------------------------------------------

struct Sides {  // what an epilogue reads
    Floats bias, gate, residual;
    Epilogue epilogue(int which, int64_t n) const {
        Epilogue e;
        e.activation = static_cast<Activation>(which % 5);
        if (which & 1) e.bias = bias.get();
        if (which & 2) e.gate = gate.get(), e.gate_stride = n + 1;
        if (which & 4) e.residual = residual.get(), e.residual_stride = n + 2;
        return e;
    }
};

double finished(const Epilogue& e, int64_t r, int64_t n, double v) {
    if (e.bias) v += e.bias[n];
    v = activate(e.activation, v);
    if (e.gate) v *= e.gate[r * e.gate_stride + n];
    if (e.residual) v += e.residual[r * e.residual_stride + n];
    return v;
}

void test_int8_product(const Kernels& kernels, int levels) {
    Random random(4);
    const int64_t sizes[][2] = {{1, 1}, {32, 64}, {33, 65}, {5, 200}, {100, 129}, {64, 512}, {257, 96}};
    int turn = 0;
    for (const auto& size : sizes) {
        const int64_t outputs = size[0], inputs = size[1], most = 70;
        Floats w = normals(random, outputs * inputs), x = normals(random, most * inputs);
        PackedInt8 packed(w.get(), outputs, inputs, levels);
        Quantised q(kernels, x.get(), most, inputs, inputs);
        const Sides sides{normals(random, outputs), normals(random, most * (outputs + 1)), normals(random, most * (outputs + 2))};
        Floats plain(most * outputs);
        for (int64_t r = 0; r < most; ++r) {
            for (int64_t n = 0; n < outputs; ++n) {
                int64_t sum = 0;
                for (int64_t k = 0; k < inputs; ++k) sum += (q.values[r * q.stride + k] - 128) * packed.at(n, k);
                plain[r * outputs + n] = static_cast<float>(sum) * (q.scales[r] * packed.scales[n]);
            }
        }
        Floats whole(most * outputs);
        kernels.int8_product(q.rows(), most, packed.matrix(), Epilogue{}, whole.get(), outputs);
        CHECK(same_bits(whole.get(), plain.get(), most * outputs), "exact integers, one rounding of each factor");
        for (int64_t rows = 1; rows <= most; ++rows) {
            const int64_t stride = outputs + 3, first = random.below(most - rows + 1);
            Floats y(rows * stride, 77.0f);
            const Epilogue given = sides.epilogue(turn++, outputs);
            Epilogue e = given;
            if (e.gate) e.gate += first * e.gate_stride;
            if (e.residual) e.residual += first * e.residual_stride;
            kernels.int8_product(q.rows(first), rows, packed.matrix(), e, y.get(), stride);
            Floats alone(outputs);
            const int64_t row = random.below(rows);
            Epilogue one = e;
            if (one.gate) one.gate += row * e.gate_stride;
            if (one.residual) one.residual += row * e.residual_stride;
            kernels.int8_product(q.rows(first + row), 1, packed.matrix(), one, alone.get(), outputs);
            CHECK(same_bits(alone.get(), y.get() + row * stride, outputs), "row %lld of %lld alone", static_cast<long long>(row), static_cast<long long>(rows));
            for (int64_t r = 0; r < rows; ++r) {
                for (int64_t n = 0; n < stride; ++n) {
                    const float is = y[r * stride + n];
                    if (n >= outputs) {
                        CHECK(is == 77.0f, "written beyond the row");
                        continue;
                    }
                    const double should = finished(e, r, n, plain[(first + r) * outputs + n]);
                    CHECK(std::fabs(is - should) <= 2e-6 * (1 + std::fabs(should)) + 1e-6 * std::fabs(plain[(first + r) * outputs + n]),
                          "%lldx%lld row %lld of %lld column %lld: %.9g for %.9g, activation %d", static_cast<long long>(outputs), static_cast<long long>(inputs),
                          static_cast<long long>(r), static_cast<long long>(rows), static_cast<long long>(n), static_cast<double>(is), should, static_cast<int>(e.activation));
                }
            }
        }
    }
}

// Values at the ends of their ranges, where sums of 16 bits would saturate.
void test_int8_extremes(const Kernels& kernels, int levels) {
    const int64_t outputs = 40, inputs = 2048, rows = 9;
    for (int pattern = 0; pattern < 6; ++pattern) {
        Random random(static_cast<uint64_t>(pattern) + 50);
        Floats w(outputs * inputs), x(rows * inputs);
        const auto extreme = [&](int64_t at) {
            switch (pattern) {
                case 0: return 1.0f;
                case 1: return -1.0f;
                case 2: return at % 2 ? 1.0f : -1.0f;
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
                for (int64_t k = 0; k < inputs; ++k) sum += (q.values[r * q.stride + k] - 128) * packed.at(n, k);
                CHECK(y[r * outputs + n] == static_cast<float>(sum) * (q.scales[r] * packed.scales[n]), "pattern %d", pattern);
            }
        }
    }
}

// Depths that kernels take in slices and more rows than they hold at once; a quarter of all values are at the ends.
void test_int8_depths(const Kernels& kernels, int levels) {
    struct Shape {
        int64_t inputs, outputs, rows;
    };
    for (const Shape s : {Shape{513, 40, 17}, {1101, 33, 17}, {2048, 32, 40}, {600, 32, 300}, {65536, 2, 5}}) {
        Random random(static_cast<uint64_t>(s.inputs));
        const auto value = [&] { return random.below(4) ? random.uniform() : random.below(2) ? 1.0f : -1.0f; };
        Floats w(s.outputs * s.inputs), x(s.rows * s.inputs);
        for (int64_t i = 0; i < w.size; ++i) w[i] = value();
        for (int64_t i = 0; i < x.size; ++i) x[i] = value();
        for (int64_t k = 0; k < s.inputs; ++k) {  // one row and one output as large as can be, of opposite signs
            x[k] = k % 2 ? -1.0f : 1.0f;
            w[k] = -x[k];
        }
        PackedInt8 packed(w.get(), s.outputs, s.inputs, levels);
        Quantised q(kernels, x.get(), s.rows, s.inputs, s.inputs);
        Floats plain(s.rows * s.outputs), y(s.rows * s.outputs);
        for (int64_t r = 0; r < s.rows; ++r) {
            for (int64_t n = 0; n < s.outputs; ++n) {
                int64_t sum = 0;
                for (int64_t k = 0; k < s.inputs; ++k) sum += (q.values[r * q.stride + k] - 128) * packed.at(n, k);
                plain[r * s.outputs + n] = static_cast<float>(sum) * (q.scales[r] * packed.scales[n]);
            }
        }
        CHECK(plain[0] < 0, "the largest sum has a sign");
        for (int64_t rows = 1; rows <= s.rows; rows += rows < 17 ? 1 : 23) {
            kernels.int8_product(q.rows(s.rows - rows), rows, packed.matrix(), Epilogue{}, y.get(), s.outputs);
            CHECK(same_bits(y.get(), plain.get() + (s.rows - rows) * s.outputs, rows * s.outputs), "the last %lld of %lld rows of %lld inputs",
                  static_cast<long long>(rows), static_cast<long long>(s.rows), static_cast<long long>(s.inputs));
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
        CHECK(std::isfinite(y[n]) && std::isnan(y[40 + n]) && std::isfinite(y[80 + n]), "column %lld", static_cast<long long>(n));
    }
    w[5 * 70 + 3] = std::numeric_limits<float>::infinity();
    PackedInt8 spoilt(w.get(), 40, 70, 127);
    kernels.int8_product(q.rows(), 3, spoilt.matrix(), Epilogue{}, y.get(), 40);
    CHECK(std::isfinite(y[4]) && std::isnan(y[5]) && std::isfinite(y[6]), "a weight spoils its output alone");
}

struct PackedFloats {
    Floats panels;
    int64_t outputs, inputs;
    PackedFloats(const float* w, int64_t n, int64_t k) : panels(float_panels_size(n, k)), outputs(n), inputs(k) { pack_float(w, n, k, panels.get()); }
    FloatMatrix matrix() const { return {panels.get(), outputs, inputs}; }
};
struct PackedHalves {
    Aligned<uint16_t> panels;
    int64_t outputs, inputs;
    PackedHalves(const float* w, int64_t n, int64_t k) : panels(half_panels_size(n, k)), outputs(n), inputs(k) { pack_half(w, n, k, panels.get()); }
    HalfMatrix matrix() const { return {panels.get(), outputs, inputs}; }
};

float rounded_to_half(float f) {  // bfloat16, to nearest even
    uint32_t bits;
    std::memcpy(&bits, &f, 4);
    return of_half(static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16));
}

void test_float_product(const Kernels& kernels, bool half) {
    Random random(6);
    const int64_t sizes[][2] = {{1, 1}, {32, 64}, {33, 65}, {5, 200}, {100, 37}, {70, 512}};
    int turn = 0;
    for (const auto& size : sizes) {
        const int64_t outputs = size[0], inputs = size[1], most = 40, x_stride = inputs + 1;
        Floats w = normals(random, outputs * inputs), x = normals(random, most * x_stride - 1);
        const PackedFloats floats(w.get(), outputs, inputs);
        const PackedHalves halves(w.get(), outputs, inputs);
        const auto product = [&](int64_t first, int64_t rows, const Epilogue& e, float* y, int64_t stride) {
            if (half) kernels.half_product(x.get() + first * x_stride, rows, x_stride, halves.matrix(), e, y, stride);
            else kernels.float_product(x.get() + first * x_stride, rows, x_stride, floats.matrix(), e, y, stride);
        };
        const Sides sides{normals(random, outputs), normals(random, most * (outputs + 1)), normals(random, most * (outputs + 2))};
        std::vector<double> plain(static_cast<size_t>(most * outputs)), size_of(plain);
        for (int64_t r = 0; r < most; ++r) {
            for (int64_t n = 0; n < outputs; ++n) {
                double sum = 0, magnitude = 0;
                for (int64_t k = 0; k < inputs; ++k) {
                    const float weight = half ? rounded_to_half(w[n * inputs + k]) : w[n * inputs + k];
                    const double term = static_cast<double>(x[r * x_stride + k]) * weight;
                    sum += term;
                    magnitude += std::fabs(term);
                }
                plain[static_cast<size_t>(r * outputs + n)] = sum;
                size_of[static_cast<size_t>(r * outputs + n)] = magnitude;
            }
        }
        for (int64_t rows = 1; rows <= most; ++rows) {
            const int64_t stride = outputs + 3;
            Floats y(rows * stride, 77.0f), alone(outputs);
            const Epilogue e = sides.epilogue(turn++, outputs);
            product(0, rows, e, y.get(), stride);
            const int64_t row = random.below(rows);
            Epilogue one = e;
            if (one.gate) one.gate += row * e.gate_stride;
            if (one.residual) one.residual += row * e.residual_stride;
            product(row, 1, one, alone.get(), outputs);
            CHECK(same_bits(alone.get(), y.get() + row * stride, outputs), "row %lld of %lld alone", static_cast<long long>(row), static_cast<long long>(rows));
            for (int64_t r = 0; r < rows; ++r) {
                for (int64_t n = 0; n < stride; ++n) {
                    if (n >= outputs) {
                        CHECK(y[r * stride + n] == 77.0f, "written beyond the row");
                        continue;
                    }
                    const size_t at = static_cast<size_t>(r * outputs + n);
                    const double should = finished(e, r, n, plain[at]), is = y[r * stride + n];
                    const double gate = e.gate ? std::fabs(e.gate[r * e.gate_stride + n]) : 1;
                    CHECK(std::fabs(is - should) <= 2e-6 * (1 + std::fabs(should)) + 1e-6 * size_of[at] * (1 + gate), "%.9g for %.9g", is, should);
                }
            }
        }
    }
}

// ---- Output layer and embedding ----------------------------------------------------------------------------------

struct Asked {
    std::vector<OutputRow> rows;
    std::vector<std::vector<Candidate>> best;
    std::vector<std::vector<float>> logits;
    std::vector<std::vector<int32_t>> banned;
};

bool contains(const std::vector<int32_t>& rising, int32_t token) {
    for (const int32_t b : rising) {
        if (b == token) return true;
    }
    return false;
}

// counts and banned tokens of a row depend on `row` alone.
void ask(Asked& asked, int64_t first, int64_t rows, int64_t outputs, bool logits) {
    asked.rows.assign(static_cast<size_t>(rows), OutputRow{});
    asked.best.assign(static_cast<size_t>(rows), {});
    asked.logits.assign(static_cast<size_t>(rows), {});
    asked.banned.assign(static_cast<size_t>(rows), {});
    for (int64_t r = 0; r < rows; ++r) {
        const size_t i = static_cast<size_t>(r);
        OutputRow& row = asked.rows[i];
        const int64_t which = first + r;
        row.count = static_cast<int32_t>(which % 7 == 6 ? outputs : which % 7 == 5 ? (outputs < 90 ? outputs : 90) : which % 7 == 4 ? 0 : 1 + which % 9);
        asked.best[i].resize(static_cast<size_t>(row.count) + 1, Candidate{123.0f, 456});
        row.best = asked.best[i].data();
        if (logits && which % 2) {
            asked.logits[i].resize(static_cast<size_t>(outputs) + 1, 77.0f);
            row.logits = asked.logits[i].data();
        }
        for (int32_t token = static_cast<int32_t>(which % 5); token < outputs && which % 3; token += 1 + static_cast<int32_t>(which % 4)) asked.banned[i].push_back(token);
        row.banned = asked.banned[i].data();
        row.banned_count = static_cast<int32_t>(asked.banned[i].size());
    }
}

void check_output(const Asked& asked, int64_t r, const float* logits, int64_t outputs) {
    const size_t i = static_cast<size_t>(r);
    const OutputRow& row = asked.rows[i];
    double top = -1e300, sum = 0;
    for (int64_t n = 0; n < outputs; ++n) top = std::fmax(top, logits[n]);
    for (int64_t n = 0; n < outputs; ++n) sum += std::exp(logits[n] - top);
    const double should = top + std::log(sum), is = row.maximum + std::log(row.sum);
    CHECK(std::fabs(is - should) < 1e-5 + 1e-6 * std::fabs(should), "log-sum-exp %.9g for %.9g", is, should);
    std::vector<bool> taken(static_cast<size_t>(outputs));
    for (int32_t c = 0; c < row.count; ++c) {  // selection by repeated search
        int64_t best = -1;
        for (int64_t n = 0; n < outputs; ++n) {
            if (!taken[static_cast<size_t>(n)] && !contains(asked.banned[i], static_cast<int32_t>(n)) && (best < 0 || logits[n] > logits[best])) best = n;
        }
        const Candidate& candidate = asked.best[i][static_cast<size_t>(c)];
        CHECK(candidate.token == best, "candidate %d of %d is %d, should be %lld", c, row.count, candidate.token, static_cast<long long>(best));
        if (best < 0) {
            CHECK(candidate.logit == -std::numeric_limits<float>::infinity(), "an empty place");
            continue;
        }
        CHECK(candidate.logit == logits[best], "logit of candidate %d", c);
        taken[static_cast<size_t>(best)] = true;
    }
    CHECK(asked.best[i][static_cast<size_t>(row.count)].token == 456, "written beyond the candidates");
    if (row.logits) {
        CHECK(same_bits(row.logits, logits, outputs), "logits on request");
        CHECK(row.logits[outputs] == 77.0f, "written beyond the logits");
    }
}

bool same_answer(const Asked& a, size_t i, const Asked& b, size_t j) {
    const OutputRow &x = a.rows[i], &y = b.rows[j];
    if (x.count != y.count || !same_bits(&x.maximum, &y.maximum, 1) || !same_bits(&x.sum, &y.sum, 1)) return false;
    for (int32_t c = 0; c < x.count; ++c) {
        if (x.best[c].token != y.best[c].token || !same_bits(&x.best[c].logit, &y.best[c].logit, 1)) return false;
    }
    return true;
}

enum class Kind { int8, single, half };

void test_output(const Kernels& kernels, Kind kind) {
    Random random(7);
    const int64_t sizes[][2] = {{1, 8}, {31, 40}, {64, 64}, {300, 96}, {1001, 33}};
    for (const auto& size : sizes) {
        const int64_t outputs = size[0], inputs = size[1], most = 66;
        Floats w = normals(random, outputs * inputs), x = normals(random, most * inputs), bias = normals(random, outputs);
        for (int64_t n = 0; n + 7 < outputs; n += 11) {  // ties: equal rows of weights and equal biases
            std::memcpy(&w[(n + 7) * inputs], &w[n * inputs], static_cast<size_t>(inputs) * 4);
            bias[n + 7] = bias[n];
        }
        if (outputs > 200) bias[123] = -std::numeric_limits<float>::infinity();  // a token that never comes
        const PackedInt8 int8(w.get(), outputs, inputs, 127);
        const PackedFloats floats(w.get(), outputs, inputs);
        const PackedHalves halves(w.get(), outputs, inputs);
        const Quantised q(kernels, x.get(), most, inputs, inputs);
        const auto output = [&](int64_t first, int64_t rows, const float* b, OutputRow* out) {
            if (kind == Kind::int8) kernels.int8_output(q.rows(first), rows, int8.matrix(), b, out);
            else if (kind == Kind::single) kernels.float_output(x.get() + first * inputs, rows, inputs, floats.matrix(), b, out);
            else kernels.half_output(x.get() + first * inputs, rows, inputs, halves.matrix(), b, out);
        };
        for (const bool biased : {false, true}) {
            const float* b = biased ? bias.get() : nullptr;
            Floats logits(most * outputs);
            Epilogue e;
            e.bias = b;
            if (kind == Kind::int8) kernels.int8_product(q.rows(), most, int8.matrix(), e, logits.get(), outputs);
            else if (kind == Kind::single) kernels.float_product(x.get(), most, inputs, floats.matrix(), e, logits.get(), outputs);
            else kernels.half_product(x.get(), most, inputs, halves.matrix(), e, logits.get(), outputs);
            Asked all;
            ask(all, 0, most, outputs, true);
            output(0, most, b, all.rows.data());
            for (int64_t r = 0; r < most; ++r) check_output(all, r, logits.get() + r * outputs, outputs);
            for (const int64_t rows : {1, 2, 3, 5, 8, 13, 33}) {
                const int64_t first = random.below(most - rows + 1);
                Asked some;
                ask(some, first, rows, outputs, false);
                output(first, rows, b, some.rows.data());
                for (int64_t r = 0; r < rows; ++r) {
                    CHECK(same_answer(some, static_cast<size_t>(r), all, static_cast<size_t>(first + r)), "row %lld among %lld", static_cast<long long>(first + r), static_cast<long long>(rows));
                }
            }
        }
    }
}

void test_output_not_finite(const Kernels& kernels) {
    Random random(8);
    Floats w = normals(random, 100 * 32), x = normals(random, 2 * 32), bias(100, 0.0f);
    const PackedFloats floats(w.get(), 100, 32);
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        bias[50] = bad;
        Asked asked;
        ask(asked, 0, 2, 100, false);
        kernels.float_output(x.get(), 2, 32, floats.matrix(), bias.get(), asked.rows.data());
        CHECK(std::isnan(asked.rows[0].maximum + std::log(asked.rows[0].sum)), "the sum tells");
        if (std::isnan(bad)) CHECK(asked.best[0][0].token != 50, "a NaN is not the best");
    }
    for (int64_t k = 0; k < 32; ++k) x[k] = std::numeric_limits<float>::quiet_NaN();
    Asked asked;
    ask(asked, 0, 2, 100, false);
    kernels.float_output(x.get(), 2, 32, floats.matrix(), nullptr, asked.rows.data());
    CHECK(std::isnan(asked.rows[0].sum) && std::isfinite(asked.rows[1].sum), "a row is spoilt alone");
    CHECK(asked.best[0][0].token >= 0 && asked.best[0][0].token < 100, "tokens stay within the vocabulary");
}

void test_many_output_rows(const Kernels& kernels) {  // more than go through the vocabulary together
    Random random(9);
    const int64_t rows = 515, outputs = 70, inputs = 64;
    Floats w = normals(random, outputs * inputs), x = normals(random, rows * inputs), logits(rows * outputs);
    const PackedInt8 int8(w.get(), outputs, inputs, 127);
    const Quantised q(kernels, x.get(), rows, inputs, inputs);
    kernels.int8_product(q.rows(), rows, int8.matrix(), Epilogue{}, logits.get(), outputs);
    Asked all;
    ask(all, 0, rows, outputs, true);
    kernels.int8_output(q.rows(), rows, int8.matrix(), nullptr, all.rows.data());
    for (int64_t r = 0; r < rows; ++r) check_output(all, r, logits.get() + r * outputs, outputs);
}

void test_embed(const Kernels& kernels) {
    Random random(10);
    const int64_t outputs = 75, inputs = 71, rows = 6, stride = inputs + 2;
    Floats w = normals(random, outputs * inputs), y(rows * stride, 77.0f);
    const PackedInt8 int8(w.get(), outputs, inputs, 127);
    const PackedFloats floats(w.get(), outputs, inputs);
    const PackedHalves halves(w.get(), outputs, inputs);
    const int32_t tokens[] = {0, 31, 32, 74, 5, 5};
    for (const Kind kind : {Kind::int8, Kind::single, Kind::half}) {
        if (kind == Kind::int8) kernels.int8_embed(int8.matrix(), tokens, rows, 3.5f, y.get(), stride);
        else if (kind == Kind::single) kernels.float_embed(floats.matrix(), tokens, rows, 3.5f, y.get(), stride);
        else kernels.half_embed(halves.matrix(), tokens, rows, 3.5f, y.get(), stride);
        for (int64_t r = 0; r < rows; ++r) {
            for (int64_t k = 0; k < inputs; ++k) {
                const int64_t token = tokens[r];
                double should = 3.5 * w[token * inputs + k];
                if (kind == Kind::int8) should = 3.5 * static_cast<double>(int8.at(token, k)) * int8.scales[token];
                if (kind == Kind::half) should = 3.5 * rounded_to_half(w[token * inputs + k]);
                CHECK(std::fabs(y[r * stride + k] - should) <= 1e-6 * std::fabs(should), "%g for %g", static_cast<double>(y[r * stride + k]), should);
            }
            CHECK(y[r * stride + inputs] == 77.0f, "written beyond the row");
        }
    }
}

// ---- Attention ---------------------------------------------------------------------------------------------------

void test_attend(const Kernels& kernels, bool half) {
    Random random(11);
    const int64_t shapes[][2] = {{8, 64}, {1, 1}, {3, 20}, {2, 33}, {16, 32}, {4, 96}, {2, 128}, {5, 7}};
    for (const auto& shape : shapes) {
        const int64_t heads = shape[0], head_width = shape[1], head_stride = head_width + (head_width % 2 ? 3 : 0);
        const int64_t most = 50, position = heads * head_stride + 5;
        Floats query = normals(random, heads * head_width, 2.0f), keys = normals(random, most * position), values = normals(random, most * position);
        Aligned<uint16_t> half_keys(keys.size), half_values(values.size);
        kernels.to_float16(keys.get(), keys.size, half_keys.get());
        kernels.to_float16(values.get(), values.size, half_values.get());
        if (half) {
            for (int64_t i = 0; i < keys.size; ++i) keys[i] = of_float16(half_keys[i]), values[i] = of_float16(half_values[i]);
        }
        for (int64_t length = 1; length <= most; length += 1 + length / 5) {
            std::vector<int64_t> where(static_cast<size_t>(length));
            for (int64_t t = 0; t < length; ++t) where[static_cast<size_t>(t)] = random.below(most) * position + random.below(5);
            for (const bool biased : {false, true}) {
                Floats bias = normals(random, heads * length), weights(heads * length), context(heads * head_width);
                if (biased && length > 2) bias[1] = -std::numeric_limits<float>::infinity();
                const float* b = biased ? bias.get() : nullptr;
                const float scale = 1.0f / std::sqrt(static_cast<float>(head_width));
                if (half) kernels.attend_float16(query.get(), half_keys.get(), half_values.get(), where.data(), length, heads, head_width, head_stride, scale, b, weights.get(), context.get());
                else kernels.attend_float(query.get(), keys.get(), values.get(), where.data(), length, heads, head_width, head_stride, scale, b, weights.get(), context.get());
                for (int64_t h = 0; h < heads; ++h) {
                    std::vector<double> w(static_cast<size_t>(length));
                    double top = -1e300, sum = 0;
                    for (int64_t t = 0; t < length; ++t) {
                        double dot = 0;
                        for (int64_t k = 0; k < head_width; ++k) {
                            dot += static_cast<double>(query[h * head_width + k]) * keys[where[static_cast<size_t>(t)] + h * head_stride + k];
                        }
                        w[static_cast<size_t>(t)] = dot * scale + (b ? b[h * length + t] : 0.0f);
                        top = std::fmax(top, w[static_cast<size_t>(t)]);
                    }
                    for (double& v : w) sum += v = std::exp(v - top);
                    for (int64_t t = 0; t < length; ++t) {
                        const double should = w[static_cast<size_t>(t)] / sum, is = weights[h * length + t];
                        CHECK(std::fabs(is - should) < 2e-6, "weight %.9g for %.9g", is, should);
                        if (b && b[h * length + t] < -1e30f) CHECK(is == 0.0, "a masked position has no weight");
                    }
                    for (int64_t k = 0; k < head_width; ++k) {
                        double should = 0;
                        for (int64_t t = 0; t < length; ++t) {
                            should += w[static_cast<size_t>(t)] / sum * values[where[static_cast<size_t>(t)] + h * head_stride + k];
                        }
                        CHECK(std::fabs(context[h * head_width + k] - should) < 1e-5, "context %g for %g", static_cast<double>(context[h * head_width + k]), should);
                    }
                }
            }
        }
    }
}

void test_packing() {
    Random random(12);
    for (const int levels : {127, 63}) {
        Floats w = normals(random, 37 * 70);
        for (int64_t k = 0; k < 70; ++k) w[4 * 70 + k] = 0.0f;
        const PackedInt8 packed(w.get(), 37, 70, levels);
        for (int64_t n = 0; n < padded_outputs(37); ++n) {
            int64_t sum = 0;
            for (int64_t k = 0; k < padded_inputs(70); ++k) {
                const int64_t q = packed.at(n, k);
                sum += q;
                const double should = n < 37 && k < 70 ? w[n * 70 + k] : 0.0f;
                CHECK(q >= -levels && q <= levels, "level %lld", static_cast<long long>(q));
                CHECK(std::fabs(static_cast<double>(q) * packed.scales[n] - should) <= 0.5001 * packed.scales[n], "weight %g", should);
            }
            CHECK(packed.sums[n] == 128 * sum, "sum of output %lld", static_cast<long long>(n));
        }
    }
}

void test_all(const Kernels& kernels) {
    now_testing = kernels.name;
    test_quantise(kernels);
    test_norm(kernels);
    test_to_float16(kernels);
    test_int8_product(kernels, 127);
    test_int8_product(kernels, 63);
    test_int8_extremes(kernels, 127);
    test_int8_extremes(kernels, 63);
    test_int8_depths(kernels, 127);
    test_int8_depths(kernels, 63);
    test_int8_not_finite(kernels);
    test_float_product(kernels, false);
    test_float_product(kernels, true);
    test_output(kernels, Kind::int8);
    test_output(kernels, Kind::single);
    test_output(kernels, Kind::half);
    test_output_not_finite(kernels);
    test_many_output_rows(kernels);
    test_embed(kernels);
    test_attend(kernels, false);
    test_attend(kernels, true);
    std::printf("%s: passed\n", kernels.name);
    std::fflush(stdout);
}

}  // namespace

int main() {
    now_testing = "packing";
    test_packing();
    for (const Isa isa : {Isa::portable, Isa::neon, Isa::avx2, Isa::avxvnni, Isa::avx512vnni, Isa::amx}) {
        if (supported(isa)) {
            CHECK(kernels_of(isa).isa == isa, "the table of the instruction set");
            test_all(kernels_of(isa));
        }
    }
#if defined(__x86_64__)
    if (supported(Isa::avx512vnni)) {
        if (!supported(Isa::avxvnni)) test_all(emulated_avxvnni_kernels);
        test_all(emulated_amx_kernels);
    }
#endif
    std::printf("best here: %s\n", kernels_of(best_isa()).name);
    return 0;
}
