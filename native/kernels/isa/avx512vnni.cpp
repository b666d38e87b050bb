// AVX-512 with VNNI: 8 rows and two registers of 16 columns. The previous block is finished (scaled, added
// to, stored or searched) between the products of the next, so that neither stalls the other.
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/shared/intrinsics.h"
#include "kernels/shared/unroll.h"

namespace uwaga {
namespace {

#include "kernels/vec/avx512.inl"
#include "kernels/vec/interface.inl"
#include "kernels/shared/float.inl"
#include "kernels/shared/attention.inl"
#include "kernels/shared/pending_block.inl"
#include "kernels/shared/prefetch.inl"

constexpr int float_rows = 8;
constexpr uintptr_t prefetch_distance = 96 * 1024;
constexpr int64_t block_rows = 8;
// Up to this many rows are limited by memory, and a quarter faster if only the first line of each 4 KB is
// prefetched: the processor's own prefetcher then has room to fetch the rest (Zen 4).
constexpr int few_rows = 4;

struct PipelinedBlock {
    static __m512i four(const uint8_t* x) {
        int32_t bytes;
        memcpy(&bytes, x, 4);
        return _mm512_set1_epi32(bytes);
    }

    // One row's weights load faster than dependent sums are added: two groups at once, in four chains.
    static void run_row(const uint8_t* x, const int8_t* weights, const int32_t* correction, int64_t groups,
                        uintptr_t prefetch, int32_t* sums) {
        const __m512i zero = _mm512_setzero_si512();
        __m512i a = _mm512_sub_epi32(zero, _mm512_load_si512(correction)),
                b = _mm512_sub_epi32(zero, _mm512_load_si512(correction + 16));
        __m512i c = zero, d = zero;
        UWAGA_UNROLL_BY(4)
        for (int64_t g = 0; g < groups; g += 2, weights += 256, prefetch += 256, x += 8) {
            for (uintptr_t line = 0; line < 64 && (prefetch & 4095) < 256; line += 128)
                _mm_prefetch(reinterpret_cast<const char*>(prefetch + line), _MM_HINT_T1);
            const __m512i x0 = four(x), x1 = four(x + 4);
            a = _mm512_dpbusd_epi32(a, x0, _mm512_load_si512(weights));
            b = _mm512_dpbusd_epi32(b, x0, _mm512_load_si512(weights + 64));
            c = _mm512_dpbusd_epi32(c, x1, _mm512_load_si512(weights + 128));
            d = _mm512_dpbusd_epi32(d, x1, _mm512_load_si512(weights + 192));
        }
        _mm512_store_si512(sums, _mm512_add_epi32(a, c));
        _mm512_store_si512(sums + 16, _mm512_add_epi32(b, d));
    }

    template <int R, class Finish>
    UWAGA_INLINE static void run_rows(const uint8_t* x, int64_t stride, const int8_t* weights,
                                      const int32_t* correction, int64_t groups, uintptr_t prefetch,
                                      int64_t prefetch_step, PendingBlock& pending, Finish& finish,
                                      int32_t* sums) {
        __m512i sum[R][2];
        const __m512i zero = _mm512_setzero_si512();
        UWAGA_UNROLL
        for (int r = 0; r < R; ++r) {
            sum[r][0] = _mm512_sub_epi32(zero, _mm512_load_si512(correction));
            sum[r][1] = _mm512_sub_epi32(zero, _mm512_load_si512(correction + 16));
        }
        const int64_t turn = groups / block_rows;  // inputs are padded to 64: 16 groups or a multiple
        for (int64_t group = 0; group < groups; group += turn) {
            for (int64_t g = 0; g < turn;
                 ++g, weights += 128, x += 4, prefetch += static_cast<uintptr_t>(prefetch_step)) {
                if (R > few_rows || (prefetch & 4095) < 128)
                    _mm_prefetch(reinterpret_cast<const char*>(prefetch), _MM_HINT_T1);
                if (R > few_rows && prefetch_step > 64)
                    _mm_prefetch(reinterpret_cast<const char*>(prefetch + 64), _MM_HINT_T1);
                __m512i left = _mm512_load_si512(weights), right = _mm512_load_si512(weights + 64);
                __asm__("" : "+v"(left), "+v"(right));  // otherwise gcc reads them from memory for every row
                UWAGA_UNROLL
                for (int r = 0; r < R; ++r) {
                    const __m512i repeated = four(x + r * stride);
                    sum[r][0] = _mm512_dpbusd_epi32(sum[r][0], repeated, left);
                    sum[r][1] = _mm512_dpbusd_epi32(sum[r][1], repeated, right);
                }
            }
            pending.finish_rows(1, finish);
        }
        UWAGA_UNROLL
        for (int r = 0; r < R; ++r) {
            _mm512_store_si512(sums + r * panel, sum[r][0]);
            _mm512_store_si512(sums + r * panel + 16, sum[r][1]);
        }
    }

