// Logits of a subset of tokens, whose weights are stored token by token, over Vec and the instruction set's
//
//     struct Int8Dots {
//         static constexpr int at_once;  // tokens
//         static void run(const uint8_t* x, const int8_t* const (&weights)[at_once], int64_t inputs,
//                         int32_t* sums);
//     };
//
// which multiplies a row by the weights of `at_once` tokens: exact sums of u8 * q, over inputs padded to 64.
// Included inside an unnamed namespace after float.inl.

// y = sums, scaled, + bias: computed as in Dequantise and ProductFinish, so that a token's logit is the same.
inline void finish_listed(const int32_t* sums, float row_scale, const ListedTokens& w, int64_t first,
                          int64_t count, float* logits) {
    for (int64_t i = 0; i < count; ++i) {
        const float y = static_cast<float>(sums[i] - w.sums[first + i]) * (row_scale * w.scales[first + i]);
        logits[first + i] = w.bias ? y + w.bias[first + i] : y;
    }
}

void int8_listed(const QuantisedRows& x, int64_t rows, const ListedTokens& w, float* logits, int64_t stride) {
    constexpr int64_t block = Int8Dots::at_once;
    const int64_t inputs = padded_inputs(w.inputs);
    const int8_t* weights = static_cast<const int8_t*>(w.weights);
    alignas(64) int32_t sums[block];
    for (int64_t first = 0; first < w.count; first += block) {
        const int64_t count = smaller(block, w.count - first);
        const int8_t* token_weights[block];
        for (int64_t i = 0; i < block; ++i)
            token_weights[i] = weights + w.tokens[first + smaller(i, count - 1)] * inputs;
        for (int64_t row = 0; row < rows; ++row) {
            Int8Dots::run(x.values + row * x.stride, token_weights, inputs, sums);
            finish_listed(sums, x.scales[row], w, first, count, logits + row * stride);
        }
    }
}

inline Vec dot_product(const float* x, const float* weights, int64_t inputs) {
    Vec a = set(0.0f), b = a;
    int64_t k = 0;
    for (; k + 2 * lanes <= inputs; k += 2 * lanes) {
        a = fma(load(x + k), load(weights + k), a);
        b = fma(load(x + k + lanes), load(weights + k + lanes), b);
    }
    for (; k < inputs; k += lanes)
        a = fma(load_part(x + k, inputs - k), load_part(weights + k, inputs - k), a);
    return a + b;
}

// x: the even-indexed elements, then the odd-indexed ones, each (half,).
inline Vec dot_product(const float* x, const uint16_t* weights, int64_t inputs) {
    const int64_t half = (inputs + 1) / 2;
    Vec a = set(0.0f), b = a;
    int64_t k = 0;
    for (; k + lanes <= half; k += lanes) {
        Vec even, odd;
        load_bfloat16_pairs(weights + 2 * k, even, odd);
        a = fma(load(x + k), even, a);
        b = fma(load(x + half + k), odd, b);
    }
    if (k < half) {
        uint16_t last[2 * lanes] = {};
        for (int64_t i = 0; i < 2 * (half - k); ++i) last[i] = weights[2 * k + i];
        Vec even, odd;
        load_bfloat16_pairs(last, even, odd);
        a = fma(load_part(x + k, half - k), even, a);
        b = fma(load_part(x + half + k, half - k), odd, b);
    }
    return a + b;
}

template <class T>
void dot_products_listed(const float* x, int64_t rows, int64_t x_stride, const ListedTokens& w,
                         int64_t row_size, float* logits, int64_t stride) {
    const T* weights = static_cast<const T*>(w.weights);
    for (int64_t first = 0; first < w.count; first += lanes) {
        const int64_t count = smaller(lanes, w.count - first);
        for (int64_t row = 0; row < rows; ++row) {
            Vec dots[lanes];
            for (int64_t i = 0; i < lanes; ++i) {
                dots[i] = i < count ? dot_product(x + row * x_stride,
                                                  weights + w.tokens[first + i] * row_size, w.inputs)
                                    : set(0.0f);
            }
            Vec y = reduce_add_each(dots);
            if (w.bias) y = y + load_part(w.bias + first, count);
            store_part(logits + row * stride + first, y, count);
        }
    }
}
void float_listed(const float* x, int64_t rows, int64_t x_stride, const ListedTokens& w, float* logits,
                  int64_t stride) {
    dot_products_listed<float>(x, rows, x_stride, w, w.inputs, logits, stride);
}
void bfloat16_listed(const float* x, int64_t rows, int64_t x_stride, const ListedTokens& w, float* logits,
                     int64_t stride) {
    dot_products_listed<uint16_t>(x, rows, x_stride, w, (w.inputs + 1) / 2 * 2, logits, stride);
}
