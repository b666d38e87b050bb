// Int4Block of shared/int4_panels.inl in registers of 8 columns, over the instruction set's
//
//     GroupSum: begin(start), add(q, x) the products of four inputs, end(start) the sums in 32 bits
//     add_pairs(total, a, b): the products of two 16-bit numbers
//
// Included inside an unnamed namespace.
#include "kernels/shared/int4_rows.inl"

// step * q + first as pairs (q, 1) by (step, first), in 16 bits; first, of q = 0, is middle - 8 * step.
inline void unpack(const uint8_t* from, int64_t groups, int8_t* to) {
    const __m256i half = _mm256_set1_epi8(15), ones = _mm256_set1_epi8(1);
    const __m256i first_two = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2,
                                                                        3, 2, 3));
    const __m256i last_two = _mm256_broadcastsi128_si256(_mm_setr_epi8(4, 5, 4, 5, 4, 5, 4, 5, 6, 7, 6, 7, 6,
                                                                       7, 6, 7));
    for (int64_t g = 0; g < groups; ++g, from += int4_group, to += int4_inputs * panel) {
        UWAGA_UNROLL
        for (int c = 0; c < 4; ++c) {
            // The pairs of four columns in the lower half of each 128 bits.
            __m256i pairs = _mm256_permute4x64_epi64(
                _mm256_castsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(from + 16 * c))),
                0x50);
            pairs = _mm256_sub_epi16(pairs, _mm256_slli_epi16(pairs, 11));
            const __m256i left = _mm256_shuffle_epi8(pairs, first_two),
                          right = _mm256_shuffle_epi8(pairs, last_two);
            const auto put = [&](__m256i q, int8_t* target) {
                const __m256i low = _mm256_maddubs_epi16(_mm256_unpacklo_epi8(q, ones), left);
                const __m256i high = _mm256_maddubs_epi16(_mm256_unpackhi_epi8(q, ones), right);
                _mm256_store_si256(reinterpret_cast<__m256i*>(target), _mm256_packs_epi16(low, high));
            };
            UWAGA_UNROLL
            for (int i = 0; i < 4; ++i) {
                const __m256i packed = _mm256_load_si256(reinterpret_cast<const __m256i*>(from + 2 * panel +
                                                                                          4 * panel * i +
                                                                                          32 * c));
                put(_mm256_and_si256(packed, half), to + 8 * panel * i + 32 * c);
                put(_mm256_and_si256(_mm256_srli_epi16(packed, 4), half),
                    to + 8 * panel * i + 4 * panel + 32 * c);
            }
        }
    }
}

struct Int4Block {
    static constexpr int64_t rows = SignedRows::max_rows;

    template <int R>
    static void run_rows(const SignedRows& x, int64_t row, const uint8_t* weights, int64_t groups,
                         uintptr_t prefetch, int32_t* sums) {
        constexpr int columns = 4;
        __m256i total[R][columns];
        UWAGA_UNROLL
        for (int r = 0; r < R; ++r) {
            UWAGA_UNROLL
            for (int c = 0; c < columns; ++c) total[r][c] = _mm256_setzero_si256();
        }
        const __m256i half = _mm256_set1_epi8(15);
        for (int64_t g = 0; g < groups; ++g, weights += int4_group, prefetch += int4_group) {
            if ((prefetch & 4095) < int4_group)
                _mm_prefetch(reinterpret_cast<const char*>(prefetch), _MM_HINT_T1);
            GroupSum sum[R][columns];
            UWAGA_UNROLL
            for (int r = 0; r < R; ++r) {
                UWAGA_UNROLL
                for (int c = 0; c < columns; ++c) sum[r][c].begin(x.row_starts(row + r)[g]);
            }
            UWAGA_UNROLL
            for (int i = 0; i < 4; ++i) {
                __m256i first[R], second[R];
                UWAGA_UNROLL
                for (int r = 0; r < R; ++r) {
                    first[r] = four_signed(x.row(row + r) + int4_inputs * g + 8 * i);
                    second[r] = four_signed(x.row(row + r) + int4_inputs * g + 8 * i + 4);
                }
                UWAGA_UNROLL
                for (int c = 0; c < columns; ++c) {
                    const __m256i packed = _mm256_load_si256(reinterpret_cast<const __m256i*>(weights +
                                                                                              2 * panel +
                                                                                              4 * panel * i +
                                                                                              32 * c));
                    const __m256i lower = _mm256_and_si256(packed, half),
                                  upper = _mm256_and_si256(_mm256_srli_epi16(packed, 4), half);
                    UWAGA_UNROLL
                    for (int r = 0; r < R; ++r) {
                        sum[r][c].add(lower, first[r]);
                        sum[r][c].add(upper, second[r]);
                    }
                }
            }
            // Pairs of 16 bits: the sum of x * (q - 8) by the step, and that of x by the middle.
            UWAGA_UNROLL
            for (int c = 0; c < columns; ++c) {
                const __m256i pairs =
                    _mm256_cvtepi8_epi16(_mm_load_si128(reinterpret_cast<const __m128i*>(weights + 16 * c)));
                UWAGA_UNROLL
                for (int r = 0; r < R; ++r) {
                    const __m256i input_sum = _mm256_set1_epi32(x.row_sums(row + r)[g]);
                    total[r][c] = add_pairs(total[r][c],
                                            _mm256_blend_epi16(sum[r][c].end(x.row_starts(row + r)[g]),
                                                               input_sum, 0xaa),
                                            pairs);
                }
            }
        }
        UWAGA_UNROLL
        for (int r = 0; r < R; ++r) {
            UWAGA_UNROLL
            for (int c = 0; c < columns; ++c)
                _mm256_store_si256(reinterpret_cast<__m256i*>(sums + (row + r) * panel + 8 * c), total[r][c]);
        }
    }

    static void run(int64_t count, const SignedRows& x, const uint8_t* weights, int64_t groups,
                    uintptr_t prefetch, int32_t* sums) {
        for (int64_t row = 0; row < count; ++row) run_rows<1>(x, row, weights, groups, prefetch, sums);
    }

  private:
    static __m256i four_signed(const int8_t* x) {
        int32_t bytes;
        memcpy(&bytes, x, 4);
        return _mm256_set1_epi32(bytes);
    }
};
