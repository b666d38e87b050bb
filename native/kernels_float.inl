// Float code that every instruction set shares, over its Vec. Included inside an unnamed namespace.
//
// Nothing from the standard library that could be an out-of-line inline function is used here (std::max, std::sort):
// the linker might keep the copy that was compiled for another instruction set.

constexpr int lanes = Vec::width;
constexpr float not_finite_limit = 3.4028234e38f;
constexpr float minus_infinity = -__builtin_huge_valf();

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// e^x, relative error about 1e-7; 0 below -87.3 (so for -inf), NaN for NaN, at most e^88.3.
// Cephes expf: x = n ln 2 + r, |r| <= ln(2)/2, a polynomial of degree 6 in r.
inline Vec exponential(const Vec& given) {
    const Vec x = min(set(88.3f), max(set(-87.3f), given));  // a NaN is the second operand: it stays
    const Vec n = nearest(x * set(1.44269504088896341f));
    const Vec r = fma(n, set(2.12194440e-4f), fma(n, set(-0.693359375f), x));
    Vec p = set(1.9875691500e-4f);
    p = fma(p, r, set(1.3981999507e-3f));
    p = fma(p, r, set(8.3334519073e-3f));
    p = fma(p, r, set(4.1665795894e-2f));
    p = fma(p, r, set(1.6666665459e-1f));
    p = fma(p, r, set(5.0000001201e-1f));
    p = fma(p, r * r, r) + set(1.0f);
    return zero_where_less(times_power(p, n), given, set(-87.3f));
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
    return with_sign(set(1.0f) - p * t * exponential(set(0.0f) - a * a), x);
}

inline Vec activated(Activation activation, const Vec& x) {
    const Vec one = set(1.0f);
    switch (activation) {
        case Activation::relu:
            return max(set(0.0f), x);
        case Activation::gelu:
            return set(0.5f) * x * (one + error_function(x * set(0.70710678118654752f)));
        case Activation::gelu_tanh: {  // 1/2 x (1 + tanh u) = x / (1 + e^(-2u))
            const Vec u = set(0.79788456080286536f) * fma(x * x * x, set(0.044715f), x);
            return x / (one + exponential(set(-2.0f) * u));
        }
        case Activation::silu:
            return x / (one + exponential(set(0.0f) - x));
        case Activation::none:
            break;
    }
    return x;
}

void quantise(const float* x, int64_t rows, int64_t inputs, int64_t x_stride, uint8_t* values, float* scales, int64_t stride) {
    const int64_t whole = inputs / lanes * lanes;
    for (int64_t row = 0; row < rows; ++row, x += x_stride, values += stride) {
        Vec largest = set(0.0f), bad = set(0.0f);  // bad: 0, or NaN where a value is not finite
        for (int64_t k = 0; k < whole; k += lanes) {
            const Vec v = load(x + k);
            largest = max(abs(v), largest);
            bad = fma(v, set(0.0f), bad);
        }
        if (whole < inputs) {
            const Vec v = load_part(x + whole, inputs - whole);
            largest = max(abs(v), largest);
            bad = fma(v, set(0.0f), bad);
        }
        const float limit = maximum(largest);
        const float spoilt = total(bad);
        if (!(spoilt == 0.0f) || limit < 1e-30f) {
            memset(values, 128, static_cast<size_t>(stride));
            scales[row] = spoilt;  // NaN makes the whole row of the product NaN
            continue;
        }
        scales[row] = limit * (1.0f / 127.0f);
        const Vec inverse = set(127.0f / limit);
        const Vec most = set(127.0f), least = set(-127.0f);
        for (int64_t k = 0; k < whole; k += lanes) {
            store_quantised(values + k, max(least, min(most, load(x + k) * inverse)));
        }
        memset(values + whole, 128, static_cast<size_t>(stride - whole));
        if (whole < inputs) {
            uint8_t rest[lanes];
            store_quantised(rest, max(least, min(most, load_part(x + whole, inputs - whole) * inverse)));
            memcpy(values + whole, rest, static_cast<size_t>(inputs - whole));
        }
    }
}

void norm(const float* x, int64_t rows, int64_t width, int64_t stride, const float* gain, const float* bias, float epsilon, bool rms, float* y, int64_t y_stride) {
    const int64_t whole = width / lanes * lanes;
    const int64_t rest = width - whole;
    const float share = 1.0f / static_cast<float>(width);
    for (int64_t row = 0; row < rows; ++row, x += stride, y += y_stride) {
        float mean = 0.0f;
        if (!rms) {
            Vec sum = set(0.0f);
            for (int64_t k = 0; k < whole; k += lanes) sum = sum + load(x + k);
            if (rest) sum = sum + load_part(x + whole, rest);
            mean = total(sum) * share;
        }
        const Vec centre = set(mean);
        Vec square = set(0.0f);
        for (int64_t k = 0; k < whole; k += lanes) {
            const Vec d = load(x + k) - centre;
            square = fma(d, d, square);
        }
        if (rest) {
            const Vec d = load_part(x + whole, rest, mean) - centre;
            square = fma(d, d, square);
        }
        const Vec factor = set(1.0f / __builtin_sqrtf(total(square) * share + epsilon));
        for (int64_t k = 0; k < whole; k += lanes) {
            const Vec g = gain ? load(gain + k) : set(1.0f), b = bias ? load(bias + k) : set(0.0f);
            store(y + k, fma((load(x + k) - centre) * factor, g, b));
        }
        if (rest) {
            const Vec g = gain ? load_part(gain + whole, rest) : set(1.0f), b = bias ? load_part(bias + whole, rest) : set(0.0f);
            store_part(y + whole, fma((load_part(x + whole, rest) - centre) * factor, g, b), rest);
        }
    }
}

