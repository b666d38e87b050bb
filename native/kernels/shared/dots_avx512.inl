// Int8Dots of shared/listed.inl with AVX-512 VNNI. Included inside an unnamed namespace.
struct Int8Dots {
    static constexpr int at_once = 16;

    // Lane i is the sum over the lanes of v[i], as in reduce_add_each.
    static __m512i reduce_sums(const __m512i (&v)[16]) {
        __m512i fours[4];
        UWAGA_UNROLL
        for (int i = 0; i < 4; ++i) {
            const __m512i a = v[4 * i], b = v[4 * i + 1], c = v[4 * i + 2], d = v[4 * i + 3];
            const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
            const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
            fours[i] = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
        }
        const __m512i low = _mm512_add_epi32(_mm512_shuffle_i32x4(fours[0], fours[1], 0x88),
                                             _mm512_shuffle_i32x4(fours[0], fours[1], 0xdd));
        const __m512i high = _mm512_add_epi32(_mm512_shuffle_i32x4(fours[2], fours[3], 0x88),
                                              _mm512_shuffle_i32x4(fours[2], fours[3], 0xdd));
        return _mm512_add_epi32(_mm512_shuffle_i32x4(low, high, 0x88), _mm512_shuffle_i32x4(low, high, 0xdd));
    }

    static void run(const uint8_t* x, const int8_t* const (&weights)[at_once], int64_t inputs,
                    int32_t* sums) {
        __m512i sum[at_once];
        UWAGA_UNROLL
        for (int i = 0; i < at_once; ++i) sum[i] = _mm512_setzero_si512();
        for (int64_t k = 0; k < inputs; k += 64) {
            const __m512i row = _mm512_loadu_si512(x + k);
            UWAGA_UNROLL
            for (int i = 0; i < at_once; ++i)
                sum[i] = _mm512_dpbusd_epi32(sum[i], row, _mm512_loadu_si512(weights[i] + k));
        }
        _mm512_store_si512(sums, reduce_sums(sum));
    }
};
