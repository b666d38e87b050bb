// Eight floats in a ymm register. Included inside an unnamed namespace of files compiled for AVX2 and FMA.

struct Vec {
    static constexpr int width = 8;
    __m256 v;
};

// All ones in the first n lanes.
inline __m256i first_lanes(int64_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n > 8 ? 8 : n)),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

inline Vec set(float a) { return {_mm256_set1_ps(a)}; }
inline Vec load(const float* p) { return {_mm256_loadu_ps(p)}; }
inline Vec load_part(const float* p, int64_t n, float fill = 0.0f) {
    const __m256i mask = first_lanes(n);
    return {_mm256_blendv_ps(_mm256_set1_ps(fill), _mm256_maskload_ps(p, mask), _mm256_castsi256_ps(mask))};
}
inline void store(float* p, Vec a) { _mm256_storeu_ps(p, a.v); }
inline void store_part(float* p, Vec a, int64_t n) { _mm256_maskstore_ps(p, first_lanes(n), a.v); }

inline Vec operator+(Vec a, Vec b) { return {_mm256_add_ps(a.v, b.v)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm256_sub_ps(a.v, b.v)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm256_mul_ps(a.v, b.v)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm256_div_ps(a.v, b.v)}; }
inline Vec reciprocal(Vec a) { return set(1.0f) / a; }
inline Vec fma(Vec a, Vec b, Vec c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
inline Vec max(Vec a, Vec b) { return {_mm256_max_ps(a.v, b.v)}; }  // b if either is NaN
inline Vec min(Vec a, Vec b) { return {_mm256_min_ps(a.v, b.v)}; }
inline Vec abs(Vec a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v)}; }
inline Vec copy_sign(Vec a, Vec b) { return {_mm256_or_ps(a.v, _mm256_and_ps(b.v, _mm256_set1_ps(-0.0f)))}; }
inline Vec max_bits(Vec a, Vec b) {
    return {_mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(a.v), _mm256_castps_si256(b.v)))};
}
inline uint32_t greater_mask(Vec a, Vec b) {
    return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a.v, b.v, _CMP_GT_OQ)));
}
inline bool any_greater(Vec a, Vec b) { return greater_mask(a, b) != 0; }
inline Vec zero_where_less(Vec value, Vec x, Vec limit) {
    return {_mm256_and_ps(value.v, _mm256_cmp_ps(x.v, limit.v, _CMP_NLT_UQ))};
}
inline float reduce_add(Vec a) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
inline Vec add_pair(Vec a, Vec b) { return {_mm256_hadd_ps(a.v, b.v)}; }
inline Vec reduce_add_pairs(const Vec (&v)[4]) {
    const __m256 a = _mm256_hadd_ps(v[0].v, v[1].v), b = _mm256_hadd_ps(v[2].v, v[3].v);
    return {_mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31))};
}
inline Vec hadamard(Vec a) {
    const __m256 low = _mm256_moveldup_ps(a.v), high = _mm256_movehdup_ps(a.v);  // a of each pair, and b
    __m256 x = _mm256_addsub_ps(low, high);                                      // (a - b, a + b)
    x = _mm256_permute_ps(x, 0xb1);
    __m256 first = _mm256_permute_ps(x, 0x44), second = _mm256_permute_ps(x, 0xee);
    x = _mm256_blend_ps(_mm256_add_ps(first, second), _mm256_sub_ps(first, second), 0xcc);
    first = _mm256_permute2f128_ps(x, x, 0x00);
    second = _mm256_permute2f128_ps(x, x, 0x11);
    return {_mm256_blend_ps(_mm256_add_ps(first, second), _mm256_sub_ps(first, second), 0xf0)};
}
inline float reduce_max(Vec a) {
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

inline Vec round_nearest(Vec a) {
    return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
inline Vec times_power_of_two(Vec a, Vec n) {
    const __m256i power = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n.v), _mm256_set1_epi32(127)),
                                            23);
    return {_mm256_mul_ps(a.v, _mm256_castsi256_ps(power))};
}
inline Vec floored(Vec a) { return {_mm256_floor_ps(a.v)}; }
inline Vec fraction(Vec a) {
    const Vec x = max(set(-126.0f), a);  // NaN is the second operand, so it propagates
    return x - floored(x);
}
inline Vec times_power_of_two_floor(Vec a, Vec n) {
    return times_power_of_two(a, floored(max(set(-126.0f), n)));
}

inline Vec from_int(const int32_t* p) {
    return {_mm256_cvtepi32_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}

inline void load_bfloat16_pairs(const uint16_t* p, Vec& first, Vec& second) {
    const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    first.v = _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
    second.v = _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
}
inline Vec load_float16(const uint16_t* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
inline Vec load_float16_part(const uint16_t* p, int64_t n) {
    alignas(16) uint16_t part[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    memcpy(part, p, static_cast<size_t>(n > 8 ? 8 : n) * 2);
    return load_float16(part);
}
inline void store_float16(uint16_t* p, Vec a) {
    const Vec clamped = max(set(-65504.0f), min(set(65504.0f), a));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                     _mm256_cvtps_ph(clamped.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
inline void store_quantised(uint8_t* p, Vec a) {
    const __m256i q = _mm256_cvtps_epi32(a.v);
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(q), _mm256_extracti128_si256(q, 1));
    const __m128i bytes = _mm_xor_si128(_mm_packs_epi16(words, words),
                                        _mm_set1_epi8(static_cast<char>(0x80)));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), bytes);
}
