// Attention over cached keys and values, over Vec. Included inside an unnamed namespace after float.inl.

inline Vec load_any(const float* p) { return load(p); }
inline Vec load_any(const uint16_t* p) { return load_float16(p); }
inline Vec load_any_part(const float* p, int64_t n) { return load_part(p, n); }
inline Vec load_any_part(const uint16_t* p, int64_t n) { return load_float16_part(p, n); }

// e^d for d <= 0; 0 if d is -inf.
inline Vec softmax_term(const Vec& d) { return zero_where_less(exponential_of_negative(d), d, set(-87.3f)); }

// w = softmax(w), in place. If all are -inf, the result is NaN (0/0).
inline void softmax(float* w, int64_t length) {
    const int64_t full = length / lanes * lanes, tail = length - full;
    Vec top = set(-largest_float);
    for (int64_t t = 0; t < full; t += lanes) top = max(top, load(w + t));
    if (tail) top = max(top, load_part(w + full, tail, -largest_float));
    const Vec highest = set(reduce_max(top));
    Vec sum = set(0.0f);
    for (int64_t t = 0; t < full; t += lanes) {
        const Vec e = softmax_term(load(w + t) - highest);
        store(w + t, e);
        sum = sum + e;
    }
    if (tail) {
        const Vec e = softmax_term(load_part(w + full, tail, minus_infinity) - highest);
        store_part(w + full, e, tail);
        sum = sum + e;
    }
    const Vec factor = set(1.0f / reduce_add(sum));
    for (int64_t t = 0; t < full; t += lanes) store(w + t, load(w + t) * factor);
    if (tail) store_part(w + full, load_part(w + full, tail) * factor, tail);
}

// Position t of one head is at p + offsets[t]. Reading it prefetches what is read later: `prefetch` bytes
// away, and into the second level of the cache the `entry` bytes of a later position and what the next call
// reads, `following` bytes away.
template <class T>
struct Positions {
    const T* p;
    const int64_t* offsets;
    int64_t length;
    uintptr_t prefetch;
    uintptr_t entry = 0;      // of a position's keys and values of all heads, for the first head; 0: none
    uintptr_t following = 0;  // 0: none

    static constexpr int64_t ahead = 8;
    static constexpr uintptr_t max_entry = 1024;  // more lines at once would wait for each other

    // Positions `begin` to `end`; and all positions without the first `number` numbers of each, whose
    // entries are not prefetched again.
    UWAGA_INLINE Positions part(int64_t begin, int64_t end) const {
        return {p, offsets + begin, end - begin, prefetch, entry, following};
    }
    UWAGA_INLINE Positions without_first(int64_t number) const {
        return {p + number, offsets, length, prefetch, 0, following};
    }

    UWAGA_INLINE const T* at(int64_t t) const {
        const T* address = p + offsets[t];
        if (entry && t + ahead < length) {
            const char* ahead_address = reinterpret_cast<const char*>(p + offsets[t + ahead]);
            for (uintptr_t line = 0; line < entry; line += 64) __builtin_prefetch(ahead_address + line, 0, 2);
        }
        const uintptr_t later = reinterpret_cast<uintptr_t>(address) + prefetch;
        UWAGA_UNROLL
        for (uintptr_t line = 0; line < 64 * sizeof(T); line += 64)
            __builtin_prefetch(reinterpret_cast<const void*>(later + line));
        if (following) {
            UWAGA_UNROLL
            for (uintptr_t line = 0; line < 64 * sizeof(T); line += 64)
                __builtin_prefetch(reinterpret_cast<const char*>(address) + following + line, 0, 2);
        }
        return address;
    }
};

constexpr int usual_vectors = 64 / lanes;  // vectors of the most common head; small models have heads half as
                                           // wide

// Scores from a query's dot products: cap(scale * dot + bias).
struct Scoring {
    float scale, cap;
    const float* bias;  // of the first key, or null

    Vec scores(const Vec& dots, int64_t first, int64_t count) const {
        Vec s = dots * set(scale);
        if (bias) s = s + load_part(bias + first, count);
        return cap != 0.0f ? capped(s, cap) : s;
    }
};

