// The tile instructions that amx.cpp needs. With UWAGA_EMULATE, plain C++ replaces them, for tests on
// processors without AMX. Included inside an unnamed namespace.

// The operand of `ldtilecfg` (Intel 64 manual, volume 1, section 18.3).
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
// The intrinsics require literal tile numbers; gcc pastes them into assembly.
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
