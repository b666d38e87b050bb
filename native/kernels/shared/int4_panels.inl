// The int4 product: the exact sums of the int8 product with the same numbers. Up to Int4Block::rows rows are
// multiplied by the 4-bit numbers, which are read once, at the speed of memory; more rows by panels that are
// unpacked to int8 and stay in the cache. For an instruction set that provides int8_panels and
//
//     struct Int4Block {
//         static constexpr int64_t rows;  // at most; 0: panels are always unpacked, and `run` does not exist
//         static void run(int64_t count, const SignedRows& x, const uint8_t* weights, int64_t groups,
//                         uintptr_t prefetch, int32_t* sums);
//     };
//
// which writes the exact sums (count, 32) of a panel, and
//
//     void unpack(const uint8_t* from, int64_t groups, int8_t* to);
//
// which writes panels, or a part of the inputs of one, as int8. Included inside an unnamed namespace.

static_assert(Int4Block::rows <= SignedRows::max_rows);
constexpr int64_t unpacked_size = 64 * 1024;  // bytes of an unpacked panel, or a piece of one
constexpr int64_t unpacked_rows = 64;         // multiplied by a panel that is unpacked piece by piece

// The panels of an int4 matrix as those of int8, each unpacked when its turn comes.
struct UnpackedPanels {
    const Int4Matrix& packed;
    const int32_t* sums;
    int64_t outputs, inputs;
    int8_t* scratch;  // for a panel
};
inline const int8_t* panel_of(const UnpackedPanels& w, int64_t inputs, int64_t p) {
    const int64_t groups = inputs / int4_inputs;
    unpack(w.packed.panels + p * groups * int4_group, groups, w.scratch);
    return w.scratch;
}
inline uintptr_t prefetch_address(const UnpackedPanels& w, int64_t size, int64_t byte, uintptr_t distance) {
    constexpr int64_t group_size = int4_inputs * panel;
    return prefetch_address(w.packed, size / group_size * int4_group, byte / group_size * int4_group,
                            distance);
}

struct AddToTotals {
    int32_t* totals;

    void prepare(int64_t, int64_t) const {}
    void operator()(int64_t row, int64_t, const int32_t* sums) const {
        for (int64_t c = 0; c < panel; ++c) totals[row * panel + c] += sums[c];
    }
};

template <class Finish>
void unpacked_panels(const QuantisedRows& x, int64_t rows, const Int4Matrix& w, Finish& finish) {
    const int64_t inputs = padded_inputs(w.inputs), panels = padded_outputs(w.outputs) / panel,
                  groups = inputs / int4_inputs;
    alignas(64) int8_t scratch[unpacked_size];
    if (inputs * panel <= unpacked_size)
        return int8_panels(x, rows, UnpackedPanels{w, w.sums, w.outputs, inputs, scratch}, finish);
    // Panels that do not fit: piece by piece of their inputs. The correction belongs to the first piece.
    alignas(64) const int32_t zeros[panel] = {};
    alignas(64) int32_t totals[unpacked_rows * panel];
    constexpr int64_t piece = unpacked_size / panel;
    for (int64_t row = 0; row < rows; row += unpacked_rows) {
        const int64_t count = smaller(unpacked_rows, rows - row);
        for (int64_t p = 0; p < panels; ++p) {
            memset(totals, 0, sizeof totals);
            AddToTotals add{totals};
            for (int64_t k = 0; k < inputs; k += piece) {
                const int64_t depth = smaller(piece, inputs - k);
                unpack(w.panels + (p * groups + k / int4_inputs) * int4_group, depth / int4_inputs, scratch);
                const QuantisedRows block_rows{x.values + row * x.stride + k, x.scales + row, x.stride};
                int8_panels(block_rows, count,
                            Int8Matrix{scratch, w.scales + p * panel, k ? zeros : w.sums + p * panel, panel,
                                       depth},
                            add);
            }
            for (int64_t r = 0; r < count; ++r) {
                finish.prepare(row + r, p);
                finish(row + r, p, totals + r * panel);
            }
        }
    }
}

template <class Block, class Finish>
void direct_rows(const QuantisedRows& x, int64_t rows, const Int4Matrix& w, Finish& finish) {
    const int64_t inputs = padded_inputs(w.inputs), panels = padded_outputs(w.outputs) / panel,
                  groups = inputs / int4_inputs;
    SignedRows signed_rows;
    signed_rows.fill(x, rows, inputs);
    alignas(64) int32_t sums[Block::rows * panel];
    for (int64_t p = 0; p < panels; ++p) {
        const int64_t offset = p * groups * int4_group;
        for (int64_t r = 0; r < rows; ++r) finish.prepare(r, p);
        Block::run(rows, signed_rows, w.panels + offset, groups,
                   prefetch_address(w, panels * groups * int4_group, offset, prefetch_distance), sums);
        for (int64_t r = 0; r < rows; ++r) finish(r, p, sums + r * panel);
    }
}

// Call finish(row, panel index, the row's 32 exact sums of (u8 - 128) * the int8 number) for every row and
// panel.
template <class Finish>
void int4_panels(const QuantisedRows& x, int64_t rows, const Int4Matrix& w, Finish& finish) {
    if constexpr (Int4Block::rows > 0) {
        if (rows <= Int4Block::rows && padded_inputs(w.inputs) <= SignedRows::max_inputs)
            return direct_rows<Int4Block>(x, rows, w, finish);
    }
    unpacked_panels(x, rows, w, finish);
}