// The scores of one query. The head is `vectors` vectors wide, an even number.
template <class T, int fixed>
inline void dot_scores(const float* query, const Positions<T>& keys, int vector_count, const Scoring& scoring,
                       float* scores) {
    constexpr int row_length = fixed ? fixed : widest;
    const int vectors = fixed ? fixed : vector_count;
    Vec q[row_length];
    for (int i = vectors; i < row_length; ++i) q[i] = set(0.0f);
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
        store_part(scores + first, scoring.scores(reduce_add_each(dots), first, count), count);
    }
}

// context = sum over t of weights[t] * value t, for 2 * pairs vectors. Each addition waits for the previous
// one, so with few vectors even and odd positions are summed separately.
template <class T, int pairs>
inline void weighted_sum(const float* weights, const Positions<T>& values, float* context) {
    constexpr int vectors = 2 * pairs, chains = pairs == 1 ? 2 : 1;
    Vec sum[chains][vectors];
    for (int chain = 0; chain < chains; ++chain) {
        for (int i = 0; i < vectors; ++i) sum[chain][i] = set(0.0f);
    }
    const auto add = [&](int64_t t, int chain) {
        const T* value = values.at(t);
        const Vec weight = set(weights[t]);
        UWAGA_UNROLL
        for (int i = 0; i < vectors; ++i)
            sum[chain][i] = fma(weight, load_any(value + i * lanes), sum[chain][i]);
    };
    int64_t t = 0;
    for (; t + chains <= values.length; t += chains) {
        UWAGA_UNROLL
        for (int chain = 0; chain < chains; ++chain) add(t + chain, chain);
    }
    if (t < values.length) add(t, 0);
    for (int i = 0; i < vectors; ++i)
        store(context + i * lanes, chains == 1 ? sum[0][i] : sum[0][i] + sum[chains - 1][i]);
}

// The same for any head width.
template <class T>
inline void dot_scores_any_width(const float* query, const Positions<T>& keys, int64_t head_width,
                                 const Scoring& scoring, float* scores) {
    for (int64_t t = 0; t < keys.length; ++t) {
        const T* key = keys.p + keys.offsets[t];
        Vec dot = set(0.0f);
        for (int64_t k = 0; k < head_width; k += lanes) {
            const int64_t n = smaller(lanes, head_width - k);
            dot = fma(load_part(query + k, n), load_any_part(key + k, n), dot);
        }
        store_part(scores + t, scoring.scores(set(reduce_add(dot)), t, 1), 1);
    }
}
template <class T>
inline void weighted_sum_any_width(const float* weights, const Positions<T>& values, int64_t head_width,
                                   float* context) {
    for (int64_t k = 0; k < head_width; k += lanes) {
        const int64_t n = smaller(lanes, head_width - k);
        Vec sum = set(0.0f);
        for (int64_t t = 0; t < values.length; ++t)
            sum = fma(set(weights[t]), load_any_part(values.p + values.offsets[t] + k, n), sum);
        store_part(context + k, sum, n);
    }
}

// The scores of one query, and the sum of values from column `column` on, in heads of any width; `even`: an
// even number of vectors that fit in registers.
template <class T>
inline void score_keys_of(const float* query, const Positions<T>& keys, int64_t head_width, bool even,
                          const Scoring& scoring, float* scores) {
    const int vectors = static_cast<int>(head_width / lanes);
    if (!even) dot_scores_any_width(query, keys, head_width, scoring, scores);
    else if (vectors == usual_vectors) dot_scores<T, usual_vectors>(query, keys, vectors, scoring, scores);
    else if (vectors == usual_vectors / 2)
        dot_scores<T, usual_vectors / 2>(query, keys, vectors, scoring, scores);
    else dot_scores<T, 0>(query, keys, vectors, scoring, scores);
}
template <class T>
inline void sum_values_of(const float* weights, const Positions<T>& values, int64_t head_width, bool even,
                          int64_t column, float* context) {
    if (!even) return weighted_sum_any_width(weights, values, head_width, context);
    for (; column + 4 * lanes <= head_width; column += 4 * lanes)
        weighted_sum<T, 2>(weights, values.without_first(column), context + column);
    if (column < head_width) weighted_sum<T, 1>(weights, values.without_first(column), context + column);
}

