// Plain C++ for any processor; no special flags.
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/shared/unroll.h"

namespace uwaga {
namespace {

#include "kernels/vec/portable.inl"
#include "kernels/vec/interface.inl"
#include "kernels/shared/float.inl"
#include "kernels/shared/attention.inl"

constexpr int float_rows = 2;
constexpr uintptr_t prefetch_distance = 0;  // no prefetching

struct Int8Block {
    static constexpr int64_t rows = 2;

    static void run(int64_t count, const uint8_t* x, int64_t stride, const int8_t* weights,
                    const int32_t* correction, int64_t groups, uintptr_t, int64_t, int32_t* sums) {
        for (int64_t r = 0; r < count; ++r, x += stride, sums += panel) {
            int32_t sum[panel];
            for (int64_t c = 0; c < panel; ++c) sum[c] = -correction[c];
            const int8_t* w = weights;
            for (int64_t g = 0; g < groups; ++g, w += 4 * panel) {
                const int32_t x0 = x[4 * g], x1 = x[4 * g + 1], x2 = x[4 * g + 2], x3 = x[4 * g + 3];
                for (int64_t c = 0; c < panel; ++c) {
                    sum[c] += x0 * w[4 * c] + x1 * w[4 * c + 1] + x2 * w[4 * c + 2] + x3 * w[4 * c + 3];
                }
            }
            memcpy(sums, sum, sizeof sum);
        }
    }
};

#include "kernels/shared/int8_panels.inl"
#include "kernels/shared/int4_plain.inl"
#include "kernels/shared/dots_plain.inl"
#include "kernels/shared/table.inl"

constexpr Kernels kernel_table = table(Isa::portable, "portable");

}  // namespace

extern const Kernels portable_kernels;
const Kernels portable_kernels = kernel_table;

}  // namespace uwaga
