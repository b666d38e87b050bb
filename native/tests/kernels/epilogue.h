// The epilogue of a product computed in double, and operands for it.
#pragma once

#include "check.h"

namespace uwaga {

inline double activate(Activation a, double x) {
    switch (a) {
        case Activation::relu: return x > 0 ? x : 0;
        case Activation::gelu: return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
        case Activation::gelu_tanh:
            return 0.5 * x *
                   (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
        case Activation::silu: return x / (1 + std::exp(-x));
        case Activation::tanh: return std::tanh(x);
        case Activation::none: break;
    }
    return x;
}

struct Operands {  // operands of an epilogue
    Floats bias, gate, residual;
    Epilogue epilogue(int variant, int64_t n) const {
        Epilogue e;
        e.activation = static_cast<Activation>(variant % 6);
        if (variant & 1) e.bias = bias.get();
        if (variant & 2) e.gate = gate.get(), e.gate_stride = n + 1;
        if (variant & 4) e.residual = residual.get(), e.residual_stride = n + 2;
        return e;
    }
};

inline double finished(const Epilogue& e, int64_t r, int64_t n, double v) {
    if (e.bias) v += e.bias[n];
    v = activate(e.activation, v);
    if (e.gate) v *= e.gate[r * e.gate_stride + n];
    if (e.residual) v += e.residual[r * e.residual_stride + n];
    return v;
}

}  // namespace uwaga
