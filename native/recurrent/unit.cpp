#include "recurrent/unit.h"

namespace uwaga {

void project(const Network& net, const Linear& linear, const float* x, int64_t rows, int64_t stride,
             Activation activation, const FloatRows& y, Workspace& ws) {
    Rows in = rows_of(ws, x, rows, linear.weight.inputs(), stride);
    Epilogue e;
    e.bias = linear.bias;
    e.activation = activation;
    product(*net.kernels, in, linear.weight, e, y.data, y.stride);
}

namespace {

void advance_gru(const Network& net, const Unit& unit, const FloatRows& projected, const float* before,
                 int64_t before_stride, const FloatRows& after, int64_t rows, const FloatRows& states,
                 Workspace& ws) {
    const Kernels& kernels = *net.kernels;
    const int64_t units = unit.units, stride = stride_of(units);
    const bool paper = static_cast<bool>(unit.candidate.weight);
    const FloatRows gated{ws.context.ensure(rows * stride), stride};
    for (int64_t row = 0; row < rows; ++row) {
        const float *p = projected.row(row), *s = states.row(row);
        kernels.gate(p, s, paper ? before + row * before_stride : s + 2 * units, units, gated.row(row));
    }
    FloatRows candidate = gated;
    if (paper) {
        candidate.data = ws.hidden.ensure(rows * stride);
        project(net, unit.candidate, gated.data, rows, stride, Activation::none, candidate, ws);
    }
    for (int64_t row = 0; row < rows; ++row) {
        const float* p = projected.row(row);
        kernels.gru(p + units, states.row(row) + units, p + 2 * units, candidate.row(row),
                    before + row * before_stride, units, after.row(row));
    }
}

}  // namespace

void advance(const Network& net, const Unit& unit, const FloatRows& projected, const float* before,
             int64_t before_stride, const FloatRows& after, int64_t rows, Workspace& ws) {
    const int64_t units = unit.units, stride = stride_of(unit.states.weight.outputs());
    const FloatRows states{ws.gate.ensure(rows * stride), stride};
    project(net, unit.states, before, rows, before_stride, Activation::none, states, ws);
    if (!unit.lstm) return advance_gru(net, unit, projected, before, before_stride, after, rows, states, ws);
    for (int64_t row = 0; row < rows; ++row) {
        float* to = after.row(row);
        net.kernels->lstm(projected.row(row), states.row(row), before + row * before_stride + units, units,
                          to + units, to);
    }
}

}  // namespace uwaga
