// Int4Block of shared/int4_panels.inl with AVX-512 VNNI. Included inside an unnamed namespace.
#include "kernels/shared/int4_rows.inl"

// step * q + first as pairs (q, 1) by (step, first), in 16 bits; first, of q = 0, is middle - 8 * step.
inline void unpack(const uint8_t* from, int64_t groups, int8_t* to) {
    const __m512i half = _mm512_set1_epi8(15), ones = _mm512_set1_epi8(1);
    const __m512i first_two = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3,
                                                                   2, 3));
    const __m512i last_two = _mm512_broadcast_i32x4(_mm_setr_epi8(4, 5, 4, 5, 4, 5, 4, 5, 6, 7, 6, 7, 6, 7, 6,
                                                                  7));
    for (int64_t g = 0; g < groups; ++g, from += int4_group, to += int4_inputs * panel) {
        UWAGA_UNROLL
        for (int c = 0; c < 2; ++c) {
            // The pairs of four columns in the lower half of each 128 bits.
            __m512i pairs = _mm512_maskz_expandloadu_epi64(0x55, from + 32 * c);
            pairs = _mm512_sub_epi16(pairs, _mm512_slli_epi16(pairs, 11));
            const __m512i left = _mm512_shuffle_epi8(pairs, first_two),
                          right = _mm512_shuffle_epi8(pairs, last_two);
            const auto put = [&](__m512i q, int8_t* target) {
                const __m512i low = _mm512_maddubs_epi16(_mm512_unpacklo_epi8(q, ones), left);
                const __m512i high = _mm512_maddubs_epi16(_mm512_unpackhi_epi8(q, ones), right);
                _mm512_store_si512(target, _mm512_packs_epi16(low, high));
            };
            UWAGA_UNROLL
            for (int i = 0; i < 4; ++i) {
                const __m512i packed = _mm512_load_si512(from + 2 * panel + 4 * panel * i + 64 * c);
                put(_mm512_and_si512(packed, half), to + 8 * panel * i + 64 * c);
                put(_mm512_and_si512(_mm512_srli_epi16(packed, 4), half),
                    to + 8 * panel * i + 4 * panel + 64 * c);
            }
        }
    }
}

struct Int4Block {
    static constexpr int64_t rows = SignedRows::max_rows;

    template <int R>
    static void run_rows(const SignedRows& x, const uint8_t* weights, int64_t groups, uintptr_t prefetch,
                         int32_t* sums) {
        __m512i total[R][2];
        UWAGA_UNROLL
        for (int r = 0; r < R; ++r) total[r][0] = total[r][1] = _mm512_setzero_si512();
        const __m512i half = _mm512_set1_epi8(15);
        for (int64_t g = 0; g < groups; ++g, prefetch += int4_group) {
            for (uintptr_t line = 0; line < int4_group; line += 64)
                _mm_prefetch(reinterpret_cast<const char*>(prefetch + line), _MM_HINT_T1);
            const __m512i pairs[2] = {
                _mm512_cvtepi8_epi16(_mm256_load_si256(reinterpret_cast<const __m256i*>(weights))),
                _mm512_cvtepi8_epi16(_mm256_load_si256(reinterpret_cast<const __m256i*>(weights + 32)))};
            weights += 2 * panel;
            __m512i sum[R][2];
            UWAGA_UNROLL
            for (int r = 0; r < R; ++r) sum[r][0] = sum[r][1] = _mm512_set1_epi32(x.row_starts(r)[g]);
            UWAGA_UNROLL
            for (int i = 0; i < 4; ++i, weights += 4 * panel) {
                __m512i lower[2], upper[2];
                UWAGA_UNROLL
                for (int c = 0; c < 2; ++c) {
                    const __m512i packed = _mm512_load_si512(weights + 64 * c);
                    lower[c] = _mm512_and_si512(packed, half);
                    upper[c] = _mm512_and_si512(_mm512_srli_epi16(packed, 4), half);
                }
                UWAGA_UNROLL
                for (int r = 0; r < R; ++r) {
                    const __m512i first = four(x.row(r) + int4_inputs * g + 8 * i),
                                  second = four(x.row(r) + int4_inputs * g + 8 * i + 4);
                    UWAGA_UNROLL
                    for (int c = 0; c < 2; ++c)
                        sum[r][c] = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(sum[r][c], lower[c], first),
                                                        upper[c], second);
                }
            }
            // Pairs of 16 bits: the sum of x * (q - 8) by the step, and that of x by the middle.
            UWAGA_UNROLL
            for (int r = 0; r < R; ++r) {
                const __m512i input_sum = _mm512_set1_epi32(x.row_sums(r)[g]);
                UWAGA_UNROLL
                for (int c = 0; c < 2; ++c)
                    total[r][c] = _mm512_dpwssd_epi32(total[r][c],
                                                      _mm512_mask_blend_epi16(0xaaaaaaaau, sum[r][c],
                                                                              input_sum),
                                                      pairs[c]);
            }
        }
        UWAGA_UNROLL
        for (int r = 0; r < R; ++r) {
            _mm512_store_si512(sums + r * panel, total[r][0]);
            _mm512_store_si512(sums + r * panel + 16, total[r][1]);
        }
    }

    static void run(int64_t count, const SignedRows& x, const uint8_t* weights, int64_t groups,
                    uintptr_t prefetch, int32_t* sums) {
        switch (count) {
            case 1: run_rows<1>(x, weights, groups, prefetch, sums); break;
            case 2: run_rows<2>(x, weights, groups, prefetch, sums); break;
            case 3: run_rows<3>(x, weights, groups, prefetch, sums); break;
            default: run_rows<4>(x, weights, groups, prefetch, sums); break;
        }
    }

  private:
    static __m512i four(const int8_t* x) {
        int32_t bytes;
        memcpy(&bytes, x, 4);
        return _mm512_set1_epi32(bytes);
    }
};
