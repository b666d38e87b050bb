// Weights in the kernels' format: packed from floats, or taken from a file with every number checked.
#pragma once

#include <memory>
#include <vector>

#include "binding/arrays.h"
#include "network/matrix.h"

namespace uwaga {

// Memory for weights: packed side by side on huge pages, in the order of packing. With pages of its own, a
// matrix of 2.1 MB would take 4.
class WeightArena {
  public:
    WeightArena() = default;
    WeightArena(const WeightArena&) = delete;
    WeightArena& operator=(const WeightArena&) = delete;
    void* take(int64_t bytes);

  private:
    struct Slab {
        Buffer<uint8_t> memory;
        int64_t used = 0;  // bytes, from the start
    };

    std::vector<Slab> slabs_;
};
using WeightArenaPtr = std::shared_ptr<WeightArena>;

nb::object unwritten_bytes(const WeightArenaPtr& arena, int64_t size);

// A packed matrix and the arrays that contain it.
struct Packed {
    Matrix matrix;
    nb::object panels, scales, sums;
};

// spread: the weights are spread, if their inputs can be (kernels/kernels.h).
Packed int8_matrix(int64_t outputs, int64_t inputs, int levels, Array<int8_t> panels, Array<float> scales,
                   Array<int32_t> sums, bool spread);
Packed int4_matrix(int64_t outputs, int64_t inputs, Array<uint8_t> panels, Array<float> scales,
                   Array<int32_t> sums);
Packed bfloat16_matrix(int64_t outputs, int64_t inputs, Array<uint16_t> panels);
Packed float_matrix(int64_t outputs, int64_t inputs, Array<float> panels);

// Packed into the arena if there is one, otherwise into memory of their own.
nb::tuple packed_int8(Shaped<float, 2> w, int levels, const WeightArenaPtr& arena, bool spread);  // panels,
                                                                                                  // scales,
                                                                                                  // sums
// Outputs without given rows are zero.
nb::tuple packed_int8_numbers(Shaped<int8_t, 2> w, Shaped<float, 1> row_scales, int64_t outputs,
                              const WeightArenaPtr& arena);
nb::tuple packed_int4(Shaped<float, 2> w, const WeightArenaPtr& arena);  // panels, scales, sums
nb::object packed_bfloat16(Shaped<float, 2> w, const WeightArenaPtr& arena);
nb::object packed_float(Shaped<float, 2> w, const WeightArenaPtr& arena);

}  // namespace uwaga
