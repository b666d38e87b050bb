// AMX-INT8: blocks of 32 rows and 32 columns in four tiles. The previous block is finished (scaled, added to,
// stored or searched) between the tile products of the next.
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
#include "kernels/isa/amx_tiles.inl"
#include "kernels/shared/pending_block.inl"
#include "kernels/shared/prefetch.inl"

constexpr int float_rows = 8;
constexpr uintptr_t prefetch_distance = 96 * 1024;

// Memory at `p` is written before and reread after this: the tile instructions are opaque to the compiler.
inline void compiler_barrier(const void* p) { __asm__ volatile("" : : "r"(p) : "memory"); }

// Tiles 0 to 3: sums of the upper and lower 16 rows by the left and right 16 columns; 4, 5: rows; 6, 7:
// weights.
inline TileShape shape_for(int64_t rows) {
    TileShape shape;
    const int64_t upper = rows < 16 ? rows : 16, lower = rows - upper;
    for (int t = 0; t < 8; ++t) {
        const bool is_lower = t == 2 || t == 3 || t == 5;
        const int64_t height = t >= 6 ? 16 : is_lower ? lower : upper;
        shape.rows[t] = static_cast<uint8_t>(height);
        shape.row_bytes[t] = static_cast<uint16_t>(height ? 64 : 0);
    }
    return shape;
}

constexpr int64_t tile_rows = 32;

// Sums of a block of rows and one panel into `sums`. two: more than 16 rows, the upper 16 complete.
template <bool two, class Finish>
inline void tile_block(const uint8_t* x, int64_t stride, const int8_t* weights, const int32_t* negated,
                       int64_t inputs, uintptr_t prefetch, uintptr_t prefetch_step, int64_t per_step,
                       PendingBlock& pending, Finish& finish, int32_t* sums) {
    load_tile<0>(negated, 0);  // with a stride of 0, every row of the tile starts from the same sums
    load_tile<1>(negated + 16, 0);
    if constexpr (two) {
        load_tile<2>(negated, 0);
        load_tile<3>(negated + 16, 0);
    }
    for (int64_t k = 0; k < inputs; k += 64, weights += 64 * panel) {
        load_tile<4>(x + k, stride);
        load_tile<6>(weights, 128);
        multiply_tiles<0, 4, 6>();
        load_tile<7>(weights + 64, 128);
        multiply_tiles<1, 4, 7>();
        if constexpr (two) {
            load_tile<5>(x + 16 * stride + k, stride);
            multiply_tiles<2, 5, 6>();
            multiply_tiles<3, 5, 7>();
        }
        for (uintptr_t line = 0; line < prefetch_step; line += 64) {
            _mm_prefetch(reinterpret_cast<const char*>(prefetch + line), _MM_HINT_T1);
        }
        prefetch += prefetch_step;
        pending.finish_rows(per_step, finish);
    }
    pending.finish_rows(tile_rows, finish);
    store_tile<0>(sums, 4 * panel);
    store_tile<1>(sums + 16, 4 * panel);
    if constexpr (two) {
        store_tile<2>(sums + 16 * panel, 4 * panel);
        store_tile<3>(sums + 16 * panel + 16, 4 * panel);
    }
}

// See shared/int8_panels.inl. All blocks have one shape, so that tiles are configured once: the last block
// starts early enough to be complete, and rows that the previous block has finished are not finished again.
template <class Panels, class Finish>
void int8_panels(const QuantisedRows& x, int64_t rows, const Panels& w, Finish& finish) {
    if (rows < 1) return;
    const int64_t inputs = padded_inputs(w.inputs), panels = padded_outputs(w.outputs) / panel;
    const int64_t blocks = (rows + tile_rows - 1) / tile_rows, block = (rows + blocks - 1) / blocks;
    const int64_t steps = inputs / 64, per_step = (block + steps - 1) / steps;
    alignas(64) int32_t sums[2][tile_rows * panel];
    alignas(64) int32_t negated[panel];
    // Bytes that each step of a block prefetches from a later panel.
    const uintptr_t prefetch_step = static_cast<uintptr_t>((64 * panel / blocks + 63) / 64 * 64);
    const TileShape shape = shape_for(block);
    compiler_barrier(&shape);
    shape_tiles(shape);
    PendingBlock pending;
    int turn = 0;
    for (int64_t p = 0; p < panels; ++p) {
        const int8_t* weights = panel_of(w, inputs, p);
        for (int64_t i = 0; i < panel; i += 16) {
            _mm512_store_si512(negated + i, _mm512_sub_epi32(_mm512_setzero_si512(),
                                                             _mm512_load_si512(w.sums + p * panel + i)));
        }
        compiler_barrier(negated);
        for (int64_t b = 0; b < blocks; ++b) {
            const int64_t row = smaller(b * block, rows - block), finished = b * block - row;
            const uint8_t* from = x.values + row * x.stride;
            const uintptr_t prefetch = prefetch_address(w, panels * inputs * panel,
                                                        (p * inputs + inputs / blocks * b) * panel,
                                                        prefetch_distance);
            for (int64_t r = 0; r < block; ++r) finish.prepare(row + r, p);
            int32_t* to = sums[turn];
            if (block > 16)
                tile_block<true>(from, x.stride, weights, negated, inputs, prefetch, prefetch_step, per_step,
                                 pending, finish, to);
            else
                tile_block<false>(from, x.stride, weights, negated, inputs, prefetch, prefetch_step, per_step,
                                  pending, finish, to);
            compiler_barrier(to);
            pending = PendingBlock{to, finished, block, row, p};
            turn ^= 1;
        }
    }
    pending.finish_rows(tile_rows, finish);
    release_tiles();
}

#include "kernels/shared/int4_avx512.inl"
#include "kernels/shared/dots_avx512.inl"
#include "kernels/shared/table.inl"

#ifdef UWAGA_EMULATE
constexpr Kernels kernel_table = table(Isa::amx, "amx (emulated)");
#else
constexpr Kernels kernel_table = table(Isa::amx, "amx");
#endif

}  // namespace

#ifdef UWAGA_EMULATE
extern const Kernels emulated_amx_kernels;
const Kernels emulated_amx_kernels = kernel_table;
#else
extern const Kernels amx_kernels;
const Kernels amx_kernels = kernel_table;
#endif

}  // namespace uwaga
