// AMX-INT8: blocks of 32 rows and 32 columns in four tiles; the previous block is finished (scaled, added to, stored
// or searched) between the tile products of the next. With UWAGA_EMULATE plain C++ stands in for the tiles, for tests
// on processors without them.
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/shared/intrinsics.h"
#include "kernels/shared/unroll.h"

namespace uwaga {
namespace {

#include "kernels/vec/avx512.inl"
#include "kernels/shared/float.inl"
#include "kernels/shared/attention.inl"
#include "kernels/shared/pending_block.inl"
#include "kernels/shared/prefetch.inl"

constexpr int float_rows = 8;
constexpr uintptr_t prefetch_distance = 96 * 1024;

// What `ldtilecfg` reads (Intel 64 manual, volume 1, section 18.3).
struct TileShape {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {};
    uint8_t rows[16] = {};
};
static_assert(sizeof(TileShape) == 64, "the layout is the processor's");

#ifdef UWAGA_EMULATE
struct Tiles {
    TileShape shape;
    uint8_t bytes[8][16][64];
};
thread_local Tiles tiles;

inline void shape_tiles(const TileShape& shape) {
    tiles.shape = shape;
    memset(tiles.bytes, 0, sizeof tiles.bytes);
}
inline void release_tiles() { tiles = Tiles{}; }
template <int t>
inline void load_tile(const void* from, int64_t stride) {
    memset(tiles.bytes[t], 0, sizeof tiles.bytes[t]);
    for (int r = 0; r < tiles.shape.rows[t]; ++r) {
        memcpy(tiles.bytes[t][r], static_cast<const char*>(from) + r * stride, tiles.shape.row_bytes[t]);
    }
}
template <int t>
inline void store_tile(void* to, int64_t stride) {
    for (int r = 0; r < tiles.shape.rows[t]; ++r) {
        memcpy(static_cast<char*>(to) + r * stride, tiles.bytes[t][r], tiles.shape.row_bytes[t]);
    }
}
// c += a b: a (rows, 16 groups, 4) of u8, b (16 groups, columns, 4) of i8.
template <int c, int a, int b>
inline void multiply_tiles() {
    for (int r = 0; r < tiles.shape.rows[c]; ++r) {
        int32_t sums[16];
        memcpy(sums, tiles.bytes[c][r], sizeof sums);
        for (int g = 0; g < tiles.shape.row_bytes[a] / 4; ++g) {
            int8_t w[64];
            memcpy(w, tiles.bytes[b][g], sizeof w);
            for (int n = 0; n < tiles.shape.row_bytes[c] / 4; ++n) {
                for (int i = 0; i < 4; ++i) sums[n] += tiles.bytes[a][r][4 * g + i] * w[4 * n + i];
            }
        }
        memcpy(tiles.bytes[c][r], sums, sizeof sums);
    }
}
#else
inline void shape_tiles(const TileShape& shape) { _tile_loadconfig(&shape); }
inline void release_tiles() { _tile_release(); }
// The intrinsics want literals for tiles and, with gcc, paste them into assembly.
template <int t>
inline void load_tile(const void* from, int64_t stride) {
    if constexpr (t == 0) _tile_loadd(0, from, stride);
    else if constexpr (t == 1) _tile_loadd(1, from, stride);
    else if constexpr (t == 2) _tile_loadd(2, from, stride);
    else if constexpr (t == 3) _tile_loadd(3, from, stride);
    else if constexpr (t == 4) _tile_loadd(4, from, stride);
    else if constexpr (t == 5) _tile_loadd(5, from, stride);
    else if constexpr (t == 6) _tile_loadd(6, from, stride);
    else _tile_loadd(7, from, stride);
}
template <int t>
inline void store_tile(void* to, int64_t stride) {
    static_assert(t < 4, "sums are in the first four tiles");
    if constexpr (t == 0) _tile_stored(0, to, stride);
    else if constexpr (t == 1) _tile_stored(1, to, stride);
    else if constexpr (t == 2) _tile_stored(2, to, stride);
    else _tile_stored(3, to, stride);
}
template <int c, int a, int b>
inline void multiply_tiles() {
    static_assert(a == 4 + c / 2 && b == 6 + c % 2, "sums are two by two");
    if constexpr (c == 0) _tile_dpbusd(0, 4, 6);
    else if constexpr (c == 1) _tile_dpbusd(1, 4, 7);
    else if constexpr (c == 2) _tile_dpbusd(2, 5, 6);
    else _tile_dpbusd(3, 5, 7);
}
#endif

// What `p` points to is in memory before and after: the tile instructions are opaque to the compiler.
inline void settle(const void* p) { __asm__ volatile("" : : "r"(p) : "memory"); }

// Tiles 0 to 3: sums of the upper and lower 16 rows and the left and right 16 columns; 4, 5: rows; 6, 7: weights.
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

// Sums of `rows` (at most 32, the upper 16 whole if there are lower ones) and one panel into `sums`.
template <bool two, class Finish>
inline void tile_block(const uint8_t* x, int64_t stride, const int8_t* weights, const int32_t* negated, int64_t inputs,
                       uintptr_t ahead, uintptr_t ahead_step, int64_t per_step, Waiting& waiting, Finish& finish, int32_t* sums) {
    load_tile<0>(negated, 0);  // a stride of 0: every row of the tile starts from the same sums
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
        for (uintptr_t line = 0; line < ahead_step; line += 64) {
            _mm_prefetch(reinterpret_cast<const char*>(ahead + line), _MM_HINT_T1);
        }
        ahead += ahead_step;
        waiting.some(per_step, finish);
    }
    waiting.some(tile_rows, finish);
    store_tile<0>(sums, 4 * panel);
    store_tile<1>(sums + 16, 4 * panel);
    if constexpr (two) {
        store_tile<2>(sums + 16 * panel, 4 * panel);
        store_tile<3>(sums + 16 * panel + 16, 4 * panel);
    }
}

// Same meaning as in int8_panels.inl. All blocks have one shape, so that the tiles are shaped once; the last block
// starts early enough to be whole, and rows that the block before it has finished are not finished again.
template <class Finish>
void int8_panels(const QuantisedRows& x, int64_t rows, const Int8Matrix& w, Finish& finish) {
    if (rows < 1) return;
    const int64_t inputs = padded_inputs(w.inputs), panels = padded_outputs(w.outputs) / panel;
    const int64_t blocks = (rows + tile_rows - 1) / tile_rows, block = (rows + blocks - 1) / blocks;
    const int64_t steps = inputs / 64, per_step = (block + steps - 1) / steps;
    alignas(64) int32_t sums[2][tile_rows * panel];
    alignas(64) int32_t negated[panel];
    // What each step of each block asks for of the panel that lies ahead.
    const uintptr_t ahead_step = static_cast<uintptr_t>((64 * panel / blocks + 63) / 64 * 64);
    const TileShape shape = shape_for(block);
    settle(&shape);
    shape_tiles(shape);
    Waiting waiting;
    int turn = 0;
    for (int64_t p = 0; p < panels; ++p) {
        const int8_t* weights = w.panels + p * inputs * panel;
        for (int64_t i = 0; i < panel; i += 16) {
            _mm512_store_si512(negated + i, _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_load_si512(w.sums + p * panel + i)));
        }
        settle(negated);
        for (int64_t b = 0; b < blocks; ++b) {
            const int64_t row = smaller(b * block, rows - block), finished = b * block - row;
            const uint8_t* from = x.values + row * x.stride;
            const uintptr_t ahead = read_ahead(w, panels * inputs * panel, (p * inputs + inputs / blocks * b) * panel, prefetch_distance);
            for (int64_t r = 0; r < block; ++r) finish.prepare(row + r, p);
            int32_t* to = sums[turn];
            if (block > 16) tile_block<true>(from, x.stride, weights, negated, inputs, ahead, ahead_step, per_step, waiting, finish, to);
            else tile_block<false>(from, x.stride, weights, negated, inputs, ahead, ahead_step, per_step, waiting, finish, to);
            settle(to);
            waiting = Waiting{to, finished, block, row, p};
            turn ^= 1;
        }
    }
    waiting.some(tile_rows, finish);
    release_tiles();
}

#include "kernels/shared/product.inl"

#ifdef UWAGA_EMULATE
constexpr Kernels made = table(Isa::amx, "amx (emulated)");
#else
constexpr Kernels made = table(Isa::amx, "amx");
#endif

}  // namespace

#ifdef UWAGA_EMULATE
extern const Kernels emulated_amx_kernels;
const Kernels emulated_amx_kernels = made;
#else
extern const Kernels amx_kernels;
const Kernels amx_kernels = made;
#endif

}  // namespace uwaga
