// Arm NEON with the dot product extension (Armv8.2): three rows and eight registers of 4 columns.
#include <arm_neon.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/shared/unroll.h"

namespace uwaga {
namespace {

#include "kernels/vec/neon.inl"
#include "kernels/vec/interface.inl"
#include "kernels/shared/float.inl"
#include "kernels/shared/attention.inl"

constexpr int float_rows = 3;
constexpr uintptr_t prefetch_distance = 32 * 1024;

struct Int8Block {
    static constexpr int64_t rows = 3;

    // Multiply one group of 4 inputs by the panel's 32 columns; `lane` is the group's place in x.
    template <int R, int lane>
    static void group(int32x4_t (&sum)[R][8], const int8x16_t (&x)[R], const int8_t* weights) {
        UWAGA_UNROLL
        for (int c = 0; c < 8; ++c) {
            const int8x16_t w = vld1q_s8(weights + 16 * c);
            UWAGA_UNROLL
            for (int r = 0; r < R; ++r) sum[r][c] = vdotq_laneq_s32(sum[r][c], w, x[r], lane);
        }
    }

    // Signed by signed products: uses x - 128 and needs no correction.
    template <int R>
    static void run_rows(const uint8_t* x, int64_t stride, const int8_t* weights, int64_t groups,
                         uintptr_t prefetch, int64_t prefetch_step, int32_t* sums) {
        int32x4_t sum[R][8];
        UWAGA_UNROLL
        for (int r = 0; r < R; ++r) {
            UWAGA_UNROLL
            for (int c = 0; c < 8; ++c) sum[r][c] = vdupq_n_s32(0);
        }
        for (int64_t g = 0; g < groups; g += 4, weights += 512, x += 16) {
            for (int64_t step = 0; step < 4 * prefetch_step; step += 64) {
                __builtin_prefetch(reinterpret_cast<const void*>(prefetch + static_cast<uintptr_t>(step)));
            }
            prefetch += static_cast<uintptr_t>(4 * prefetch_step);
            int8x16_t four[R];
            UWAGA_UNROLL
            for (int r = 0; r < R; ++r)
                four[r] = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(x + r * stride), vdupq_n_u8(0x80)));
            group<R, 0>(sum, four, weights);
            group<R, 1>(sum, four, weights + 128);
            group<R, 2>(sum, four, weights + 256);
            group<R, 3>(sum, four, weights + 384);
        }
        UWAGA_UNROLL
        for (int r = 0; r < R; ++r) {
            UWAGA_UNROLL
            for (int c = 0; c < 8; ++c) vst1q_s32(sums + r * panel + 4 * c, sum[r][c]);
        }
    }

    static void run(int64_t count, const uint8_t* x, int64_t stride, const int8_t* weights, const int32_t*,
                    int64_t groups, uintptr_t prefetch, int64_t prefetch_step, int32_t* sums) {
        switch (count) {
            case 1: run_rows<1>(x, stride, weights, groups, prefetch, prefetch_step, sums); break;
            case 2: run_rows<2>(x, stride, weights, groups, prefetch, prefetch_step, sums); break;
            default: run_rows<3>(x, stride, weights, groups, prefetch, prefetch_step, sums); break;
        }
    }
};

#include "kernels/shared/int4_rows.inl"
#include "kernels/shared/int4_unpack.inl"

struct Int4Block {
    static constexpr int64_t rows = SignedRows::max_rows;

    static void run_row(const SignedRows& x, int64_t row, const uint8_t* weights, int64_t groups,
                        uintptr_t prefetch, int32_t* sums) {
        int32x4_t total[8];
        UWAGA_UNROLL
        for (int c = 0; c < 8; ++c) total[c] = vdupq_n_s32(0);
        for (int64_t g = 0; g < groups; ++g, prefetch += int4_group) {
            for (uintptr_t line = 0; line < int4_group; line += 64)
                __builtin_prefetch(reinterpret_cast<const void*>(prefetch + line));
            const int8_t* pairs = reinterpret_cast<const int8_t*>(weights);
            weights += 2 * panel;
            const int8x16_t inputs[2] = {vld1q_s8(x.row(row) + int4_inputs * g),
                                         vld1q_s8(x.row(row) + int4_inputs * g + 16)};
            int32x4_t sum[8];
            UWAGA_UNROLL
            for (int c = 0; c < 8; ++c) sum[c] = vdupq_n_s32(x.row_starts(row)[g]);
            UWAGA_UNROLL
            for (int i = 0; i < 2; ++i, weights += 8 * panel) {
                add<0>(sum, inputs[i], weights);
                add<2>(sum, inputs[i], weights + 4 * panel);
            }
            const int32_t input_sum = x.row_sums(row)[g] / 65536;
            UWAGA_UNROLL
            for (int c = 0; c < 8; c += 2) {
                const int8x8x2_t pair = vld2_s8(pairs + 8 * c);  // steps, and middles
                const int16x8_t step = vmovl_s8(pair.val[0]), middle = vmovl_s8(pair.val[1]);
                total[c] = vmlaq_n_s32(vmlaq_s32(total[c], sum[c], vmovl_s16(vget_low_s16(step))),
                                       vmovl_s16(vget_low_s16(middle)), input_sum);
                total[c + 1] = vmlaq_n_s32(vmlaq_s32(total[c + 1], sum[c + 1],
                                                     vmovl_s16(vget_high_s16(step))),
                                           vmovl_s16(vget_high_s16(middle)), input_sum);
            }
        }
        UWAGA_UNROLL
        for (int c = 0; c < 8; ++c) vst1q_s32(sums + row * panel + 4 * c, total[c]);
    }

    static void run(int64_t count, const SignedRows& x, const uint8_t* weights, int64_t groups,
                    uintptr_t prefetch, int32_t* sums) {
        for (int64_t row = 0; row < count; ++row) run_row(x, row, weights, groups, prefetch, sums);
    }

  private:
    // The products of eight inputs; `lane` is the place of their first four in x.
    template <int lane>
    static void add(int32x4_t (&sum)[8], int8x16_t x, const uint8_t* weights) {
        UWAGA_UNROLL
        for (int c = 0; c < 8; ++c) {
            const uint8x16_t packed = vld1q_u8(weights + 16 * c);
            sum[c] = vdotq_laneq_s32(sum[c], vreinterpretq_s8_u8(vandq_u8(packed, vdupq_n_u8(15))), x, lane);
            sum[c] = vdotq_laneq_s32(sum[c], vreinterpretq_s8_u8(vshrq_n_u8(packed, 4)), x, lane + 1);
        }
    }
};

#include "kernels/shared/int8_panels.inl"
#include "kernels/shared/dots_plain.inl"
#include "kernels/shared/table.inl"

constexpr Kernels kernel_table = table(Isa::neon, "neon");

}  // namespace

extern const Kernels neon_kernels;
const Kernels neon_kernels = kernel_table;

}  // namespace uwaga
