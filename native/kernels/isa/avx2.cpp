// Plain AVX2: pairs of products are summed in 16 bits and never saturate. For rows x and weights w as
// integers,
//     x w = |x| (w xor m) + |x| [x < 0],   m = -1 where x < 0, else 0    (w xor -1 = -w - 1)
// The second term is one number per row, and a pair of the first is at most 2 * 127 * 128 < 2^15.
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

#include "kernels/shared/prefetch.inl"

// ---- int8 -------------------------------------------------------------------------------------------------

constexpr int64_t slice = 512;            // inputs at a time: their 16 KB of a panel stay in the L1 cache
constexpr int64_t row_bytes = 2 * slice;  // bytes of a row per slice: for every 4 inputs four |x|, then four
                                          // m
constexpr int64_t scratch_rows = 128;     // 128 rows of 512 inputs, or one row of 65,536
static_assert(scratch_rows * slice >= 65536, "a row of the most inputs must fit");

// Write a row's |x| and m, slice by slice; returns the sum of |x| where x < 0.
inline int32_t split(const uint8_t* x, int64_t inputs, int64_t slice_bytes, uint8_t* to) {
    const __m256i zero = _mm256_setzero_si256();
    __m256i sum = zero;
    for (int64_t k = 0; k < inputs; k += 32) {
        const __m256i u8 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + k));
        const __m256i q = _mm256_xor_si256(u8, _mm256_set1_epi8(static_cast<char>(0x80)));
        const __m256i mask = _mm256_cmpgt_epi8(zero, q), size = _mm256_abs_epi8(q);
        sum = _mm256_add_epi64(sum, _mm256_sad_epu8(_mm256_and_si256(size, mask), zero));
        const __m256i even = _mm256_unpacklo_epi32(size, mask), odd = _mm256_unpackhi_epi32(size, mask);
        __m256i* target = reinterpret_cast<__m256i*>(to + k / slice * slice_bytes + k % slice * 2);
        _mm256_store_si256(target, _mm256_permute2x128_si256(even, odd, 0x20));
        _mm256_store_si256(target + 1, _mm256_permute2x128_si256(even, odd, 0x31));
    }
    const __m128i two = _mm_add_epi64(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    return _mm_cvtsi128_si32(_mm_add_epi64(two, _mm_unpackhi_epi64(two, two)));
}

inline __m256i four(const uint8_t* p) {
    int32_t bytes;
    memcpy(&bytes, p, 4);
    return _mm256_set1_epi32(bytes);
}

// sum += four products for each of 8 columns. One asm statement: gcc 12 spills sums if it schedules these
// itself.
inline void add_products(__m256i& sum, __m256i size, __m256i mask, const int8_t* weights, __m256i ones) {
    __m256i products;
    __asm__(
        "vpxor %[weights], %[mask], %[products]\n\t"
        "vpmaddubsw %[products], %[size], %[products]\n\t"
        "vpmaddwd %[ones], %[products], %[products]\n\t"
        "vpaddd %[products], %[sum], %[sum]"
        : [products] "=&x"(products), [sum] "+x"(sum)
        : [weights] "m"(*reinterpret_cast<const __m256i*>(weights)), [mask] "x"(mask), [size] "x"(size),
          [ones] "x"(ones));
}

constexpr int unrolled = 4;  // groups of 4 inputs per iteration

// sums = begin + the products of R rows and 32 columns in one slice; both are (rows, 32). Each iteration
// prefetches `lines` cache lines at `prefetch`, which advances by `step` bytes; if `lines` is 0, the first
// line of each 4 KB.
template <int R, int lines>
void block(const uint8_t* x, const int8_t* weights, int64_t groups, uintptr_t prefetch, int64_t step,
           const int32_t* initial, int32_t* sums) {
    __m256i* stored = reinterpret_cast<__m256i*>(sums);
    __m256i sum[R][4];
    UWAGA_UNROLL
    for (int r = 0; r < R; ++r) {
        UWAGA_UNROLL
        for (int c = 0; c < 4; ++c)
            sum[r][c] = _mm256_load_si256(reinterpret_cast<const __m256i*>(initial + r * panel + 8 * c));
    }
    const __m256i ones = _mm256_set1_epi16(1);
    for (int64_t g = 0; g < groups; g += unrolled, x += 8 * unrolled, weights += 4 * panel * unrolled,
                 prefetch += static_cast<uintptr_t>(step)) {
        if (lines == 0 && (prefetch & 4095) < static_cast<uintptr_t>(step))
            _mm_prefetch(reinterpret_cast<const char*>(prefetch), _MM_HINT_T1);
        UWAGA_UNROLL
        for (int u = 0; u < unrolled; ++u) {
            UWAGA_UNROLL
            for (int line = lines * u / unrolled; line < lines * (u + 1) / unrolled; ++line) {
                _mm_prefetch(reinterpret_cast<const char*>(prefetch + static_cast<uintptr_t>(64 * line)),
                             _MM_HINT_T1);
            }
            UWAGA_UNROLL
            for (int r = 0; r < R; ++r) {
                const __m256i size = four(x + r * row_bytes + 8 * u),
                              mask = four(x + r * row_bytes + 8 * u + 4);
                UWAGA_UNROLL
                for (int c = 0; c < 4; ++c)
                    add_products(sum[r][c], size, mask, weights + 4 * panel * u + 32 * c, ones);
            }
        }
    }
    UWAGA_UNROLL
    for (int r = 0; r < R; ++r) {
        UWAGA_UNROLL
        for (int c = 0; c < 4; ++c) _mm256_store_si256(stored + 4 * r + c, sum[r][c]);
    }
}

