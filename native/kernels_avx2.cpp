// Plain AVX2: sums of pairs in 16 bits, which never saturate: with weights of 7 bits 2 * 255 * 63, otherwise the
// product of |w| and sign(x, w), 2 * 127 * 127, both below 2^15.
#include <string.h>

#include "kernels.h"
#include "kernels_intrinsics.h"
#include "kernels_unroll.h"

namespace uwaga {
namespace {

#include "kernels_vec_avx2.inl"

constexpr int float_rows = 3;
constexpr uintptr_t prefetch_distance = 64 * 1024;

struct Int8Block {
    static constexpr int64_t rows = 4;

    static __m256i weights_at(const int8_t* p) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(p)); }
    static __m256i correction_at(const int32_t* p) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(p)); }

    // sum + four products of each column; x: u8 with weights of 7 bits, else x - 128 as i8.
    template <bool seven>
    static __m256i added(__m256i sum, __m256i x, __m256i w, __m256i magnitude) {
        const __m256i pairs = seven ? _mm256_maddubs_epi16(x, w) : _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(x, w));
        return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    }

    // Columns in registers of 8: C of them, R rows.
    template <int R, int C, bool seven>
    static void some(const uint8_t* x, int64_t stride, const int8_t* weights, const int32_t* correction, int64_t groups,
                     uintptr_t ahead, int64_t ahead_step, int32_t* sums) {
        __m256i sum[R][C];
        const __m256i zero = _mm256_setzero_si256();
        UWAGA_UNROLL
        for (int r = 0; r < R; ++r) {
            UWAGA_UNROLL
            for (int c = 0; c < C; ++c) sum[r][c] = seven ? _mm256_sub_epi32(zero, correction_at(correction + 8 * c)) : zero;
        }
        for (int64_t g = 0; g < groups; ++g, weights += 128, x += 4, ahead += static_cast<uintptr_t>(ahead_step)) {
            _mm_prefetch(reinterpret_cast<const char*>(ahead), _MM_HINT_T1);
            if (C == 4 && ahead_step > 64) _mm_prefetch(reinterpret_cast<const char*>(ahead + 64), _MM_HINT_T1);
            __m256i four[R];
            UWAGA_UNROLL
            for (int r = 0; r < R; ++r) {
                int32_t bytes;
                memcpy(&bytes, x + r * stride, 4);
                four[r] = _mm256_set1_epi32(seven ? bytes : static_cast<int32_t>(static_cast<uint32_t>(bytes) ^ 0x80808080u));
            }
            UWAGA_UNROLL
            for (int c = 0; c < C; ++c) {
                const __m256i w = weights_at(weights + 32 * c);
                const __m256i magnitude = seven ? zero : _mm256_abs_epi8(w);
                UWAGA_UNROLL
                for (int r = 0; r < R; ++r) sum[r][c] = added<seven>(sum[r][c], four[r], w, magnitude);
            }
        }
        UWAGA_UNROLL
        for (int r = 0; r < R; ++r) {
            UWAGA_UNROLL
            for (int c = 0; c < C; ++c) _mm256_store_si256(reinterpret_cast<__m256i*>(sums + r * panel + 8 * c), sum[r][c]);
        }
    }

    // Several rows go through the panel in two halves: four rows of 16 columns fill the registers.
    template <int R, bool seven>
    static void halves(const uint8_t* x, int64_t stride, const int8_t* weights, const int32_t* correction, int64_t groups,
                       uintptr_t ahead, int64_t ahead_step, int32_t* sums) {
        const uintptr_t middle = ahead + static_cast<uintptr_t>(groups * ahead_step / 2);
        some<R, 2, seven>(x, stride, weights, correction, groups, ahead, ahead_step / 2, sums);
        some<R, 2, seven>(x, stride, weights + 64, correction + 16, groups, middle, ahead_step / 2, sums + 16);
    }

    template <bool seven>
    static void counted(int64_t count, const uint8_t* x, int64_t stride, const int8_t* weights, const int32_t* correction,
                        int64_t groups, uintptr_t ahead, int64_t ahead_step, int32_t* sums) {
        switch (count) {
            case 1: some<1, 4, seven>(x, stride, weights, correction, groups, ahead, ahead_step, sums); break;
            case 2: some<2, 4, seven>(x, stride, weights, correction, groups, ahead, ahead_step, sums); break;
            case 3: halves<3, seven>(x, stride, weights, correction, groups, ahead, ahead_step, sums); break;
            default: halves<4, seven>(x, stride, weights, correction, groups, ahead, ahead_step, sums); break;
        }
    }

    static void run(int64_t count, const uint8_t* x, int64_t stride, const int8_t* weights, const int32_t* correction,
                    int64_t groups, bool seven_bits, uintptr_t ahead, int64_t ahead_step, int32_t* sums) {
        if (seven_bits) counted<true>(count, x, stride, weights, correction, groups, ahead, ahead_step, sums);
        else counted<false>(count, x, stride, weights, correction, groups, ahead, ahead_step, sums);
    }
};

#include "kernels_float.inl"
#include "kernels_attention.inl"
#include "kernels_panels.inl"
#include "kernels_product.inl"

constexpr Kernels made = table(Isa::avx2, "avx2");

}  // namespace

extern const Kernels avx2_kernels;
const Kernels avx2_kernels = made;

}  // namespace uwaga
