// One time step of a recurrent layer for several rows.
#pragma once

#include "recurrent/network.h"

namespace uwaga {

// Rows of float32 values, `stride` apart. Row i is row indices[i], or i.
struct FloatRows {
    float* data;
    int64_t stride;
    const int64_t* indices = nullptr;

    float* row(int64_t i) const { return data + (indices ? indices[i] : i) * stride; }
};

// y = activation(x W^T + bias)
void project(const Network& net, const Linear& linear, const float* x, int64_t rows, int64_t stride,
             Activation activation, const FloatRows& y, Workspace& ws);
// The next state of each row, from the projected inputs (rows, gates), which may be overwritten. States may
// be advanced in place. Uses ws.gate, ws.context and ws.hidden.
void advance(const Network& net, const Unit& unit, const FloatRows& projected, const float* before,
             int64_t before_stride, const FloatRows& after, int64_t rows, Workspace& ws);

}  // namespace uwaga