template <int R>
void block_of(const uint8_t* x, const int8_t* weights, int64_t groups, uintptr_t prefetch, int64_t blocks,
              const int32_t* initial, int32_t* sums) {
    const int64_t step = 4 * panel * unrolled / blocks;
    if (blocks == 1)
        block<R, R == 1 ? 0 : 8>(x, weights, groups, prefetch, step, initial, sums);  // see few_rows, AVX-512
    else if (step > 64) block<R, 4>(x, weights, groups, prefetch, step, initial, sums);
    else block<R, 1>(x, weights, groups, prefetch, step, initial, sums);
}

// The product for as many rows as fit the scratch, at most scratch_rows. For `finish` see
// shared/int8_panels.inl.
template <class Panels, class Finish>
void int8_block_rows(const QuantisedRows& x, int64_t first, int64_t rows, const Panels& w, Finish& finish) {
    alignas(64) uint8_t scratch[scratch_rows * row_bytes];
    alignas(64) int32_t sums[scratch_rows * panel];
    alignas(64) int32_t start[scratch_rows * panel];  // each row's second term for every column
    const int64_t inputs = padded_inputs(w.inputs), panels = padded_outputs(w.outputs) / panel;
    const int64_t slice_bytes = rows * row_bytes;
    for (int64_t r = 0; r < rows; ++r) {
        const int32_t second = split(x.values + (first + r) * x.stride, inputs, slice_bytes,
                                     scratch + r * row_bytes);
        for (int64_t c = 0; c < panel; ++c) start[r * panel + c] = second;
    }
    const int64_t blocks = rows < 4 ? 1 : rows / 2;  // each of one to three rows
    for (int64_t p = 0; p < panels; ++p) {
        const int8_t* const panel_weights = panel_of(w, inputs, p);
        for (int64_t k = 0; k < inputs; k += slice) {
            const int8_t* weights = panel_weights + k * panel;
            const int64_t depth = smaller(slice, inputs - k), part = depth * panel / blocks;
            uintptr_t prefetch = prefetch_address(w, panels * inputs * panel, (p * inputs + k) * panel,
                                                  prefetch_distance);
            for (int64_t b = 0; b < blocks; ++b, prefetch += static_cast<uintptr_t>(part)) {
                const int64_t row = rows * b / blocks, count = rows * (b + 1) / blocks - row;
                const uint8_t* from = scratch + k / slice * slice_bytes + row * row_bytes;
                int32_t* to = sums + row * panel;
                if (k == 0) {
                    for (int64_t r = 0; r < count; ++r) finish.prepare(first + row + r, p);
                }
                const int32_t* initial = (k == 0 ? start : sums) + row * panel;
                if (count == 1) block_of<1>(from, weights, depth / 4, prefetch, blocks, initial, to);
                else if (count == 2) block_of<2>(from, weights, depth / 4, prefetch, blocks, initial, to);
                else block_of<3>(from, weights, depth / 4, prefetch, blocks, initial, to);
                if (k + slice < inputs) continue;
                for (int64_t r = 0; r < count; ++r) finish(first + row + r, p, to + r * panel);
            }
        }
    }
}

template <class Panels, class Finish>
void int8_panels(const QuantisedRows& x, int64_t rows, const Panels& w, Finish& finish) {
    if (rows < 1) return;
    const int64_t slices = (padded_inputs(w.inputs) + slice - 1) / slice;
    const int64_t units = (rows + x.terms - 1) / x.terms, max_units = scratch_rows / slices / x.terms,
                  turns = (units + max_units - 1) / max_units;
    for (int64_t turn = 0; turn < turns; ++turn) {
        const int64_t first = units * turn / turns * x.terms, last = units * (turn + 1) / turns * x.terms;
        int8_block_rows(x, first, last - first, w, finish);
    }
}

// Four products per lane, of operands widened to 16 bits.
inline __m256i dot(__m256i sum, __m256i x, __m256i w) {
    const __m256i low = _mm256_madd_epi16(_mm256_cvtepu8_epi16(_mm256_castsi256_si128(x)),
                                          _mm256_cvtepi8_epi16(_mm256_castsi256_si128(w)));
    const __m256i high = _mm256_madd_epi16(_mm256_cvtepu8_epi16(_mm256_extracti128_si256(x, 1)),
                                           _mm256_cvtepi8_epi16(_mm256_extracti128_si256(w, 1)));
    return _mm256_add_epi32(sum, _mm256_add_epi32(low, high));
}

// Sums of eight pairs of products q * x in 16 bits: at most 16 * 15 * 127 < 2^15.
struct GroupSum {
    __m256i sum;

    void begin(int32_t) { sum = _mm256_setzero_si256(); }
    void add(__m256i q, __m256i x) { sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(q, x)); }
    __m256i end(int32_t start) const {
        return _mm256_add_epi32(_mm256_set1_epi32(start), _mm256_madd_epi16(sum, _mm256_set1_epi16(1)));
    }
};
inline __m256i add_pairs(__m256i total, __m256i a, __m256i b) {
    return _mm256_add_epi32(total, _mm256_madd_epi16(a, b));
}

#include "kernels/shared/int4_avx2.inl"
#include "kernels/shared/dots_avx2.inl"
#include "kernels/shared/table.inl"

constexpr Kernels kernel_table = table(Isa::avx2, "avx2");

}  // namespace

extern const Kernels avx2_kernels;
const Kernels avx2_kernels = kernel_table;

}  // namespace uwaga
