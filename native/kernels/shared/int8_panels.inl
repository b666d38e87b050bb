// Int8 product over panels by blocks of rows, for every instruction set whose block is Int8Block (AVX512-VNNI and AMX
// have their own). Included inside an unnamed namespace.

#include "kernels/shared/prefetch.inl"

// finish(row, panel index, the row's 32 exact sums of (u8 - 128) * q) for every row and panel.
template <class Finish>
void int8_panels(const QuantisedRows& x, int64_t rows, const Int8Matrix& w, Finish& finish) {
    const int64_t inputs = padded_inputs(w.inputs), panels = padded_outputs(w.outputs) / panel;
    const int64_t blocks = (rows + Int8Block::rows - 1) / Int8Block::rows;
    if (rows < 1) return;
    alignas(64) int32_t sums[Int8Block::rows * panel];
    for (int64_t p = 0; p < panels; ++p) {
        const int8_t* weights = w.panels + p * inputs * panel;
        // Each block of rows asks for its share of the panel that lies `prefetch_distance` ahead.
        const int64_t size = panels * inputs * panel, share = inputs * panel / blocks;
        for (int64_t b = 0; b < blocks; ++b) {
            const int64_t first = rows * b / blocks, count = rows * (b + 1) / blocks - first;
            const uintptr_t ahead = read_ahead(w, size, p * inputs * panel + share * b, prefetch_distance);
            for (int64_t r = 0; r < count; ++r) finish.prepare(first + r, p);
            Int8Block::run(count, x.values + first * x.stride, x.stride, weights, w.sums + p * panel, inputs / 4,
                           ahead, 4 * panel / blocks, sums);
            for (int64_t r = 0; r < count; ++r) finish(first + r, p, sums + r * panel);
        }
    }
}
