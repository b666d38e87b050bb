#include "rates/peaks.h"

#include "kernels/shared/unroll.h"

#if defined(__x86_64__) && !defined(UWAGA_PORTABLE)
#include "kernels/shared/intrinsics.h"
#define UWAGA_TARGET(name) __attribute__((target(name)))
#elif defined(__aarch64__) && !defined(UWAGA_PORTABLE)
#include <arm_neon.h>
#if defined(__clang__)
#define UWAGA_TARGET(name) __attribute__((target("dotprod")))
#else
#define UWAGA_TARGET(name) __attribute__((target(name)))
#endif
#endif

namespace uwaga {

namespace {

constexpr int sums = 12;  // two multiply-adds start each cycle and take 4 or 5

template <class Vector>
inline __attribute__((always_inline)) uint64_t read_with(const int8_t* from, int64_t bytes) {
    constexpr int64_t ahead = 4096;
    const Vector* const vectors = reinterpret_cast<const Vector*>(from);
    Vector a{}, b{}, c{}, d{};
    for (int64_t i = 0; i < bytes / static_cast<int64_t>(sizeof(Vector)); i += 4) {
        UWAGA_UNROLL
        for (unsigned line = 0; line < 4 * sizeof(Vector); line += 64)
            __builtin_prefetch(reinterpret_cast<const int8_t*>(vectors + i) + ahead + line);
        a ^= vectors[i];
        b ^= vectors[i + 1];
        c ^= vectors[i + 2];
        d ^= vectors[i + 3];
    }
    a ^= b ^ c ^ d;
    uint64_t combined = 0;
    for (unsigned i = 0; i < sizeof(Vector) / 8; ++i) combined ^= a[i];
    return combined;
}

using Half = uint64_t __attribute__((vector_size(32), may_alias));
using Full = uint64_t __attribute__((vector_size(64), may_alias));

uint64_t read_plain(const int8_t* from, int64_t bytes) { return read_with<Half>(from, bytes); }

// Keeps the compiler from computing a value before the loop, and from removing unused results.
#if defined(__x86_64__) && !defined(UWAGA_PORTABLE)
#define UWAGA_OPAQUE(vector) __asm__ volatile("" : "+v"(vector))
#define UWAGA_OPAQUE_AVX(vector) __asm__ volatile("" : "+x"(vector))

UWAGA_TARGET("avx2") uint64_t read_avx2(const int8_t* from, int64_t bytes) {
    return read_with<Half>(from, bytes);
}
UWAGA_TARGET("avx512f") uint64_t read_avx512(const int8_t* from, int64_t bytes) {
    return read_with<Full>(from, bytes);
}

UWAGA_TARGET("avx2") void integers_avx2(int64_t iterations) {
    __m256i sum[sums], w = _mm256_set1_epi8(3);
    const __m256i x = _mm256_set1_epi8(1), ones = _mm256_set1_epi16(1);
    for (auto& accumulator : sum) accumulator = _mm256_setzero_si256();
    for (int64_t i = 0; i < iterations; ++i) {
        UWAGA_UNROLL
        for (auto& accumulator : sum) {
            UWAGA_OPAQUE_AVX(w);
            accumulator = _mm256_add_epi32(accumulator, _mm256_madd_epi16(_mm256_maddubs_epi16(x, w), ones));
        }
    }
    for (auto& accumulator : sum) UWAGA_OPAQUE_AVX(accumulator);
}

UWAGA_TARGET("avx2,avxvnni") void integers_avxvnni(int64_t iterations) {
    __m256i sum[sums];
    const __m256i x = _mm256_set1_epi8(1), w = _mm256_set1_epi8(3);
    for (auto& accumulator : sum) accumulator = _mm256_setzero_si256();
    for (int64_t i = 0; i < iterations; ++i) {
        UWAGA_UNROLL
        for (auto& accumulator : sum) accumulator = _mm256_dpbusd_avx_epi32(accumulator, x, w);
    }
    for (auto& accumulator : sum) UWAGA_OPAQUE_AVX(accumulator);
}

UWAGA_TARGET("avx512f,avx512vnni") void integers_avx512vnni(int64_t iterations) {
    __m512i sum[sums];
    const __m512i x = _mm512_set1_epi8(1), w = _mm512_set1_epi8(3);
    for (auto& accumulator : sum) accumulator = _mm512_setzero_si512();
    for (int64_t i = 0; i < iterations; ++i) {
        UWAGA_UNROLL
        for (auto& accumulator : sum) accumulator = _mm512_dpbusd_epi32(accumulator, x, w);
    }
    for (auto& accumulator : sum) UWAGA_OPAQUE(accumulator);
}

#if defined(__linux__)
// Four tiles of sums, as in the kernel: 16 rows by 16 columns over 64 inputs each.
UWAGA_TARGET("amx-tile,amx-int8") void integers_amx(int64_t iterations) {
    alignas(64) uint8_t shape[64] = {1};  // the operand of `ldtilecfg`: the palette, bytes of a row from 16,
                                          // rows from 48
    for (int tile = 0; tile < 8; ++tile) shape[16 + 2 * tile] = 64, shape[48 + tile] = 16;
    __asm__ volatile("" : : "r"(shape) : "memory");
    _tile_loadconfig(shape);  // sets all tiles to zero
    for (int64_t i = 0; i < iterations; ++i) {
        _tile_dpbusd(0, 4, 6);
        _tile_dpbusd(1, 4, 7);
        _tile_dpbusd(2, 5, 6);
        _tile_dpbusd(3, 5, 7);
    }
    _tile_release();
}
#endif

UWAGA_TARGET("avx2,fma") void floats_avx2(int64_t iterations) {
    __m256 sum[sums];
    const __m256 x = _mm256_set1_ps(0.5f), w = _mm256_set1_ps(1.0f);
    for (auto& accumulator : sum) accumulator = w;
    for (int64_t i = 0; i < iterations; ++i) {
        UWAGA_UNROLL
        for (auto& accumulator : sum) accumulator = _mm256_fmadd_ps(accumulator, x, w);
    }
    for (auto& accumulator : sum) UWAGA_OPAQUE_AVX(accumulator);
}

UWAGA_TARGET("avx512f") void floats_avx512(int64_t iterations) {
    __m512 sum[sums];
    const __m512 x = _mm512_set1_ps(0.5f), w = _mm512_set1_ps(1.0f);
    for (auto& accumulator : sum) accumulator = w;
    for (int64_t i = 0; i < iterations; ++i) {
        UWAGA_UNROLL
        for (auto& accumulator : sum) accumulator = _mm512_fmadd_ps(accumulator, x, w);
    }
    for (auto& accumulator : sum) UWAGA_OPAQUE(accumulator);
}
#elif defined(__aarch64__) && !defined(UWAGA_PORTABLE)
UWAGA_TARGET("arch=armv8.2-a+dotprod") void integers_neon(int64_t turns) {
    int32x4_t sum[sums];
    const int8x16_t x = vdupq_n_s8(1), w = vdupq_n_s8(3);
    for (auto& accumulator : sum) accumulator = vdupq_n_s32(0);
    for (int64_t i = 0; i < turns; ++i) {
        UWAGA_UNROLL
        for (auto& accumulator : sum) accumulator = vdotq_s32(accumulator, x, w);
    }
    for (auto& accumulator : sum) __asm__ volatile("" : "+w"(accumulator));
}

void floats_neon(int64_t turns) {
    float32x4_t sum[sums];
    const float32x4_t x = vdupq_n_f32(0.5f), w = vdupq_n_f32(1.0f);
    for (auto& accumulator : sum) accumulator = w;
    for (int64_t i = 0; i < turns; ++i) {
        UWAGA_UNROLL
        for (auto& accumulator : sum) accumulator = vfmaq_f32(w, accumulator, x);
    }
    for (auto& accumulator : sum) __asm__ volatile("" : "+w"(accumulator));
}
#endif

}  // namespace

Peak integer_peak(Isa isa) {
    switch (isa) {
#if defined(__x86_64__) && !defined(UWAGA_PORTABLE)
#if defined(__linux__)
        case Isa::amx: return {&integers_amx, 4 * 2 * 16 * 16 * 64};
#endif
        case Isa::avx512vnni: return {&integers_avx512vnni, sums * 2 * 64};
        case Isa::avxvnni: return {&integers_avxvnni, sums * 2 * 32};
        case Isa::avx2: return {&integers_avx2, sums * 2 * 32};
#elif defined(__aarch64__) && !defined(UWAGA_PORTABLE)
        case Isa::neon: return {&integers_neon, sums * 2 * 16};
#endif
        default: return {};
    }
}

Peak float_peak(Isa isa) {
    switch (isa) {
#if defined(__x86_64__) && !defined(UWAGA_PORTABLE)
        case Isa::amx:
        case Isa::avx512vnni: return {&floats_avx512, sums * 2 * 16};
        case Isa::avxvnni:
        case Isa::avx2: return {&floats_avx2, sums * 2 * 8};
#elif defined(__aarch64__) && !defined(UWAGA_PORTABLE)
        case Isa::neon: return {&floats_neon, sums * 2 * 4};
#endif
        default: return {};
    }
}

uint64_t read_bytes([[maybe_unused]] Isa isa, const int8_t* from, int64_t bytes) {
#if defined(__x86_64__) && !defined(UWAGA_PORTABLE)
    if (isa == Isa::amx || isa == Isa::avx512vnni) return read_avx512(from, bytes);
    if (isa == Isa::avxvnni || isa == Isa::avx2) return read_avx2(from, bytes);
#endif
    return read_plain(from, bytes);
}

}  // namespace uwaga
