// Float code that all instruction sets share, over Vec. Included inside an unnamed namespace.
//
// Uses nothing from the standard library that could be an out-of-line inline function (std::max, std::sort):
// the linker might keep the copy compiled for another instruction set.

constexpr int lanes = Vec::width;
constexpr float largest_float = 3.4028234e38f;
constexpr int widest = 32;  // vectors of the widest head that attention keeps in registers
constexpr float minus_infinity = -__builtin_huge_valf();

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// Lane i is reduce_add(v[i]).
inline Vec reduce_add_each(const Vec (&v)[lanes]) {
    Vec pairs[lanes / 2];
    UWAGA_UNROLL
    for (int i = 0; i < lanes / 2; ++i) pairs[i] = add_pair(v[2 * i], v[2 * i + 1]);
    return reduce_add_pairs(pairs);
}

// e^x, relative error about 1e-7; 0 below -87.3 (so for -inf), NaN for NaN, at most e^88.3.
// Cephes expf: x = n ln 2 + r, |r| <= ln(2)/2, a polynomial of degree 6 in r.
inline Vec exponential(const Vec& argument) {
    const Vec x = min(set(88.3f), max(set(-87.3f), argument));  // NaN is the second operand, so it propagates
    const Vec n = round_nearest(x * set(1.44269504088896341f));
    const Vec r = fma(n, set(2.12194440e-4f), fma(n, set(-0.693359375f), x));
    Vec p = set(1.9875691500e-4f);
    p = fma(p, r, set(1.3981999507e-3f));
    p = fma(p, r, set(8.3334519073e-3f));
    p = fma(p, r, set(4.1665795894e-2f));
    p = fma(p, r, set(1.6666665459e-1f));
    p = fma(p, r, set(5.0000001201e-1f));
    p = fma(p, r * r, r) + set(1.0f);
    return zero_where_less(times_power_of_two(p, n), argument, set(-87.3f));
}

// e^d for d <= 0 (or NaN), in fewer steps: relative error about 2e-7 down to d = -10, at most e^-87.3 below
// -87.3. 2^f on [-1/2, 1/2] is a polynomial of degree 5, fitted by Remez exchange on the relative error.
inline Vec exponential_of_negative(const Vec& d) {
    const Vec x = max(set(-87.3f), d);
    const Vec n = round_nearest(x * set(1.44269504088896341f));
    const Vec f = fma(x, set(1.44269504088896341f), set(0.0f) - n);
    Vec p = set(1.32764721678e-3f);
    p = fma(p, f, set(9.67554133102e-3f));
    p = fma(p, f, set(5.55071327288e-2f));
    p = fma(p, f, set(2.4022119724e-1f));
    p = fma(p, f, set(6.93146967065e-1f));
    p = fma(p, f, set(1.00000007165f));
    return times_power_of_two(p, n);
}

// 2^f for f in [0, 1], relative error about 2e-7, fitted in the same way.
inline Vec power_of_fraction(const Vec& f) {
    Vec p = set(1.87757667519e-3f);
    p = fma(p, f, set(8.98934009049e-3f));
    p = fma(p, f, set(5.58263180533e-2f));
    p = fma(p, f, set(2.40153617044e-1f));
    p = fma(p, f, set(6.93153073200e-1f));
    return fma(p, f, set(9.99999925064e-1f));
}

// e^d for d <= 0 (or NaN) in the fewest steps: relative error about 2e-7 + 6e-8 |d|.
inline Vec log_sum_exp_term(const Vec& d) {
    const Vec u = d * set(1.44269504088896341f);
    return times_power_of_two_floor(power_of_fraction(fraction(u)), u);
}

// erf by Abramowitz and Stegun 7.1.26, absolute error 1.5e-7.
inline Vec error_function(const Vec& x) {
    const Vec a = abs(x);
    const Vec t = set(1.0f) / fma(a, set(0.3275911f), set(1.0f));
    Vec p = set(1.061405429f);
    p = fma(p, t, set(-1.453152027f));
    p = fma(p, t, set(1.421413741f));
    p = fma(p, t, set(-0.284496736f));
    p = fma(p, t, set(0.254829592f));
    return copy_sign(set(1.0f) - p * t * exponential(set(0.0f) - a * a), x);
}

// 1 / (1 + e^-x), relative error about 3e-7 where that is above 1e-6.
inline Vec sigmoid(const Vec& x) {
    const Vec u = min(set(126.0f), x * set(-1.44269504088896341f));
    return reciprocal(times_power_of_two_floor(power_of_fraction(fraction(u)), u) + set(1.0f));
}

// tanh x as 2 sigmoid(2x) - 1, absolute error about 6e-7.
inline Vec hyperbolic_tangent(const Vec& x) { return fma(set(2.0f), sigmoid(x + x), set(-1.0f)); }

// cap * tanh(x / cap)
inline Vec capped(const Vec& x, float cap) { return set(cap) * hyperbolic_tangent(x * set(1.0f / cap)); }

UWAGA_INLINE Vec activate(Activation activation, const Vec& x) {
    switch (activation) {
        case Activation::relu: return max(set(0.0f), x);
        case Activation::gelu:
            return set(0.5f) * x * (set(1.0f) + error_function(x * set(0.70710678118654752f)));
        case Activation::gelu_tanh:  // 1/2 x (1 + tanh u) = x / (1 + e^(-2u))
            return x * sigmoid(set(1.59576912160573071f) * fma(x * x * x, set(0.044715f), x));
        case Activation::silu: return x * sigmoid(x);
        case Activation::tanh: return hyperbolic_tangent(x);
        case Activation::none: break;
    }
    return x;
}