void to_half(const float* x, int64_t count, uint16_t* y) {
    const int64_t whole = count / lanes * lanes;
    for (int64_t i = 0; i < whole; i += lanes) store_half(y + i, load(x + i));
    if (whole < count) {
        uint16_t rest[lanes];
        store_half(rest, load_part(x + whole, count - whole));
        memcpy(y + whole, rest, static_cast<size_t>(count - whole) * 2);
    }
}

inline Vec load_any(const float* p) { return load(p); }
inline Vec load_any(const uint16_t* p) { return load_half(p); }
inline Vec load_any_part(const float* p, int64_t n) { return load_part(p, n); }
inline Vec load_any_part(const uint16_t* p, int64_t n) { return load_half_part(p, n); }

// w = softmax(w), in place. All -inf gives NaN, as the quotient 0/0 does.
inline void softmax(float* w, int64_t length) {
    const int64_t whole = length / lanes * lanes;
    Vec top = set(-not_finite_limit);
    for (int64_t t = 0; t < whole; t += lanes) top = max(top, load(w + t));
    if (whole < length) top = max(top, load_part(w + whole, length - whole, -not_finite_limit));
    const Vec highest = set(maximum(top));
    Vec sum = set(0.0f);
    for (int64_t t = 0; t < whole; t += lanes) {
        const Vec e = exponential(load(w + t) - highest);
        store(w + t, e);
        sum = sum + e;
    }
    if (whole < length) {
        const Vec e = exponential(load_part(w + whole, length - whole, minus_infinity) - highest);
        store_part(w + whole, e, length - whole);
        sum = sum + e;
    }
    const Vec factor = set(1.0f / total(sum));
    for (int64_t t = 0; t < whole; t += lanes) store(w + t, load(w + t) * factor);
    if (whole < length) store_part(w + whole, load_part(w + whole, length - whole) * factor, length - whole);
}

// softmax(scale q K^T + bias) V for one query (Vaswani et al. 2017, equation 1).
template <class T>
void attend(const float* query, const T* keys, const T* values, const int64_t* where, int64_t length, int64_t heads, int64_t head_width, int64_t head_stride, float scale, const float* bias, float* weights, float* context) {
    const int64_t whole = head_width / lanes * lanes;
    const int64_t rest = head_width - whole;
    for (int64_t h = 0; h < heads; ++h) {
        const float* q = query + h * head_width;
        float* w = weights + h * length;
        for (int64_t t = 0; t < length; ++t) {
            const T* key = keys + where[t] + h * head_stride;
            Vec dot = set(0.0f);
            for (int64_t k = 0; k < whole; k += lanes) dot = fma(load(q + k), load_any(key + k), dot);
            if (rest) dot = fma(load_part(q + whole, rest), load_any_part(key + whole, rest), dot);
            w[t] = total(dot) * scale + (bias ? bias[h * length + t] : 0.0f);
        }
        softmax(w, length);
        float* c = context + h * head_width;
        int64_t k = 0;
        for (; k + 4 * lanes <= whole; k += 4 * lanes) {
            Vec c0 = set(0.0f), c1 = c0, c2 = c0, c3 = c0;
            for (int64_t t = 0; t < length; ++t) {
                const T* value = values + where[t] + h * head_stride + k;
                const Vec share = set(w[t]);
                c0 = fma(share, load_any(value), c0);
                c1 = fma(share, load_any(value + lanes), c1);
                c2 = fma(share, load_any(value + 2 * lanes), c2);
                c3 = fma(share, load_any(value + 3 * lanes), c3);
            }
            store(c + k, c0);
            store(c + k + lanes, c1);
            store(c + k + 2 * lanes, c2);
            store(c + k + 3 * lanes, c3);
        }
        for (; k < head_width; k += lanes) {
            const int64_t n = smaller(lanes, head_width - k);
            Vec c0 = set(0.0f);
            for (int64_t t = 0; t < length; ++t) {
                c0 = fma(set(w[t]), load_any_part(values + where[t] + h * head_stride + k, n), c0);
            }
            store_part(c + k, c0, n);
        }
    }
}

void attend_half(const float* query, const uint16_t* keys, const uint16_t* values, const int64_t* where, int64_t length, int64_t heads, int64_t head_width, int64_t head_stride, float scale, const float* bias, float* weights, float* context) {
    attend<uint16_t>(query, keys, values, where, length, heads, head_width, head_stride, scale, bias, weights, context);
}
void attend_float(const float* query, const float* keys, const float* values, const int64_t* where, int64_t length, int64_t heads, int64_t head_width, int64_t head_stride, float scale, const float* bias, float* weights, float* context) {
    attend<float>(query, keys, values, where, length, heads, head_width, head_stride, scale, bias, weights, context);
}
