// Sixteen floats in a zmm register. Included inside an unnamed namespace of files compiled for AVX-512 F, BW,
// VL, DQ.

struct Vec {
    static constexpr int width = 16;
    __m512 v;
};

inline __mmask16 first_lanes(int64_t n) { return static_cast<__mmask16>(n >= 16 ? 0xffffu : (1u << n) - 1u); }

inline Vec set(float a) { return {_mm512_set1_ps(a)}; }
inline Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline Vec load_part(const float* p, int64_t n, float fill = 0.0f) {
    return {_mm512_mask_loadu_ps(_mm512_set1_ps(fill), first_lanes(n), p)};
}
inline void store(float* p, Vec a) { _mm512_storeu_ps(p, a.v); }
inline void store_part(float* p, Vec a, int64_t n) { _mm512_mask_storeu_ps(p, first_lanes(n), a.v); }

inline Vec operator+(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
inline Vec reciprocal(Vec a) {  // takes a quarter of the time of a division
    const __m512 r = _mm512_rcp14_ps(a.v);
    return {_mm512_mul_ps(r, _mm512_fnmadd_ps(a.v, r, _mm512_set1_ps(2.0f)))};
}
inline Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Vec max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }  // b if either is NaN
inline Vec min(Vec a, Vec b) { return {_mm512_min_ps(a.v, b.v)}; }
inline Vec abs(Vec a) { return {_mm512_abs_ps(a.v)}; }
inline Vec copy_sign(Vec a, Vec b) { return {_mm512_or_ps(a.v, _mm512_and_ps(b.v, _mm512_set1_ps(-0.0f)))}; }
inline Vec max_bits(Vec a, Vec b) {
    return {_mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(a.v), _mm512_castps_si512(b.v)))};
}
inline uint32_t greater_mask(Vec a, Vec b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ); }
inline bool any_greater(Vec a, Vec b) { return greater_mask(a, b) != 0; }
inline Vec zero_where_less(Vec value, Vec x, Vec limit) {
    return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x.v, limit.v, _CMP_NLT_UQ), value.v)};
}
inline float reduce_add(Vec a) { return _mm512_reduce_add_ps(a.v); }
inline Vec add_pair(Vec a, Vec b) {
    return {_mm512_add_ps(_mm512_unpacklo_ps(a.v, b.v), _mm512_unpackhi_ps(a.v, b.v))};
}
inline Vec reduce_add_pairs(const Vec (&v)[8]) {
    __m512 fours[4];
    UWAGA_UNROLL
    for (int i = 0; i < 4; ++i) {  // each 128 bits: partial sums of four vectors
        const __m512 ab = v[2 * i].v, cd = v[2 * i + 1].v;
        fours[i] = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
    }
    const __m512 low = _mm512_add_ps(_mm512_shuffle_f32x4(fours[0], fours[1], 0x88),
                                     _mm512_shuffle_f32x4(fours[0], fours[1], 0xdd));
    const __m512 high = _mm512_add_ps(_mm512_shuffle_f32x4(fours[2], fours[3], 0x88),
                                      _mm512_shuffle_f32x4(fours[2], fours[3], 0xdd));
    return {_mm512_add_ps(_mm512_shuffle_f32x4(low, high, 0x88), _mm512_shuffle_f32x4(low, high, 0xdd))};
}
inline Vec hadamard(Vec a) {
    const auto stage = [](__m512 x, __m512 swapped, __mmask16 upper) {
        return _mm512_fmadd_ps(x, _mm512_mask_mov_ps(_mm512_set1_ps(1.0f), upper, _mm512_set1_ps(-1.0f)),
                               swapped);  // exact products
    };
    __m512 x = stage(a.v, _mm512_permute_ps(a.v, 0xb1), 0xaaaa);
    x = stage(x, _mm512_permute_ps(x, 0x4e), 0xcccc);
    x = stage(x, _mm512_shuffle_f32x4(x, x, 0xb1), 0xf0f0);
    return {stage(x, _mm512_shuffle_f32x4(x, x, 0x4e), 0xff00)};
}
inline float reduce_max(Vec a) { return _mm512_reduce_max_ps(a.v); }

inline Vec round_nearest(Vec a) {
    return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
inline Vec times_power_of_two(Vec a, Vec n) { return {_mm512_scalef_ps(a.v, n.v)}; }
inline Vec fraction(Vec a) { return {_mm512_reduce_ps(a.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)}; }
inline Vec times_power_of_two_floor(Vec a, Vec n) { return times_power_of_two(a, n); }

inline Vec from_int(const int32_t* p) { return {_mm512_cvtepi32_ps(_mm512_loadu_si512(p))}; }

inline void load_bfloat16_pairs(const uint16_t* p, Vec& first, Vec& second) {
    const __m512i pairs = _mm512_loadu_si512(p);
    first.v = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
    second.v = _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
}
inline Vec load_float16(const uint16_t* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
inline Vec load_float16_part(const uint16_t* p, int64_t n) {
    return {_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first_lanes(n), p))};
}
inline void store_float16(uint16_t* p, Vec a) {
    const Vec clamped = max(set(-65504.0f), min(set(65504.0f), a));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtps_ph(clamped.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
inline void store_quantised(uint8_t* p, Vec a) {
    const __m128i q = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(a.v));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_xor_si128(q, _mm_set1_epi8(static_cast<char>(0x80))));
}
