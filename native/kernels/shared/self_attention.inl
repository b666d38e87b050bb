// Self-attention of whole sentences, over Vec. Included inside an unnamed namespace after attention.inl.

// queries_at_once queries by two vectors of keys each: eight sums, independent of each other.

// scores[i][t] = query i . key t. Keys are transposed, (head_width, padded): a vector holds one element of many keys.
inline void dot_scores_turned(const float* const (&query)[queries_at_once], const float* turned, int64_t padded, int64_t head_width, float* scores) {
    for (int64_t first = 0; first < padded; first += 2 * lanes) {
        Vec left[queries_at_once], right[queries_at_once];
        UWAGA_UNROLL
        for (int i = 0; i < queries_at_once; ++i) left[i] = right[i] = set(0.0f);
        for (int64_t k = 0; k < head_width; ++k) {
            const Vec a = load(turned + k * padded + first), b = load(turned + k * padded + first + lanes);
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

// context i = sum over t of weights[i][t] * value t, for two vectors of columns, or the last `rest` columns.
template <bool whole>
inline void weighted_sums(const float* weights, int64_t padded, const float* values, int64_t stride, int64_t length, int64_t rest, float* const (&context)[queries_at_once], int64_t at) {
    Vec left[queries_at_once], right[queries_at_once];
    UWAGA_UNROLL
    for (int i = 0; i < queries_at_once; ++i) left[i] = right[i] = set(0.0f);
    const int64_t second = rest > lanes ? rest - lanes : 0;
    for (int64_t t = 0; t < length; ++t) {
        const float* value = values + t * stride + at;
        const Vec a = whole ? load(value) : load_part(value, rest), b = whole ? load(value + lanes) : load_part(value + lanes, second);
        UWAGA_UNROLL
        for (int i = 0; i < queries_at_once; ++i) {
            const Vec weight = set(weights[i * padded + t]);
            left[i] = fma(weight, a, left[i]);
            right[i] = fma(weight, b, right[i]);
        }
    }
    UWAGA_UNROLL
    for (int i = 0; i < queries_at_once; ++i) {
        if (whole) {
            store(context[i] + at, left[i]);
            store(context[i] + at + lanes, right[i]);
        } else {
            store_part(context[i] + at, left[i], rest);
            if (second) store_part(context[i] + at + lanes, right[i], second);
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
            scores[t] += a.relative[distance < -a.max_distance ? -a.max_distance : smaller(distance, a.max_distance)];
        }
    }
    softmax(scores, a.length);
}

// Four queries at a time share the loads of keys and values. Beyond the last query the last one is repeated, and its
// context written again.
void self_attend(const SelfAttention& a) {
    const int64_t padded = padded_keys(a.length);
    float* turned = a.scratch;
    float* scores = turned + a.head_width * padded;
    for (int64_t k = 0; a.first == 0 && k < a.head_width; ++k) {
        float* to = turned + k * padded;
        for (int64_t t = 0; t < a.length; ++t) to[t] = a.keys[t * a.stride + k];
        for (int64_t t = a.length; t < padded; ++t) to[t] = 0.0f;
    }
    for (int64_t row = a.first; row < a.last; row += queries_at_once) {
        const float* query[queries_at_once];
        float* context[queries_at_once];
        for (int64_t i = 0; i < queries_at_once; ++i) {
            const int64_t here = smaller(row + i, a.last - 1);
            query[i] = a.queries + here * a.stride;
            context[i] = a.context + here * a.context_stride;
        }
        dot_scores_turned(query, turned, padded, a.head_width, scores);
        for (int64_t i = 0; i < queries_at_once; ++i) weigh(a, smaller(row + i, a.last - 1), scores + i * padded);
        int64_t at = 0;
        for (; at + 2 * lanes <= a.head_width; at += 2 * lanes) weighted_sums<true>(scores, padded, a.values, a.stride, a.length, 2 * lanes, context, at);
        if (at < a.head_width) weighted_sums<false>(scores, padded, a.values, a.stride, a.length, a.head_width - at, context, at);
    }
}
