// Two tables of kernels with the same bits: all that they write, over random rows and weights.
#include "packed.h"
#include "tests.h"

namespace uwaga {

namespace {

constexpr int64_t rows = 7;

template <class T>
void check_equal(const Aligned<T>& actual, const Aligned<T>& expected, const char* name, int64_t size) {
    CHECK(std::memcmp(actual.get(), expected.get(), static_cast<size_t>(actual.size) * sizeof(T)) == 0,
          "%s of size %lld", name, static_cast<long long>(size));
}

// `fill` writes the results of a table of kernels into new memory of `size` values.
template <class T, class F>
void compare(const Kernels& kernels, const Kernels& reference, const char* name, int64_t size, F fill) {
    Aligned<T> actual(size), expected(size);
    fill(kernels, actual.get());
    fill(reference, expected.get());
    check_equal(actual, expected, name, size);
}

void compare_products(const Kernels& kernels, const Kernels& reference, int64_t outputs, int64_t inputs) {
    Random random(static_cast<uint64_t>(outputs * 1000 + inputs));
    const Floats w = normals(random, outputs * inputs), x = normals(random, rows * inputs),
                 bias = normals(random, outputs), operand = normals(random, rows * outputs);
    const PackedInt8 int8(w.get(), outputs, inputs, 127);
    const PackedFloats floats(w.get(), outputs, inputs);
    const PackedBfloat16 bfloat16s(w.get(), outputs, inputs);
    for (const Activation activation : {Activation::none, Activation::relu, Activation::gelu,
                                        Activation::gelu_tanh, Activation::silu, Activation::tanh}) {
        Epilogue e;
        e.bias = bias.get();
        e.activation = activation;
        e.gate = e.residual = operand.get();
        e.gate_stride = e.residual_stride = outputs;
        compare<float>(kernels, reference, "int8 product", rows * outputs, [&](const Kernels& k, float* y) {
            k.int8_product(Quantised(k, x.get(), rows, inputs, inputs).rows(), rows, int8.matrix(), e, y,
                           outputs);
        });
        compare<float>(kernels, reference, "float product", rows * outputs, [&](const Kernels& k, float* y) {
            k.float_product(x.get(), rows, inputs, floats.matrix(), e, y, outputs);
        });
        compare<float>(kernels, reference, "bfloat16 product", rows * outputs,
                       [&](const Kernels& k, float* y) {
                           k.bfloat16_product(x.get(), rows, inputs, bfloat16s.matrix(), e, y, outputs);
                       });
    }
    const auto output = [&](const char* name, auto run) {
        compare<float>(kernels, reference, name, rows * (outputs + 2), [&](const Kernels& k, float* y) {
            std::vector<OutputRow> output_rows(static_cast<size_t>(rows));
            std::vector<Candidate> best(output_rows.size());
            for (size_t r = 0; r < output_rows.size(); ++r)
                output_rows[r].best = &best[r], output_rows[r].logits = y + static_cast<int64_t>(r) * outputs;
            run(k, output_rows.data());
            for (size_t r = 0; r < output_rows.size(); ++r) {
                y[rows * outputs + 2 * static_cast<int64_t>(r)] = output_rows[r].maximum +
                                                                  static_cast<float>(best[r].token);
                y[rows * outputs + 2 * static_cast<int64_t>(r) + 1] = output_rows[r].sum;
            }
        });
    };
    output("int8 output", [&](const Kernels& k, OutputRow* out) {
        k.int8_output(Quantised(k, x.get(), rows, inputs, inputs).rows(), rows, int8.matrix(), {bias.get()},
                      out);
    });
    output("float output", [&](const Kernels& k, OutputRow* out) {
        k.float_output(x.get(), rows, inputs, floats.matrix(), {bias.get()}, out);
    });
    output("bfloat16 output", [&](const Kernels& k, OutputRow* out) {
        k.bfloat16_output(x.get(), rows, inputs, bfloat16s.matrix(), {bias.get()}, out);
    });
}

void compare_rows(const Kernels& kernels, const Kernels& reference, int64_t width) {
    Random random(static_cast<uint64_t>(width));
    const Floats x = normals(random, rows * width, 3.0f), gain = normals(random, width),
                 bias = normals(random, width);
    compare<uint8_t>(kernels, reference, "quantised rows", rows * (padded_inputs(width) + 64),
                     [&](const Kernels& k, uint8_t* y) {
                         const Quantised q(k, x.get(), rows, width, width);
                         std::memcpy(y, q.values.get(), static_cast<size_t>(q.values.size));
                     });
    compare<uint16_t>(kernels, reference, "float16", rows * width,
                      [&](const Kernels& k, uint16_t* y) { k.to_float16(x.get(), rows * width, y); });
    for (const bool rms : {false, true}) {
        compare<float>(kernels, reference, "norm", rows * width, [&](const Kernels& k, float* y) {
            k.norm(x.get(), rows, width, width, gain.get(), rms ? nullptr : bias.get(), 1e-5f, rms, y, width);
        });
    }
    compare<float>(kernels, reference, "recurrent unit", 2 * width, [&](const Kernels& k, float* y) {
        k.ssru(x.get(), gain.get(), bias.get(), x.get() + (rows - 1) * width, width, y, y + width);
    });
    compare<float>(kernels, reference, "gated units", 4 * width, [&](const Kernels& k, float* y) {
        k.gate(x.get(), gain.get(), bias.get(), width, y);
        k.gru(x.get(), gain.get(), x.get() + width, y, bias.get(), width, y + width);
        k.lstm(x.get(), x.get() + width, bias.get(), width, y + 2 * width, y + 3 * width);
    });
    compare<float>(kernels, reference, "recurrent attention", 2 * rows + 2 * width + 20,
                   [&](const Kernels& k, float* y) {
                       int64_t window[2];
                       k.score_dot(gain.get(), x.get(), width, rows, width, 0.3f, y);
                       k.score_additive(gain.get(), bias.get(), x.get(), width, rows, width, y + rows);
                       k.predict_window(gain.get(), bias.get(), width, 20, 3, window,
                                        y + 2 * rows + 2 * width);
                       k.weigh_values(y, nullptr, x.get(), width, rows, width, y + 2 * rows);
                       k.weigh_values(y + rows, y + 2 * rows + 2 * width, x.get(), width, rows, width,
                                      y + 2 * rows + width);
                   });
}

void compare_attention(const Kernels& kernels, const Kernels& reference, int64_t head_width, int64_t length) {
    constexpr int64_t heads = 3;
    Random random(static_cast<uint64_t>(100 * head_width + length));
    const int64_t inner = heads * head_width;
    const Floats query = normals(random, inner, 2.0f), keys = normals(random, length * inner),
                 values = normals(random, length * inner), bias = normals(random, heads * length);
    Aligned<uint16_t> half_keys(keys.size), half_values(values.size);
    kernels.to_float16(keys.get(), keys.size, half_keys.get());
    kernels.to_float16(values.get(), values.size, half_values.get());
    std::vector<int64_t> offsets;
    for (int64_t t = 0; t < length; ++t) offsets.push_back(t * inner);
    const auto attention_to = [&](float* y) {
        CachedAttention a;
        a.query = query.get();
        a.offsets = offsets.data();
        a.length = length;
        a.heads = heads;
        a.head_width = a.head_stride = head_width;
        a.scale = 0.3f;
        a.weights = y + inner;
        a.context = y;
        return a;
    };
    compare<float>(kernels, reference, "attention", inner + heads * length, [&](const Kernels& k, float* y) {
        CachedAttention a = attention_to(y);
        a.bias = bias.get();
        k.attend_float(a, keys.get(), values.get());
    });
    compare<float>(kernels, reference, "attention in float16", inner + heads * length,
                   [&](const Kernels& k, float* y) {
                       k.attend_float16(attention_to(y), half_keys.get(), half_values.get());
                   });
    compare<float>(kernels, reference, "self-attention", length * inner, [&](const Kernels& k, float* y) {
        Floats scratch((head_width + queries_at_once) * padded_keys(length));
        SelfAttention attention;
        attention.queries = attention.keys = keys.get();
        attention.values = values.get();
        attention.stride = attention.context_stride = inner;
        attention.length = attention.last = length;
        attention.head_width = head_width;
        attention.scale = 0.3f;
        attention.scratch = scratch.get();
        attention.context = y;
        k.self_attend(attention);
    });
}

}  // namespace

void test_same_bits(const Kernels& kernels, const Kernels& reference) {
    const int64_t sizes[][2] = {{1, 1}, {33, 65}, {70, 200}, {128, 512}};
    for (const auto& size : sizes) compare_products(kernels, reference, size[0], size[1]);
    for (const int64_t width : {1, 7, 16, 40, 515}) compare_rows(kernels, reference, width);
    const int64_t shapes[][2] = {{64, 1}, {64, 37}, {20, 50}, {7, 9}};
    for (const auto& shape : shapes) compare_attention(kernels, reference, shape[0], shape[1]);
}

}  // namespace uwaga
