// Applies an Epilogue to a row's 32 results and stores them. Included inside an unnamed namespace.

constexpr int parts = static_cast<int>(panel) / lanes;  // vectors per 32 columns

struct ProductFinish {
    const Epilogue& e;
    float* y;
    int64_t y_stride, outputs;

    // Prefetch the destination of a row while it is computed: a store that misses the cache delays the
    // others.
    void prepare(int64_t row, int64_t p) const {
        const float* to = y + row * y_stride + p * panel;
        __builtin_prefetch(to, 1);
        __builtin_prefetch(to + panel / 2, 1);
        __builtin_prefetch(to + panel - 1, 1);
    }

    UWAGA_INLINE void operator()(int64_t row, int64_t p, Vec (&v)[parts]) const {
#if !defined(__wasm__)  // a page loads each copy
        // A call between products saves and restores all of their sums.
        const int64_t column = p * panel;
        if (column + panel <= outputs && !e.gate && e.activation <= Activation::relu) {
            float* to = y + row * y_stride + column;
            const float* residual = e.residual ? e.residual + row * e.residual_stride + column : nullptr;
            UWAGA_UNROLL
            for (int i = 0; i < parts; ++i) {
                const int offset = i * lanes;
                Vec r = v[i];
                if (e.bias) r = r + load(e.bias + column + offset);
                if (e.activation == Activation::relu) r = max(set(0.0f), r);
                if (residual) r = r + load(residual + offset);
                store(to + offset, r);
            }
            return;
        }
#endif
        finish_any(row, p, v);
    }

    UWAGA_NOINLINE void finish_any(int64_t row, int64_t p, const Vec (&v)[parts]) const {
        const int64_t column = p * panel;
        float* to = y + row * y_stride + column;
        const float* gate = e.gate ? e.gate + row * e.gate_stride + column : nullptr;
        const float* residual = e.residual ? e.residual + row * e.residual_stride + column : nullptr;
        const float* bias = e.bias ? e.bias + column : nullptr;
        if (column + panel <= outputs) {
            UWAGA_UNROLL
            for (int i = 0; i < parts; ++i) {
                const int offset = i * lanes;
                Vec r = v[i];
                if (bias) r = r + load(bias + offset);
                if (e.activation != Activation::none) r = activate(e.activation, r);
                if (gate) r = r * load(gate + offset);
                if (residual) r = r + load(residual + offset);
                store(to + offset, r);
            }
            return;
        }
        UWAGA_UNROLL
        for (int i = 0; i < parts; ++i) {
            const int64_t offset = i * lanes, n = smaller(lanes, outputs - column - offset);
            if (n <= 0) break;
            Vec r = v[i];
            if (bias) r = r + load_part(bias + offset, n);
            if (e.activation != Activation::none) r = activate(e.activation, r);
            if (gate) r = r * load_part(gate + offset, n);
            if (residual) r = r + load_part(residual + offset, n);
            store_part(to + offset, r, n);
        }
    }
};
