// WebAssembly with its 128-bit vectors (SIMD, 2021), the results of portable.cpp bit for bit. Nothing of the
// relaxed extension, whose products differ between processors.
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
    static constexpr int64_t rows = 4, max_groups = 128;  // groups whose inputs are widened at once

    // Inputs of a row less 128, in 16 bits.
    static void widen(const uint8_t* x, int64_t inputs, int16_t* to) {
        for (int64_t k = 0; k < inputs; k += 8) {
            wasm_v128_store(to + k, wasm_i16x8_sub(wasm_u16x8_load8x8(x + k), wasm_i16x8_splat(128)));
        }
    }

    // R rows and V registers of 4 columns at a time: 2 R V registers of sums, each of two columns with two of
    // their four products' sums side by side. Signed by signed in 16 bits, so that nothing saturates and no
    // correction is due.
    template <int R, int V>
    static void run_columns(const int16_t* x, const int8_t* weights, int64_t groups, int32_t* halves) {
        v128_t sum[R][2 * V];
        UWAGA_UNROLL
        for (int r = 0; r < R; ++r) {
            UWAGA_UNROLL
            for (int c = 0; c < 2 * V; ++c) sum[r][c] = wasm_v128_load(halves + r * 2 * panel + 4 * c);
        }
        for (int64_t g = 0; g < groups; ++g, x += 4, weights += 4 * panel) {
            v128_t four[R];  // the group's inputs, twice
            UWAGA_UNROLL
            for (int r = 0; r < R; ++r) four[r] = wasm_v128_load64_splat(x + r * 4 * max_groups);
            UWAGA_UNROLL
            for (int c = 0; c < 2 * V; ++c) {
                const v128_t w = wasm_i16x8_load8x8(weights + 8 * c);
                UWAGA_UNROLL
                for (int r = 0; r < R; ++r)
                    sum[r][c] = wasm_i32x4_add(sum[r][c], wasm_i32x4_dot_i16x8(four[r], w));
            }
        }
        UWAGA_UNROLL
        for (int r = 0; r < R; ++r) {
            UWAGA_UNROLL
            for (int c = 0; c < 2 * V; ++c) wasm_v128_store(halves + r * 2 * panel + 4 * c, sum[r][c]);
        }
    }

    template <int R>
    static void run_rows(const uint8_t* x, int64_t stride, const int8_t* weights, int64_t groups,
                         int32_t* sums) {
        constexpr int V = R == 1 ? 4 : R == 2 ? 2 : 1;  // at most eight registers of sums
        int16_t wide[R * 4 * max_groups];
        int32_t halves[R * 2 * panel];
        for (int64_t c = 0; c < R * 2 * panel; c += 4) wasm_v128_store(halves + c, wasm_i32x4_splat(0));
        for (int64_t group_start = 0; group_start < groups; group_start += max_groups) {
            const int64_t count = smaller(max_groups, groups - group_start);
            for (int r = 0; r < R; ++r)
                widen(x + r * stride + 4 * group_start, 4 * count, wide + r * 4 * max_groups);
            for (int64_t c = 0; c < panel; c += 4 * V)
                run_columns<R, V>(wide, weights + 4 * (group_start * panel + c), count, halves + 2 * c);
        }
        for (int64_t c = 0; c < R * panel; c += 4) {
            const v128_t left = wasm_v128_load(halves + 2 * c), right = wasm_v128_load(halves + 2 * c + 4);
            const v128_t even = wasm_i32x4_shuffle(left, right, 0, 2, 4, 6),
                         odd = wasm_i32x4_shuffle(left, right, 1, 3, 5, 7);
            wasm_v128_store(sums + c, wasm_i32x4_add(even, odd));
        }
    }

    static void run(int64_t count, const uint8_t* x, int64_t stride, const int8_t* weights, const int32_t*,
                    int64_t groups, uintptr_t, int64_t, int32_t* sums) {
        switch (count) {
            case 1: run_rows<1>(x, stride, weights, groups, sums); break;
            case 2: run_rows<2>(x, stride, weights, groups, sums); break;
            case 3: run_rows<3>(x, stride, weights, groups, sums); break;
            default: run_rows<4>(x, stride, weights, groups, sums); break;
        }
    }
};

struct Int8Dots {
    static constexpr int at_once = 4;

    static void run(const uint8_t* x, const int8_t* const (&weights)[at_once], int64_t inputs,
                    int32_t* sums) {
        v128_t sum[at_once];
        UWAGA_UNROLL
        for (int i = 0; i < at_once; ++i) sum[i] = wasm_i32x4_splat(0);
        for (int64_t k = 0; k < inputs; k += 8) {
            const v128_t eight = wasm_u16x8_load8x8(x + k);
            UWAGA_UNROLL
            for (int i = 0; i < at_once; ++i)
                sum[i] = wasm_i32x4_add(sum[i],
                                        wasm_i32x4_dot_i16x8(eight, wasm_i16x8_load8x8(weights[i] + k)));
        }
        for (int i = 0; i < at_once; ++i) {
            const v128_t two = wasm_i32x4_add(sum[i], wasm_i32x4_shuffle(sum[i], sum[i], 2, 3, 0, 1));
            sums[i] = wasm_i32x4_extract_lane(two, 0) + wasm_i32x4_extract_lane(two, 1);
        }
    }
};

#include "kernels/shared/int8_panels.inl"
#include "kernels/shared/int4_rows.inl"

struct Int4Block {
    static constexpr int64_t rows = 0;
};

// A step times a number is below 256: of two numbers side by side in 16 bits, both are multiplied at once.
inline void unpack(const uint8_t* from, int64_t groups, int8_t* to) {
    for (int64_t g = 0; g < groups; ++g, from += int4_group, to += int4_inputs * panel) {
        for (int64_t c = 0; c < panel; c += 4) {
            const v128_t pairs = wasm_v128_load64_zero(from + 2 * c), zero = wasm_i32x4_splat(0),
                         half = wasm_i8x16_splat(15);
            const v128_t steps = wasm_i8x16_shuffle(pairs, zero, 0, 16, 0, 16, 2, 16, 2, 16, 4, 16, 4, 16, 6,
                                                    16, 6, 16);
            const v128_t middles = wasm_i8x16_shuffle(pairs, pairs, 1, 1, 1, 1, 3, 3, 3, 3, 5, 5, 5, 5, 7, 7,
                                                      7, 7);
            const v128_t lowest = wasm_i8x16_sub(middles, wasm_i16x8_mul(steps, wasm_i16x8_splat(8 * 257)));
            const uint8_t* numbers = from + 2 * panel + 4 * c;
            for (int64_t k = 0; k < int4_inputs; k += 8, numbers += 4 * panel) {
                const v128_t packed = wasm_v128_load(numbers), lower = wasm_v128_and(packed, half),
                             upper = wasm_u8x16_shr(packed, 4);
                wasm_v128_store(to + k * panel + 4 * c, wasm_i8x16_add(lowest, wasm_i16x8_mul(steps, lower)));
                wasm_v128_store(to + (k + 4) * panel + 4 * c,
                                wasm_i8x16_add(lowest, wasm_i16x8_mul(steps, upper)));
            }
        }
    }
}

#include "kernels/shared/table.inl"

constexpr Kernels kernel_table = table(Isa::wasm, "wasm");

}  // namespace

extern const Kernels wasm_kernels;
const Kernels wasm_kernels = kernel_table;

}  // namespace uwaga
