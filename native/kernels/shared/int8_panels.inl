// The int8 product over panels and blocks of rows, for an instruction set that provides
//
//     struct Int8Block {
//         static constexpr int64_t rows;  // of the largest block
//         static void run(int64_t count,              // rows, from 1 to `rows`
//                         const uint8_t* x,           // the first row; rows are `stride` apart
//                         int64_t stride,
//                         const int8_t* weights,      // of one panel: [groups][32][4]
//                         const int32_t* correction,  // (32,): 128 * the sum of each column's weights
//                         int64_t groups,             // of 4 inputs
//                         uintptr_t prefetch,         // an address, not a pointer: may be outside the object
//                         int64_t prefetch_step,      // bytes to advance for each group
//                         int32_t* sums);             // (count, 32): the exact sums of (u8 - 128) * q
//     };
//
// and `constexpr uintptr_t prefetch_distance`, how many bytes before its use a weight is prefetched.
// Instruction sets that finish one block while they multiply the next, or that repack their rows, define an
// int8_panels of their own instead: avx2, avx512vnni, amx. Included inside an unnamed namespace.

#include "kernels/shared/prefetch.inl"

static_assert(
    is_same<decltype(&Int8Block::run), void (*)(int64_t, const uint8_t*, int64_t, const int8_t*,
                                                const int32_t*, int64_t, uintptr_t, int64_t, int32_t*)>);

// Call finish(row, panel index, the row's 32 exact sums of (u8 - 128) * q) for every row and panel; rows in
// their order within a panel. Panels are an Int8Matrix or UnpackedPanels, and panel_of is called once for
// each.
template <class Panels, class Finish>
void int8_panels(const QuantisedRows& x, int64_t rows, const Panels& w, Finish& finish) {
    const int64_t inputs = padded_inputs(w.inputs), panels = padded_outputs(w.outputs) / panel;
    const int64_t blocks = (rows + Int8Block::rows - 1) / Int8Block::rows;
    if (rows < 1) return;
    alignas(64) int32_t sums[Int8Block::rows * panel];
    for (int64_t p = 0; p < panels; ++p) {
        const int8_t* weights = panel_of(w, inputs, p);
        // Each block of rows prefetches its part of the panel that is `prefetch_distance` ahead.
        const int64_t size = panels * inputs * panel, part = inputs * panel / blocks;
        for (int64_t b = 0; b < blocks; ++b) {
            const int64_t first = rows * b / blocks, count = rows * (b + 1) / blocks - first;
            const uintptr_t prefetch = prefetch_address(w, size, p * inputs * panel + part * b,
                                                        prefetch_distance);
            for (int64_t r = 0; r < count; ++r) finish.prepare(first + r, p);
            Int8Block::run(count, x.values + first * x.stride, x.stride, weights, w.sums + p * panel,
                           inputs / 4, prefetch, 4 * panel / blocks, sums);
            for (int64_t r = 0; r < count; ++r) finish(first + r, p, sums + r * panel);
        }
    }
}