// The state of a query's head: it attends to the positions [begin, end).
struct QueryHead {
    const float* query;
    float* weights;  // of position 0
    float* context;
    int64_t begin, end;
};

// Query heads that read a key or a value together, as many as keep their sums in registers.
#if defined(__wasm__)
constexpr int max_together = 1;  // a page, which loads the code, has few such heads
#else
constexpr int max_together = lanes == 16 ? 4 : 2;
#endif

// The positions that all of several query heads attend to.
template <int count>
struct Shared {
    int64_t begin, end;

    explicit Shared(const QueryHead* q) : begin(q[0].begin), end(q[0].end) {
        for (int i = 1; i < count; ++i) {
            if (q[i].begin > begin) begin = q[i].begin;
            if (q[i].end < end) end = q[i].end;
        }
    }
};

// The keys and values of one head, and the treatment of its scores.
template <class T>
struct AttendedHead {
    Positions<T> keys, values;  // of all positions
    int64_t head_width;
    Scoring scoring;
    bool even;  // the width is an even number of vectors

    void score(const QueryHead& q, int64_t begin, int64_t end) const {
        if (begin < end)
            score_keys_of(q.query, keys.part(begin, end), head_width, even, scoring, q.weights + begin);
    }

    // The same for `count` query heads, which read the keys that they share together. Each sum is in the same
    // order.
    template <int count>
    void score_together(const QueryHead* q) const {
        const Shared<count> shared(q);
        for (int i = 0; i < count; ++i) {
            score(q[i], q[i].begin, smaller(shared.begin, q[i].end));
            score(q[i], shared.begin > shared.end ? shared.begin : shared.end, q[i].end);
        }
        if (head_width == usual_vectors * lanes)
            score_shared<count, usual_vectors>(q, shared.begin, shared.end);
        else score_shared<count, 0>(q, shared.begin, shared.end);
    }
    // The dot products of `count` queries with a key. `fixed` vectors of a head, whose queries stay in
    // registers; 0: any even number of them.
    template <int count, int fixed>
    UWAGA_INLINE void dots_of(const QueryHead* q, const Vec (&query)[count][fixed + 1], const T* key,
                              Vec (&dots)[count]) const {
        const int vectors = fixed ? fixed : static_cast<int>(head_width / lanes);
        Vec a[count], b[count];
        for (int i = 0; i < count; ++i) a[i] = b[i] = set(0.0f);
        UWAGA_UNROLL
        for (int v = 0; v < vectors; v += 2) {
            const Vec left = load_any(key + v * lanes), right = load_any(key + (v + 1) * lanes);
            UWAGA_UNROLL
            for (int i = 0; i < count; ++i) {
                a[i] = fma(fixed ? query[i][v] : load(q[i].query + v * lanes), left, a[i]);
                b[i] = fma(fixed ? query[i][v + 1] : load(q[i].query + (v + 1) * lanes), right, b[i]);
            }
        }
        UWAGA_UNROLL
        for (int i = 0; i < count; ++i) dots[i] = a[i] + b[i];
    }

    template <int count, int fixed>
    void score_shared(const QueryHead* q, int64_t begin, int64_t end) const {
        Vec query[count][fixed + 1];
        for (int i = 0; i < count; ++i) {
            for (int v = 0; v < fixed; ++v) query[i][v] = load(q[i].query + v * lanes);
        }
        for (int64_t first = begin; first < end; first += lanes) {
            const int64_t block_keys = smaller(lanes, end - first);
            Vec pairs[count][lanes / 2];
            for (int64_t j = 0; j < lanes; j += 2) {
                Vec even_dots[count], odd_dots[count];
                for (int i = 0; i < count; ++i) even_dots[i] = odd_dots[i] = set(0.0f);
                if (j < block_keys) dots_of<count, fixed>(q, query, keys.at(first + j), even_dots);
                if (j + 1 < block_keys) dots_of<count, fixed>(q, query, keys.at(first + j + 1), odd_dots);
                UWAGA_UNROLL
                for (int i = 0; i < count; ++i) pairs[i][j / 2] = add_pair(even_dots[i], odd_dots[i]);
            }
            for (int i = 0; i < count; ++i)
                store_part(q[i].weights + first,
                           scoring.scores(reduce_add_pairs(pairs[i]), first, block_keys), block_keys);
        }
    }

