// WebAssembly with its 128-bit vectors (SIMD, 2021), the results of portable.cpp bit for bit. Nothing of the relaxed
// extension, whose products differ between processors.
#include <stdint.h>
#include <string.h>
#include <wasm_simd128.h>

#include "kernels/kernels.h"
#include "kernels/shared/unroll.h"

namespace uwaga {
namespace {

#include "kernels/vec/wasm.inl"
#include "kernels/vec/interface.inl"
#include "kernels/shared/float.inl"
#include "kernels/shared/attention.inl"

constexpr int float_rows = 2;
constexpr uintptr_t prefetch_distance = 0;  // there is none

struct Int8Block {
    static constexpr int64_t rows = 4;

    // R rows and V registers of 4 columns at a time: 2 R V registers of sums, each of two columns with two of their
    // four products' sums side by side. Signed by signed in 16 bits, so that nothing saturates and no correction is due.
    template <int R, int V>
    static void run_columns(const uint8_t* x, int64_t stride, const int8_t* weights, int64_t groups, int32_t* sums) {
        v128_t sum[R][2 * V];
        UWAGA_UNROLL
        for (int r = 0; r < R; ++r) {
            UWAGA_UNROLL
            for (int c = 0; c < 2 * V; ++c) sum[r][c] = wasm_i32x4_splat(0);
        }
        for (int64_t g = 0; g < groups; ++g, x += 4, weights += 4 * panel) {
            v128_t four[R];  // the group's inputs, twice
            UWAGA_UNROLL
            for (int r = 0; r < R; ++r) {
                four[r] = wasm_i16x8_sub(wasm_u16x8_extend_low_u8x16(wasm_v128_load32_splat(x + r * stride)), wasm_i16x8_splat(128));
            }
            UWAGA_UNROLL
            for (int c = 0; c < V; ++c) {
                const v128_t w = wasm_v128_load(weights + 16 * c);
                const v128_t low = wasm_i16x8_extend_low_i8x16(w), high = wasm_i16x8_extend_high_i8x16(w);
                UWAGA_UNROLL
                for (int r = 0; r < R; ++r) {
                    sum[r][2 * c] = wasm_i32x4_add(sum[r][2 * c], wasm_i32x4_dot_i16x8(four[r], low));
                    sum[r][2 * c + 1] = wasm_i32x4_add(sum[r][2 * c + 1], wasm_i32x4_dot_i16x8(four[r], high));
                }
            }
        }
        UWAGA_UNROLL
        for (int r = 0; r < R; ++r) {
            UWAGA_UNROLL
            for (int c = 0; c < V; ++c) {
                const v128_t even = wasm_i32x4_shuffle(sum[r][2 * c], sum[r][2 * c + 1], 0, 2, 4, 6);
                const v128_t odd = wasm_i32x4_shuffle(sum[r][2 * c], sum[r][2 * c + 1], 1, 3, 5, 7);
                wasm_v128_store(sums + r * panel + 4 * c, wasm_i32x4_add(even, odd));
            }
        }
    }

    template <int R>
    static void run_rows(const uint8_t* x, int64_t stride, const int8_t* weights, int64_t groups, int32_t* sums) {
        constexpr int V = R == 1 ? 4 : R == 2 ? 2 : 1;  // at most eight registers of sums
        for (int64_t c = 0; c < panel; c += 4 * V) run_columns<R, V>(x, stride, weights + 4 * c, groups, sums + c);
    }

    static void run(int64_t count, const uint8_t* x, int64_t stride, const int8_t* weights, const int32_t*, int64_t groups,
                    uintptr_t, int64_t, int32_t* sums) {
        switch (count) {
            case 1: run_rows<1>(x, stride, weights, groups, sums); break;
            case 2: run_rows<2>(x, stride, weights, groups, sums); break;
            case 3: run_rows<3>(x, stride, weights, groups, sums); break;
            default: run_rows<4>(x, stride, weights, groups, sums); break;
        }
    }
};

#include "kernels/shared/int8_panels.inl"
#include "kernels/shared/dots_plain.inl"
#include "kernels/shared/table.inl"

constexpr Kernels made = table(Isa::wasm, "wasm");

}  // namespace

extern const Kernels wasm_kernels;
const Kernels wasm_kernels = made;

}  // namespace uwaga