    template <class Finish>
    static void run(int64_t count, const uint8_t* x, int64_t stride, const int8_t* weights,
                    const int32_t* correction, int64_t groups, uintptr_t prefetch, int64_t prefetch_step,
                    PendingBlock& pending, Finish& finish, int32_t* sums) {
        switch (count) {
            case 1:
                run_row(x, weights, correction, groups, prefetch, sums);
                pending.finish_rows(block_rows, finish);
                break;
            case 2:
                run_rows<2>(x, stride, weights, correction, groups, prefetch, prefetch_step, pending, finish,
                            sums);
                break;
            case 3:
                run_rows<3>(x, stride, weights, correction, groups, prefetch, prefetch_step, pending, finish,
                            sums);
                break;
            case 4:
                run_rows<4>(x, stride, weights, correction, groups, prefetch, prefetch_step, pending, finish,
                            sums);
                break;
            case 5:
                run_rows<5>(x, stride, weights, correction, groups, prefetch, prefetch_step, pending, finish,
                            sums);
                break;
            case 6:
                run_rows<6>(x, stride, weights, correction, groups, prefetch, prefetch_step, pending, finish,
                            sums);
                break;
            case 7:
                run_rows<7>(x, stride, weights, correction, groups, prefetch, prefetch_step, pending, finish,
                            sums);
                break;
            default:
                run_rows<8>(x, stride, weights, correction, groups, prefetch, prefetch_step, pending, finish,
                            sums);
                break;
        }
    }
};

// See shared/int8_panels.inl.
template <class Panels, class Finish>
void int8_panels(const QuantisedRows& x, int64_t rows, const Panels& w, Finish& finish) {
    if (rows < 1) return;
    const int64_t inputs = padded_inputs(w.inputs), panels = padded_outputs(w.outputs) / panel;
    const int64_t blocks = (rows + block_rows - 1) / block_rows;
    alignas(64) int32_t sums[2][block_rows * panel];
    PendingBlock pending;
    int turn = 0;
    for (int64_t p = 0; p < panels; ++p) {
        const int8_t* weights = panel_of(w, inputs, p);
        // Each block of rows prefetches its part of the panel that is `prefetch_distance` ahead.
        const int64_t size = panels * inputs * panel, part = inputs * panel / blocks;
        for (int64_t b = 0; b < blocks; ++b) {
            const int64_t first = rows * b / blocks, count = rows * (b + 1) / blocks - first;
            const uintptr_t prefetch = prefetch_address(w, size, p * inputs * panel + part * b,
                                                        prefetch_distance);
            for (int64_t r = 0; r < count; ++r) finish.prepare(first + r, p);
            PipelinedBlock::run(count, x.values + first * x.stride, x.stride, weights, w.sums + p * panel,
                                inputs / 4, prefetch, 4 * panel / blocks, pending, finish, sums[turn]);
            pending = PendingBlock{sums[turn], 0, count, first, p};
            turn ^= 1;
        }
    }
    pending.finish_rows(block_rows, finish);
}

#include "kernels/shared/int4_avx512.inl"
#include "kernels/shared/dots_avx512.inl"
#include "kernels/shared/table.inl"

constexpr Kernels kernel_table = table(Isa::avx512vnni, "avx512vnni");

}  // namespace

extern const Kernels avx512vnni_kernels;
const Kernels avx512vnni_kernels = kernel_table;

}  // namespace uwaga
