// Weights in the kernels' format: packed from floats, or taken as a file holds them, every number checked.
#pragma once

#include "binding/arrays.h"
#include "transformer/matrix.h"

namespace uwaga {

// A packed matrix and the arrays that it lies in.
struct Packed {
    Matrix matrix;
    nb::object panels, scales, sums;
};

Packed int8_matrix(int64_t outputs, int64_t inputs, int levels, Array<int8_t> panels, Array<float> scales, Array<int32_t> sums);
Packed bfloat16_matrix(int64_t outputs, int64_t inputs, Array<uint16_t> panels);
Packed float_matrix(int64_t outputs, int64_t inputs, Array<float> panels);

nb::tuple packed_int8(Shaped<float, 2> w, int levels);  // panels, scales, sums
nb::tuple packed_int8_numbers(Shaped<int8_t, 2> w, Shaped<float, 1> given, int64_t outputs);  // those not given are zero
nb::object packed_bfloat16(Shaped<float, 2> w);
nb::object packed_float(Shaped<float, 2> w);

}  // namespace uwaga