    void weigh(const QueryHead& q, int64_t column) const {
        sum_values_of(q.weights + q.begin, values.part(q.begin, q.end), head_width, even, column, q.context);
    }

    template <int count>
    void weigh_together(const QueryHead* q) const {
        constexpr int vectors = 4;
        const Shared<count> shared(q);
        int64_t column = 0;
        for (; shared.begin < shared.end && column + vectors * lanes <= head_width;
             column += vectors * lanes) {
            Vec sum[count][vectors];
            for (int i = 0; i < count; ++i) {
                for (int v = 0; v < vectors; ++v) sum[i][v] = set(0.0f);
            }
            const auto add_single = [&](int i, int64_t t) {
                const T* value = values.p + values.offsets[t] + column;
                for (int v = 0; v < vectors; ++v)
                    sum[i][v] = fma(set(q[i].weights[t]), load_any(value + v * lanes), sum[i][v]);
            };
            UWAGA_UNROLL
            for (int i = 0; i < count; ++i) {
                for (int64_t t = q[i].begin; t < shared.begin; ++t) add_single(i, t);
            }
            for (int64_t t = shared.begin; t < shared.end; ++t) {
                const T* value = values.at(t) + column;
                Vec part[vectors];
                UWAGA_UNROLL
                for (int v = 0; v < vectors; ++v) part[v] = load_any(value + v * lanes);
                UWAGA_UNROLL
                for (int i = 0; i < count; ++i) {
                    const Vec weight = set(q[i].weights[t]);
                    UWAGA_UNROLL
                    for (int v = 0; v < vectors; ++v) sum[i][v] = fma(weight, part[v], sum[i][v]);
                }
            }
            UWAGA_UNROLL
            for (int i = 0; i < count; ++i) {
                for (int64_t t = shared.end; t < q[i].end; ++t) add_single(i, t);
                for (int v = 0; v < vectors; ++v) store(q[i].context + column + v * lanes, sum[i][v]);
            }
        }
        for (int i = 0; i < count; ++i) {
            if (column < head_width) weigh(q[i], column);
        }
    }
};

template <int number>
struct Constant {
    static constexpr int value = number;
};

// step(count, first) for groups of `count` of all query heads, a number that the compiler knows.
template <class Step>
inline void by_groups(int64_t heads, bool even, const Step& step) {
    int64_t first = 0;
    if constexpr (max_together == 4) {
        for (; even && first + 4 <= heads; first += 4) step(Constant<4>{}, first);
        if (even && first + 3 == heads) return step(Constant<3>{}, first);
    }
    if constexpr (max_together > 1) {
        for (; even && first + 2 <= heads; first += 2) step(Constant<2>{}, first);
    }
    for (; first < heads; ++first) step(Constant<1>{}, first);
}

// A single query whose heads have keys of their own.
template <class T>
void attend_single(const CachedAttention& a, const T* keys, const T* values) {
    const bool even = a.head_width % (2 * lanes) == 0 && a.head_width <= widest * lanes;
    const uintptr_t next = static_cast<uintptr_t>(a.head_stride) * sizeof(T);
    const auto head = [&](int64_t h, const T* all, uintptr_t after) {
        return Positions<T>{all + h * a.head_stride,        a.offsets, a.length,
                            h + 1 < a.heads ? next : after, 0,         a.following};
    };
    for (int64_t h = 0; h < a.heads; ++h) {
        const uintptr_t values_distance = reinterpret_cast<uintptr_t>(values) -
                                          reinterpret_cast<uintptr_t>(keys + h * a.head_stride);
        const Scoring scoring{a.scale, a.cap, a.bias ? a.bias + h * a.length : nullptr};
        score_keys_of(a.query + h * a.head_width, head(h, keys, values_distance), a.head_width, even, scoring,
                      a.weights + h * a.length);
    }
    for (int64_t h = 0; h < a.heads; ++h) softmax(a.weights + h * a.length, a.length);
    for (int64_t h = 0; h < a.heads; ++h)
        sum_values_of(a.weights + h * a.length, head(h, values, 0), a.head_width, even, 0,
                      a.context + h * a.head_width);
}

