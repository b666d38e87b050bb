// Attention of one query, over Vec. Included inside an unnamed namespace after float.inl.

inline Vec load_any(const float* p) { return load(p); }
inline Vec load_any(const uint16_t* p) { return load_float16(p); }
inline Vec load_any_part(const float* p, int64_t n) { return load_part(p, n); }
inline Vec load_any_part(const uint16_t* p, int64_t n) { return load_float16_part(p, n); }

// e^d for d <= 0; 0 if d is -inf.
inline Vec softmax_term(const Vec& d) { return zero_where_less(exponential_of_negative(d), d, set(-87.3f)); }

// w = softmax(w), in place. If all are -inf, the result is NaN (0/0).
inline void softmax(float* w, int64_t length) {
    const int64_t whole = length / lanes * lanes, rest = length - whole;
    Vec top = set(-largest_float);
    for (int64_t t = 0; t < whole; t += lanes) top = max(top, load(w + t));
    if (rest) top = max(top, load_part(w + whole, rest, -largest_float));
    const Vec highest = set(reduce_max(top));
    Vec sum = set(0.0f);
    for (int64_t t = 0; t < whole; t += lanes) {
        const Vec e = softmax_term(load(w + t) - highest);
        store(w + t, e);
        sum = sum + e;
    }
    if (rest) {
        const Vec e = softmax_term(load_part(w + whole, rest, minus_infinity) - highest);
        store_part(w + whole, e, rest);
        sum = sum + e;
    }
    const Vec factor = set(1.0f / reduce_add(sum));
    for (int64_t t = 0; t < whole; t += lanes) store(w + t, load(w + t) * factor);
    if (rest) store_part(w + whole, load_part(w + whole, rest) * factor, rest);
}

// Position t of one head is at p + offsets[t]. Reading it prefetches what is read later, `prefetch` bytes away.
template <class T>
struct Positions {
    const T* p;
    const int64_t* offsets;
    int64_t length;
    uintptr_t prefetch;

    const T* at(int64_t t) const {
        const T* here = p + offsets[t];
        const uintptr_t later = reinterpret_cast<uintptr_t>(here) + prefetch;
        UWAGA_UNROLL
        for (uintptr_t line = 0; line < 64 * sizeof(T); line += 64) __builtin_prefetch(reinterpret_cast<const void*>(later + line));
        return here;
    }
};

// scores[t] = scale * query . key t + bias[t]. The head is `vectors` vectors wide, an even number.
template <class T, int known>
inline void dot_scores(const float* query, const Positions<T>& keys, int given, float scale, const float* bias, float* scores) {
    constexpr int most = known ? known : widest;
    const int vectors = known ? known : given;
    Vec q[most];
    for (int i = vectors; i < most; ++i) q[i] = set(0.0f);
    UWAGA_UNROLL
    for (int i = 0; i < vectors; i += 2) {
        q[i] = load(query + i * lanes);
        q[i + 1] = load(query + (i + 1) * lanes);
    }
    for (int64_t first = 0; first < keys.length; first += lanes) {
        const int64_t count = smaller(lanes, keys.length - first);
        Vec dots[lanes];
        for (int64_t j = 0; j < lanes; ++j) {
            if (j >= count) {
                dots[j] = set(0.0f);
                continue;
            }
            const T* key = keys.at(first + j);
            Vec a = set(0.0f), b = a;
            UWAGA_UNROLL
            for (int i = 0; i < vectors; i += 2) {
                a = fma(q[i], load_any(key + i * lanes), a);
                b = fma(q[i + 1], load_any(key + (i + 1) * lanes), b);
            }
            dots[j] = a + b;
        }
        Vec s = reduce_add_each(dots) * set(scale);
        if (bias) s = s + load_part(bias + first, count);
        store_part(scores + first, s, count);
    }
}

// context = sum over t of weights[t] * value t, for 2 * pairs vectors. Each addition waits for the previous one, so
// with few vectors even and odd positions are summed separately.
template <class T, int pairs>
inline void weighted_sum(const float* weights, const Positions<T>& values, float* context) {
    constexpr int vectors = 2 * pairs, apart = pairs == 1 ? 2 : 1;
    Vec sum[apart][vectors];
    for (int side = 0; side < apart; ++side) {
        for (int i = 0; i < vectors; ++i) sum[side][i] = set(0.0f);
    }
    const auto add = [&](int64_t t, int side) {
        const T* value = values.at(t);
        const Vec weight = set(weights[t]);
        UWAGA_UNROLL
        for (int i = 0; i < vectors; ++i) sum[side][i] = fma(weight, load_any(value + i * lanes), sum[side][i]);
    };
    int64_t t = 0;
    for (; t + apart <= values.length; t += apart) {
        UWAGA_UNROLL
        for (int side = 0; side < apart; ++side) add(t + side, side);
    }
    if (t < values.length) add(t, 0);
    for (int i = 0; i < vectors; ++i) store(context + i * lanes, apart == 1 ? sum[0][i] : sum[0][i] + sum[apart - 1][i]);
}

