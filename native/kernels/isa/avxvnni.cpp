// AVX-VNNI, 256 bits: six rows and two registers of 8 columns. With UWAGA_EMULATE, the equivalent instruction
// of AVX-512 VNNI + VL replaces it, for tests on processors without AVX-VNNI.
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/shared/intrinsics.h"
#include "kernels/shared/unroll.h"

namespace uwaga {
namespace {

#include "kernels/vec/avx2.inl"
#include "kernels/vec/interface.inl"
#include "kernels/shared/float.inl"
#include "kernels/shared/attention.inl"

constexpr int float_rows = 3;
constexpr uintptr_t prefetch_distance = 64 * 1024;

inline __m256i dot(__m256i sum, __m256i x, __m256i w) {
#ifdef UWAGA_EMULATE
    return _mm256_dpbusd_epi32(sum, x, w);
#else
    return _mm256_dpbusd_avx_epi32(sum, x, w);
#endif
}

struct Int8Block {
    static constexpr int64_t rows = 6;

    template <int R, int C>
    static void run_rows(const uint8_t* x, int64_t stride, const int8_t* weights, const int32_t* correction,
                         int64_t groups, uintptr_t prefetch, int64_t prefetch_step, int32_t* sums) {
        __m256i sum[R][C];
        const __m256i zero = _mm256_setzero_si256();
        UWAGA_UNROLL
        for (int r = 0; r < R; ++r) {
            UWAGA_UNROLL
            for (int c = 0; c < C; ++c) {
                sum[r][c] = _mm256_sub_epi32(zero,
                                             _mm256_load_si256(reinterpret_cast<const __m256i*>(correction +
                                                                                                8 * c)));
            }
        }
        for (int64_t g = 0; g < groups;
             ++g, weights += 128, x += 4, prefetch += static_cast<uintptr_t>(prefetch_step)) {
            _mm_prefetch(reinterpret_cast<const char*>(prefetch), _MM_HINT_T1);
            if (C == 4 && prefetch_step > 64)
                _mm_prefetch(reinterpret_cast<const char*>(prefetch + 64), _MM_HINT_T1);
            __m256i w[C];
            UWAGA_UNROLL
            for (int c = 0; c < C; ++c) {
                w[c] = _mm256_load_si256(reinterpret_cast<const __m256i*>(weights + 32 * c));
                if (R > 3) __asm__("" : "+x"(w[c]));  // otherwise gcc reads it from memory for every row
            }
            UWAGA_UNROLL
            for (int r = 0; r < R; ++r) {
                int32_t bytes;
                memcpy(&bytes, x + r * stride, 4);
                const __m256i four = _mm256_set1_epi32(bytes);
                UWAGA_UNROLL
                for (int c = 0; c < C; ++c) sum[r][c] = dot(sum[r][c], four, w[c]);
            }
        }
        UWAGA_UNROLL
        for (int r = 0; r < R; ++r) {
            UWAGA_UNROLL
            for (int c = 0; c < C; ++c)
                _mm256_store_si256(reinterpret_cast<__m256i*>(sums + r * panel + 8 * c), sum[r][c]);
        }
    }

    template <int R>
    static void run_halves(const uint8_t* x, int64_t stride, const int8_t* weights, const int32_t* correction,
                           int64_t groups, uintptr_t prefetch, int64_t prefetch_step, int32_t* sums) {
        const uintptr_t middle = prefetch + static_cast<uintptr_t>(groups * prefetch_step / 2);
        run_rows<R, 2>(x, stride, weights, correction, groups, prefetch, prefetch_step / 2, sums);
        run_rows<R, 2>(x, stride, weights + 64, correction + 16, groups, middle, prefetch_step / 2,
                       sums + 16);
    }

    static void run(int64_t count, const uint8_t* x, int64_t stride, const int8_t* weights,
                    const int32_t* correction, int64_t groups, uintptr_t prefetch, int64_t prefetch_step,
                    int32_t* sums) {
        switch (count) {
            case 1:
                run_rows<1, 4>(x, stride, weights, correction, groups, prefetch, prefetch_step, sums);
                break;
            case 2:
                run_rows<2, 4>(x, stride, weights, correction, groups, prefetch, prefetch_step, sums);
                break;
            case 3:
                run_rows<3, 4>(x, stride, weights, correction, groups, prefetch, prefetch_step, sums);
                break;
            case 4:
                run_halves<4>(x, stride, weights, correction, groups, prefetch, prefetch_step, sums);
                break;
            case 5:
                run_halves<5>(x, stride, weights, correction, groups, prefetch, prefetch_step, sums);
                break;
            default:
                run_halves<6>(x, stride, weights, correction, groups, prefetch, prefetch_step, sums);
                break;
        }
    }
};

#include "kernels/shared/int8_panels.inl"
struct GroupSum {
    __m256i sum;

    void begin(int32_t start) { sum = _mm256_set1_epi32(start); }
    void add(__m256i q, __m256i x) { sum = dot(sum, q, x); }
    __m256i end(int32_t) const { return sum; }
};
inline __m256i add_pairs(__m256i total, __m256i a, __m256i b) {
#ifdef UWAGA_EMULATE
    return _mm256_dpwssd_epi32(total, a, b);
#else
    return _mm256_dpwssd_avx_epi32(total, a, b);
#endif
}

#include "kernels/shared/int4_avx2.inl"
#include "kernels/shared/dots_avx2.inl"
#include "kernels/shared/table.inl"

#ifdef UWAGA_EMULATE
constexpr Kernels kernel_table = table(Isa::avxvnni, "avxvnni (emulated)");
#else
constexpr Kernels kernel_table = table(Isa::avxvnni, "avxvnni");
#endif

}  // namespace

#ifdef UWAGA_EMULATE
extern const Kernels emulated_avxvnni_kernels;
const Kernels emulated_avxvnni_kernels = kernel_table;
#else
extern const Kernels avxvnni_kernels;
const Kernels avxvnni_kernels = kernel_table;
#endif

}  // namespace uwaga
