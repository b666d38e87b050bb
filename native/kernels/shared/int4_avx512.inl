// Int4Block of shared/int4_panels.inl with AVX-512 VNNI. Included inside an unnamed namespace.
#include "kernels/shared/int4_rows.inl"

struct Int4Block {
    static constexpr int64_t rows = SignedRows::most;

    template <int R>
    static void run_rows(const SignedRows& x, const uint8_t* weights, int64_t groups, uintptr_t prefetch, int32_t* sums) {
        __m512i total[R][2];
        UWAGA_UNROLL
        for (int r = 0; r < R; ++r) total[r][0] = total[r][1] = _mm512_setzero_si512();
        const __m512i half = _mm512_set1_epi8(15);
        for (int64_t g = 0; g < groups; ++g, prefetch += int4_group) {
            if ((prefetch & 4095) < int4_group) _mm_prefetch(reinterpret_cast<const char*>(prefetch), _MM_HINT_T1);
            const __m512i pairs[2] = {_mm512_cvtepi8_epi16(_mm256_load_si256(reinterpret_cast<const __m256i*>(weights))),
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
                    const __m512i both = _mm512_load_si512(weights + 64 * c);
                    lower[c] = _mm512_and_si512(both, half);
                    upper[c] = _mm512_and_si512(_mm512_srli_epi16(both, 4), half);
                }
                UWAGA_UNROLL
                for (int r = 0; r < R; ++r) {
                    const __m512i first = four(x.row(r) + int4_inputs * g + 8 * i), second = four(x.row(r) + int4_inputs * g + 8 * i + 4);
                    UWAGA_UNROLL
                    for (int c = 0; c < 2; ++c) sum[r][c] = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(sum[r][c], lower[c], first), upper[c], second);
                }
            }
            // Pairs of 16 bits: the sum of x * (q - 8) by the step, and that of x by the middle.
            UWAGA_UNROLL
            for (int r = 0; r < R; ++r) {
                const __m512i of_x = _mm512_set1_epi32(x.row_sums(r)[g]);
                UWAGA_UNROLL
                for (int c = 0; c < 2; ++c) total[r][c] = _mm512_dpwssd_epi32(total[r][c], _mm512_mask_blend_epi16(0xaaaaaaaau, sum[r][c], of_x), pairs[c]);
            }
        }
        UWAGA_UNROLL
        for (int r = 0; r < R; ++r) {
            _mm512_store_si512(sums + r * panel, total[r][0]);
            _mm512_store_si512(sums + r * panel + 16, total[r][1]);
        }
    }

    static void run(int64_t count, const SignedRows& x, const uint8_t* weights, int64_t groups, uintptr_t prefetch, int32_t* sums) {
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