// The same for any head width.
template <class T>
inline void dot_scores_any_width(const float* query, const Positions<T>& keys, int64_t head_width, float scale, const float* bias, float* scores) {
    for (int64_t t = 0; t < keys.length; ++t) {
        const T* key = keys.p + keys.offsets[t];
        Vec dot = set(0.0f);
        for (int64_t k = 0; k < head_width; k += lanes) {
            const int64_t n = smaller(lanes, head_width - k);
            dot = fma(load_part(query + k, n), load_any_part(key + k, n), dot);
        }
        scores[t] = reduce_add(dot) * scale + (bias ? bias[t] : 0.0f);
    }
}
template <class T>
inline void weighted_sum_any_width(const float* weights, const Positions<T>& values, int64_t head_width, float* context) {
    for (int64_t k = 0; k < head_width; k += lanes) {
        const int64_t n = smaller(lanes, head_width - k);
        Vec sum = set(0.0f);
        for (int64_t t = 0; t < values.length; ++t) sum = fma(set(weights[t]), load_any_part(values.p + values.offsets[t] + k, n), sum);
        store_part(context + k, sum, n);
    }
}

// softmax(scale q K^T + bias) V for one query (Vaswani et al. 2017, equation 1). Each stage runs for all heads before
// the next stage, so that the latencies of their softmaxes overlap.
template <class T>
void attend(const float* query, const T* keys, const T* values, const int64_t* offsets, int64_t length, int64_t heads, int64_t head_width, int64_t head_stride, float scale, const float* bias, float* weights, float* context) {
    constexpr int usual = 64 / lanes;  // vectors of the most common head; small models have heads half as wide
    const bool even = head_width % (2 * lanes) == 0 && head_width <= widest * lanes;
    const int vectors = static_cast<int>(head_width / lanes);
    const uintptr_t next = static_cast<uintptr_t>(head_stride) * sizeof(T);
    for (int64_t h = 0; h < heads; ++h) {
        const T* first = keys + h * head_stride;
        const uintptr_t to_values = reinterpret_cast<uintptr_t>(values) - reinterpret_cast<uintptr_t>(first);
        const Positions<T> k{first, offsets, length, h + 1 < heads ? next : to_values};
        const float* q = query + h * head_width;
        const float* b = bias ? bias + h * length : nullptr;
        if (!even) dot_scores_any_width(q, k, head_width, scale, b, weights + h * length);
        else if (vectors == usual) dot_scores<T, usual>(q, k, vectors, scale, b, weights + h * length);
        else if (vectors == usual / 2) dot_scores<T, usual / 2>(q, k, vectors, scale, b, weights + h * length);
        else dot_scores<T, 0>(q, k, vectors, scale, b, weights + h * length);
    }
    for (int64_t h = 0; h < heads; ++h) softmax(weights + h * length, length);
    for (int64_t h = 0; h < heads; ++h) {
        const float* w = weights + h * length;
        const Positions<T> v{values + h * head_stride, offsets, length, h + 1 < heads ? next : 0};
        float* c = context + h * head_width;
        if (!even) {
            weighted_sum_any_width(w, v, head_width, c);
            continue;
        }
        int64_t at = 0;
        for (; at + 4 * lanes <= head_width; at += 4 * lanes) weighted_sum<T, 2>(w, Positions<T>{v.p + at, offsets, length, v.prefetch}, c + at);
        if (at < head_width) weighted_sum<T, 1>(w, Positions<T>{v.p + at, offsets, length, v.prefetch}, c + at);
    }
}

void attend_float16(const float* query, const uint16_t* keys, const uint16_t* values, const int64_t* offsets, int64_t length, int64_t heads, int64_t head_width, int64_t head_stride, float scale, const float* bias, float* weights, float* context) {
    attend<uint16_t>(query, keys, values, offsets, length, heads, head_width, head_stride, scale, bias, weights, context);
}
void attend_float(const float* query, const float* keys, const float* values, const int64_t* offsets, int64_t length, int64_t heads, int64_t head_width, int64_t head_stride, float scale, const float* bias, float* weights, float* context) {
    attend<float>(query, keys, values, offsets, length, heads, head_width, head_stride, scale, bias, weights, context);
}
