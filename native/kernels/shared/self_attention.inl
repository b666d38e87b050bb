// Self-attention of whole sentences, over Vec. Included inside an unnamed namespace after attention.inl.

// queries_at_once queries by two vectors of keys each: eight sums, independent of each other.

// scores[i][t] = query i . key t. Keys are transposed, (head_width, padded): a vector holds one element of
// many keys.
inline void dot_scores_transposed(const float* const (&query)[queries_at_once], const float* transposed,
                                  int64_t padded, int64_t head_width, float* scores) {
    for (int64_t first = 0; first < padded; first += 2 * lanes) {
        Vec left[queries_at_once], right[queries_at_once];
        UWAGA_UNROLL
        for (int i = 0; i < queries_at_once; ++i) left[i] = right[i] = set(0.0f);
        for (int64_t k = 0; k < head_width; ++k) {
            const Vec a = load(transposed + k * padded + first),
                      b = load(transposed + k * padded + first + lanes);
            UWAGA_UNROLL
            for (int i = 0; i < queries_at_once; ++i) {
                const Vec q = set(query[i][k]);
                left[i] = fma(q, a, left[i]);
                right[i] = fma(q, b, right[i]);
            }
        }
        UWAGA_UNROLL
        for (int i = 0; i < queries_at_once; ++i) {
            store(scores + i * padded + first, left[i]);
            store(scores + i * padded + first + lanes, right[i]);
        }
    }
}

// context i = sum over t of weights[i][t] * value t, for two vectors of columns, or the last `tail` columns.
template <bool full>
inline void weighted_sums(const float* weights, int64_t padded, const float* values, int64_t stride,
                          int64_t length, int64_t tail, float* const (&context)[queries_at_once],
                          int64_t column) {
    Vec left[queries_at_once], right[queries_at_once];
    UWAGA_UNROLL
    for (int i = 0; i < queries_at_once; ++i) left[i] = right[i] = set(0.0f);
    const int64_t second = tail > lanes ? tail - lanes : 0;
    for (int64_t t = 0; t < length; ++t) {
        const float* value = values + t * stride + column;
        const Vec a = full ? load(value) : load_part(value, tail),
                  b = full ? load(value + lanes) : load_part(value + lanes, second);
        UWAGA_UNROLL
        for (int i = 0; i < queries_at_once; ++i) {
            const Vec weight = set(weights[i * padded + t]);
            left[i] = fma(weight, a, left[i]);
            right[i] = fma(weight, b, right[i]);
        }
    }
    UWAGA_UNROLL
    for (int i = 0; i < queries_at_once; ++i) {
        if (full) {
            store(context[i] + column, left[i]);
            store(context[i] + column + lanes, right[i]);
        } else {
            store_part(context[i] + column, left[i], tail);
            if (second) store_part(context[i] + column + lanes, right[i], second);
        }
    }
}

// Scale the scores of the query at `row`, add the relative bias and apply softmax.
inline void weigh(const SelfAttention& a, int64_t row, float* scores) {
    const Vec scale = set(a.scale);
    for (int64_t t = 0; t < a.length; t += lanes) store(scores + t, load(scores + t) * scale);
    if (a.relative) {
        for (int64_t t = 0; t < a.length; ++t) {
            const int64_t distance = t - row;
            scores[t] +=
                a.relative[distance < -a.max_distance ? -a.max_distance : smaller(distance, a.max_distance)];
        }
    }
    softmax(scores, a.length);
}

// Four queries at a time share the loads of keys and values. Beyond the last query the last one is repeated,
// and its context written again.
void self_attend(const SelfAttention& a) {
    const int64_t padded = padded_keys(a.length);
    float* transposed = a.scratch;
    float* scores = transposed + a.head_width * padded;
    for (int64_t k = 0; a.first == 0 && k < a.head_width; ++k) {
        float* to = transposed + k * padded;
        for (int64_t t = 0; t < a.length; ++t) to[t] = a.keys[t * a.stride + k];
        for (int64_t t = a.length; t < padded; ++t) to[t] = 0.0f;
    }
    for (int64_t row = a.first; row < a.last; row += queries_at_once) {
        const float* query[queries_at_once];
        float* context[queries_at_once];
        for (int64_t i = 0; i < queries_at_once; ++i) {
            const int64_t query_row = smaller(row + i, a.last - 1);
            query[i] = a.queries + query_row * a.stride;
            context[i] = a.context + query_row * a.context_stride;
        }
        dot_scores_transposed(query, transposed, padded, a.head_width, scores);
        for (int64_t i = 0; i < queries_at_once; ++i)
            weigh(a, smaller(row + i, a.last - 1), scores + i * padded);
        int64_t column = 0;
        for (; column + 2 * lanes <= a.head_width; column += 2 * lanes)
            weighted_sums<true>(scores, padded, a.values, a.stride, a.length, 2 * lanes, context, column);
        if (column < a.head_width)
            weighted_sums<false>(scores, padded, a.values, a.stride, a.length, a.head_width - column, context,
                                 column);
    }
}
