// Logits of a subset of tokens: equal to those of whole products, and independent of the other tokens.
#include "packed.h"
#include "tests.h"

namespace uwaga {

namespace {

// (tokens, padded) from panels; `together` numbers of a token are adjacent.
template <class T>
Aligned<T> by_token(const T* panels, int64_t tokens, int64_t padded, int64_t group) {
    Aligned<T> result(tokens * padded);
    for (int64_t n = 0; n < tokens; ++n) {
        for (int64_t k = 0; k < padded; ++k) {
            result[n * padded + k] = panels[n / panel * panel * padded + k / group * group * panel +
                                            n % panel * group + k % group];
        }
    }
    return result;
}

}  // namespace

void test_listed(const Kernels& kernels) {
    Random random(13);
    const int64_t sizes[][2] = {{100, 64}, {50, 7}, {333, 100}, {64, 257}, {70, 512}};
    for (const auto& size : sizes) {
        const int64_t vocabulary = size[0], inputs = size[1], rows = 5,
                      stride = padded_outputs(vocabulary) + 16, half = (inputs + 1) / 2;
        Floats w = normals(random, vocabulary * inputs), x = normals(random, rows * inputs),
               bias = normals(random, padded_outputs(vocabulary));
        Floats split(rows * 2 * half);
        for (int64_t i = 0; i < split.size; ++i) split[i] = 0;
        for (int64_t r = 0; r < rows; ++r) {
            for (int64_t k = 0; k < inputs; ++k)
                split[r * 2 * half + k % 2 * half + k / 2] = x[r * inputs + k];
        }
        const PackedInt8 int8(w.get(), vocabulary, inputs, 127);
        const PackedFloats float32(w.get(), vocabulary, inputs);
        const PackedBfloat16 bfloat16(w.get(), vocabulary, inputs);
        const Aligned<int8_t> int8_rows = by_token(int8.panels.get(), vocabulary, padded_inputs(inputs), 4);
        const Aligned<float> float_rows = by_token(float32.panels.get(), vocabulary, inputs, 1);
        const Aligned<uint16_t> bfloat16_rows = by_token(bfloat16.panels.get(), vocabulary, 2 * half, 2);
        const Quantised q(kernels, x.get(), rows, inputs, inputs);
        for (int turn = 0; turn < 6; ++turn) {
            std::vector<int32_t> tokens;
            std::vector<float> scales, biases;
            std::vector<int32_t> sums;
            for (int64_t token = 0; token < vocabulary; ++token) {
                if (turn && random.below(3)) continue;  // the first list has all tokens
                tokens.push_back(static_cast<int32_t>(token));
                scales.push_back(int8.scales[token]);
                sums.push_back(int8.sums[token]);
                biases.push_back(bias[token]);
            }
            const int64_t count = static_cast<int64_t>(tokens.size());
            const bool biased = turn % 2;
            ListedTokens listed{tokens.data(),
                                count,
                                inputs,
                                int8_rows.get(),
                                scales.data(),
                                sums.data(),
                                biased ? biases.data() : nullptr};
            Epilogue epilogue;
            epilogue.bias = biased ? bias.get() : nullptr;
            Floats subset(rows * stride), all(rows * stride), single(stride);
            const auto check = [&](double tolerance, const auto& compute_rows) {
                compute_rows(0, rows, subset.get());
                for (int64_t r = 0; r < rows; ++r) {
                    compute_rows(r, 1, single.get());
                    for (int64_t i = 0; i < count; ++i) {
                        const float is = subset[r * stride + i],
                                    should = all[r * stride + tokens[static_cast<size_t>(i)]];
                        CHECK(is == single[i], "%g for a row alone, %g beside others",
                              static_cast<double>(single[i]), static_cast<double>(is));
                        CHECK(std::fabs(static_cast<double>(is) - should) <= tolerance, "logit %.9g for %.9g",
                              static_cast<double>(is), static_cast<double>(should));
                    }
                }
            };
            kernels.int8_product(q.rows(), rows, int8.matrix(), epilogue, all.get(), stride);
            check(0, [&](int64_t r, int64_t n, float* to) {
                const QuantisedRows block_rows = q.rows();
                kernels.int8_listed({block_rows.values + r * block_rows.stride, block_rows.scales + r,
                                     block_rows.stride},
                                    n, listed, to, stride);
            });
            const double tolerance = 2e-6 * static_cast<double>(inputs);
            listed.weights = float_rows.get();
            kernels.float_product(x.get(), rows, inputs, float32.matrix(), epilogue, all.get(), stride);
            check(tolerance, [&](int64_t r, int64_t n, float* to) {
                kernels.float_listed(x.get() + r * inputs, n, inputs, listed, to, stride);
            });
            listed.weights = bfloat16_rows.get();
            kernels.bfloat16_product(x.get(), rows, inputs, bfloat16.matrix(), epilogue, all.get(), stride);
            check(tolerance, [&](int64_t r, int64_t n, float* to) {
                kernels.bfloat16_listed(split.get() + r * 2 * half, n, 2 * half, listed, to, stride);
            });
        }
    }
}

}  // namespace uwaga
