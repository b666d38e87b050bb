// Recurrent units and their attention, and rotary positions, over Vec. Included inside an unnamed namespace
// after attention.inl.

// A full vector of a row, or its last n elements.
struct FullVector {
    Vec get(const float* p) const { return load(p); }
    void put(float* p, const Vec& v) const { store(p, v); }
};
struct PartialVector {
    int64_t n;
    Vec get(const float* p) const { return load_part(p, n); }
    void put(float* p, const Vec& v) const { store_part(p, v, n); }
};

// step(k, part) for each vector of `width` elements, from element k.
template <class Step>
inline void by_vector(int64_t width, const Step& step) {
    int64_t k = 0;
    for (; k + lanes <= width; k += lanes) step(k, FullVector{});
    if (k < width) step(k, PartialVector{width - k});
}

void rotate(float* x, int64_t heads, int64_t head_width, const float* cos_sin) {
    const int64_t half = head_width / 2;
    for (int64_t h = 0; h < heads; ++h, x += head_width) {
        by_vector(half, [=](int64_t k, auto part) {
            const Vec a = part.get(x + k), b = part.get(x + half + k), cosine = part.get(cos_sin + k),
                      sine = part.get(cos_sin + half + k);
            part.put(x + k, a * cosine - b * sine);
            part.put(x + half + k, b * cosine + a * sine);
        });
    }
}

void gate(const float* a, const float* b, const float* x, int64_t width, float* y) {
    by_vector(width, [=](int64_t k, auto part) {
        part.put(y + k, sigmoid(part.get(a + k) + part.get(b + k)) * part.get(x + k));
    });
}

void gru(const float* update, const float* update_state, const float* candidate, const float* candidate_state,
         const float* before, int64_t units, float* after) {
    by_vector(units, [=](int64_t k, auto part) {
        const Vec z = sigmoid(part.get(update + k) + part.get(update_state + k));
        const Vec n = hyperbolic_tangent(part.get(candidate + k) + part.get(candidate_state + k));
        part.put(after + k, fma(z, part.get(before + k) - n, n));
    });
}

void lstm(const float* inputs, const float* states, const float* before, int64_t units, float* after,
          float* hidden) {
    by_vector(units, [=](int64_t k, auto part) {
        const auto sum = [&](int64_t gate_index) {
            return part.get(inputs + gate_index * units + k) + part.get(states + gate_index * units + k);
        };
        const Vec written = sigmoid(sum(0)) * hyperbolic_tangent(sum(2));
        const Vec cell = fma(sigmoid(sum(1)), part.get(before + k), written);
        part.put(hidden + k, sigmoid(sum(3)) * hyperbolic_tangent(cell));
        part.put(after + k, cell);
    });
}

// scores[t] = scale * sum over k of term(k, key t), with two sums in an order that only the width determines.
template <class Term>
inline void score_keys(const float* keys, int64_t stride, int64_t length, int64_t width, float scale,
                       float* scores, const Term& term) {
    for (int64_t first = 0; first < length; first += lanes) {
        const int64_t count = smaller(lanes, length - first);
        Vec sums[lanes];
        for (int64_t j = 0; j < lanes; ++j) {
            Vec a = set(0.0f), b = a;
            const float* key = keys + (first + j) * stride;
            int64_t k = 0;
            for (; j < count && k + 2 * lanes <= width; k += 2 * lanes) {
                a = term(k, key + k, FullVector{}, a);
                b = term(k + lanes, key + k + lanes, FullVector{}, b);
            }
            if (j < count && k + lanes <= width) {
                a = term(k, key + k, FullVector{}, a);
                k += lanes;
            }
            if (j < count && k < width) b = term(k, key + k, PartialVector{width - k}, b);
            sums[j] = a + b;
        }
        store_part(scores + first, reduce_add_each(sums) * set(scale), count);
    }
}

void score_dot(const float* query, const float* keys, int64_t stride, int64_t length, int64_t width,
               float scale, float* scores) {
    score_keys(keys, stride, length, width, scale, scores,
               [=](int64_t k, const float* key, auto part, const Vec& sum) {
                   return fma(part.get(query + k), part.get(key), sum);
               });
}

void score_additive(const float* query, const float* vector, const float* keys, int64_t stride,
                    int64_t length, int64_t width, float* scores) {
    score_keys(keys, stride, length, width, 1.0f, scores,
               [=](int64_t k, const float* key, auto part, const Vec& sum) {
                   return fma(part.get(vector + k), hyperbolic_tangent(part.get(query + k) + part.get(key)),
                              sum);
               });
}

// context[k] = sum over t of weights[t] * values[t][k], for `vectors` vectors.
template <int vectors, class Part>
inline void weighted_columns(const float* weights, const float* values, int64_t stride, int64_t length,
                             const Part& part, float* context) {
    Vec sum[vectors];
    for (int i = 0; i < vectors; ++i) sum[i] = set(0.0f);
    for (int64_t t = 0; t < length; ++t) {
        const Vec weight = set(weights[t]);
        UWAGA_UNROLL
        for (int i = 0; i < vectors; ++i)
            sum[i] = fma(weight, part.get(values + t * stride + i * lanes), sum[i]);
    }
    for (int i = 0; i < vectors; ++i) part.put(context + i * lanes, sum[i]);
}

void weigh_values(float* weights, const float* gain, const float* values, int64_t stride, int64_t length,
                  int64_t width, float* context) {
    softmax(weights, length);
    if (gain)
        by_vector(length, [=](int64_t t, auto part) {
            part.put(weights + t, part.get(weights + t) * part.get(gain + t));
        });
    int64_t k = 0;
    for (; k + 4 * lanes <= width; k += 4 * lanes)
        weighted_columns<4>(weights, values + k, stride, length, FullVector{}, context + k);
    for (; k + lanes <= width; k += lanes)
        weighted_columns<1>(weights, values + k, stride, length, FullVector{}, context + k);
    if (k < width)
        weighted_columns<1>(weights, values + k, stride, length, PartialVector{width - k}, context + k);
}

void predict_window(const float* hidden, const float* vector, int64_t width, int64_t length, int64_t reach,
                    int64_t* window, float* gain) {
    float relative_centre;
    score_dot(hidden, vector, 0, 1, width, 1.0f, &relative_centre);
    store_part(&relative_centre, sigmoid(set(relative_centre)), 1);
    const float centre = static_cast<float>(length) * relative_centre,
                max_distance = static_cast<float>(reach);
    window[0] = window[1] = 0;
    for (int64_t t = 0; t < length; ++t) {
        const float distance = static_cast<float>(t) - centre;
        gain[t] = -2.0f / (max_distance * max_distance) * (distance * distance);
        if (distance < -max_distance) window[0] = t + 1;
        if (distance <= max_distance) window[1] = t + 1;
    }
    by_vector(length,
              [=](int64_t t, auto part) { part.put(gain + t, exponential_of_negative(part.get(gain + t))); });
    if (!(window[0] < window[1]))
        window[0] = 0, window[1] = length;  // the centre is NaN, and so is every weight
}