// softmax(cap(scale q K^T + bias)) V (Vaswani et al. 2017, equation 1). With a single query, each stage runs
// for all heads before the next stage, so that the latencies of their softmaxes overlap.
template <class T>
void attend(const CachedAttention& a, const T* keys, const T* values) {
    if (a.queries == 1 && a.group == 1) return attend_single(a, keys, values);
    const int64_t stored = a.heads / a.group, rows = a.queries * a.group,
                  row_length = a.length + a.queries - 1;
    const int64_t heads_at_once = a.queries == 1 ? stored : 1;
    const uintptr_t next = a.queries == 1 ? static_cast<uintptr_t>(a.head_stride) * sizeof(T) : 0;
    const uintptr_t position_bytes = 2 * (reinterpret_cast<uintptr_t>(values) -
                                          reinterpret_cast<uintptr_t>(keys));
    const bool few = a.queries == 1 && position_bytes <= Positions<T>::max_entry;
    const auto query_head = [&](int64_t h, int64_t slot, int64_t row) {
        const int64_t query = a.queries == 1 ? 0 : row / a.group, head = h * a.group + row - query * a.group;
        const int64_t end = a.length + query;
        return QueryHead{a.query + query * a.query_stride + head * a.head_width,
                         a.weights + (slot * rows + row) * row_length,
                         a.context + query * a.context_stride + head * a.head_width,
                         end > a.window ? end - a.window : 0, end};
    };
    const auto attended = [&](int64_t h, bool last) {
        const T *k = keys + h * a.head_stride, *v = values + h * a.head_stride;
        const uintptr_t values_distance = a.queries == 1 ? reinterpret_cast<uintptr_t>(values) -
                                                               reinterpret_cast<uintptr_t>(k)
                                                         : 0;
        const bool even = a.head_width % (2 * lanes) == 0 && a.head_width <= widest * lanes;
        const uintptr_t entry = h == 0 && few ? position_bytes : 0, following = few ? 0 : a.following;
        return AttendedHead<T>{{k, a.offsets, row_length, last ? values_distance : next, entry, following},
                               {v, a.offsets, row_length, last ? 0 : next, 0, following},
                               a.head_width,
                               {a.scale, a.cap, nullptr},
                               even};
    };
    for (int64_t first = 0; first < stored; first += heads_at_once) {
        for (int64_t slot = 0; slot < heads_at_once; ++slot) {
            AttendedHead<T> head = attended(first + slot, slot + 1 == heads_at_once);
            by_groups(rows, head.even && !a.bias, [&](auto count, int64_t row) {
                QueryHead q[count.value];
                for (int i = 0; i < count.value; ++i) q[i] = query_head(first + slot, slot, row + i);
                if (a.bias) head.scoring.bias = a.bias + ((first + slot) * a.group + row) * a.length;
                if constexpr (count.value == 1) head.score(q[0], q[0].begin, q[0].end);
                else head.template score_together<count.value>(q);
            });
        }
        for (int64_t slot = 0; slot < heads_at_once; ++slot) {
            for (int64_t row = 0; row < rows; ++row) {
                const QueryHead q = query_head(first + slot, slot, row);
                softmax(q.weights + q.begin, q.end - q.begin);
            }
        }
        for (int64_t slot = 0; slot < heads_at_once; ++slot) {
            const AttendedHead<T> head = attended(first + slot, slot + 1 == heads_at_once);
            by_groups(rows, head.even, [&](auto count, int64_t row) {
                QueryHead q[count.value];
                for (int i = 0; i < count.value; ++i) q[i] = query_head(first + slot, slot, row + i);
                if constexpr (count.value == 1) head.weigh(q[0], 0);
                else head.template weigh_together<count.value>(q);
            });
        }
    }
}

void attend_float16(const CachedAttention& a, const uint16_t* keys, const uint16_t* values) {
    attend<uint16_t>(a, keys, values);
}
void attend_float(const CachedAttention& a, const float* keys, const float* values) {
    attend<float>(a, keys, values);
}