// Four chains of additions (or of `term`), in an order that only the width determines.
template <class Term>
inline void chained(const float* x, int64_t width, float fill, Vec (&chain)[4], const Term& term) {
    for (int i = 0; i < 4; ++i) chain[i] = set(0.0f);
    int64_t k = 0;
    for (; k + 4 * lanes <= width; k += 4 * lanes) {
        UWAGA_UNROLL
        for (int i = 0; i < 4; ++i) chain[i] = term(load(x + k + i * lanes), chain[i]);
    }
    for (; k + lanes <= width; k += lanes) chain[0] = term(load(x + k), chain[0]);
    if (k < width) chain[0] = term(load_part(x + k, width - k, fill), chain[0]);
}

void quantise(const float* x, int64_t rows, int64_t inputs, int64_t x_stride, uint8_t* values, float* scales,
              int64_t stride) {
    const int64_t full = inputs / lanes * lanes;
    for (int64_t row = 0; row < rows; ++row, x += x_stride, values += stride) {
        Vec chain[4];
        chained(x, inputs, 0.0f, chain, [](Vec v, Vec largest) { return max_bits(abs(v), largest); });
        const Vec largest = max_bits(max_bits(chain[0], chain[1]), max_bits(chain[2], chain[3]));
        const float not_finite = reduce_add(largest * set(0.0f));  // NaN if a value is not finite: its bits
                                                                   // are the largest
        const float limit = reduce_max(largest);
        if (!(not_finite == 0.0f) || limit < 1e-30f) {
            memset(values, 128, static_cast<size_t>(stride));
            scales[row] = not_finite;  // NaN makes the row's whole product NaN
            continue;
        }
        scales[row] = limit * (1.0f / 127.0f);
        const Vec inverse = set(127.0f / limit);
        for (int64_t k = 0; k < full; k += lanes) store_quantised(values + k, load(x + k) * inverse);
        memset(values + full, 128, static_cast<size_t>(stride - full));
        if (full < inputs) {
            uint8_t tail[lanes];
            store_quantised(tail, load_part(x + full, inputs - full) * inverse);
            memcpy(values + full, tail, static_cast<size_t>(inputs - full));
        }
    }
}

void norm(const float* x, int64_t rows, int64_t width, int64_t stride, const float* gain, const float* bias,
          float epsilon, bool rms, float* y, int64_t y_stride) {
    const int64_t full = width / lanes * lanes;
    const int64_t tail = width - full;
    const float inverse_width = 1.0f / static_cast<float>(width);
    for (int64_t row = 0; row < rows; ++row, x += stride, y += y_stride) {
        Vec chain[4];
        float mean = 0.0f;
        if (!rms) {
            chained(x, width, 0.0f, chain, [](Vec v, Vec sum) { return sum + v; });
            mean = reduce_add((chain[0] + chain[1]) + (chain[2] + chain[3])) * inverse_width;
        }
        const Vec centre = set(mean);
        chained(x, width, mean, chain, [centre](Vec v, Vec sum) { return fma(v - centre, v - centre, sum); });
        const float square = reduce_add((chain[0] + chain[1]) + (chain[2] + chain[3]));
        const Vec factor = set(1.0f / __builtin_sqrtf(square * inverse_width + epsilon));
        for (int64_t k = 0; k < full; k += lanes) {
            const Vec g = gain ? load(gain + k) : set(1.0f), b = bias ? load(bias + k) : set(0.0f);
            store(y + k, fma((load(x + k) - centre) * factor, g, b));
        }
        if (tail) {
            const Vec g = gain ? load_part(gain + full, tail) : set(1.0f),
                      b = bias ? load_part(bias + full, tail) : set(0.0f);
            store_part(y + full, fma((load_part(x + full, tail) - centre) * factor, g, b), tail);
        }
    }
}

void ssru(const float* forget, const float* input, const float* before, const float* x, int64_t width,
          float* after, float* y) {
    const auto step = [](const Vec& f, const Vec& i, const Vec& c) {
        const Vec forget_gate = sigmoid(f);
        return fma(forget_gate, c - i, i);
    };
    const int64_t full = width / lanes * lanes, tail = width - full;
    for (int64_t k = 0; k < full; k += lanes) {
        const Vec cell = step(load(forget + k), load(input + k), load(before + k));
        store(after + k, cell);
        store(y + k, load(x + k) + max(cell, set(0.0f)));
    }
    if (!tail) return;
    const Vec cell = step(load_part(forget + full, tail), load_part(input + full, tail),
                          load_part(before + full, tail));
    store_part(after + full, cell, tail);
    store_part(y + full, load_part(x + full, tail) + max(cell, set(0.0f)), tail);
}

void to_float16(const float* x, int64_t count, uint16_t* y) {
    const int64_t full = count / lanes * lanes;
    for (int64_t i = 0; i < full; i += lanes) store_float16(y + i, load(x + i));
    if (full < count) {
        uint16_t tail[lanes];
        store_float16(tail, load_part(x + full, count - full));
        memcpy(y + full, tail, static_cast<size_t>(count - full) * 2);
    }
}
