// Attention of one query and of whole sentences, against plain loops in double.
#include "packed.h"
#include "tests.h"

namespace uwaga {

void test_attend(const Kernels& kernels, bool float16) {
    Random random(11);
    const int64_t shapes[][2] = {{8, 64}, {1, 1}, {3, 20}, {2, 33}, {16, 32}, {4, 96}, {2, 128}, {5, 7}};
    for (const auto& shape : shapes) {
        const int64_t heads = shape[0], head_width = shape[1], head_stride = head_width + (head_width % 2 ? 3 : 0);
        const int64_t most = 50, position = heads * head_stride + 5;
        Floats query = normals(random, heads * head_width, 2.0f), keys = normals(random, most * position), values = normals(random, most * position);
        Aligned<uint16_t> float16_keys(keys.size), float16_values(values.size);
        kernels.to_float16(keys.get(), keys.size, float16_keys.get());
        kernels.to_float16(values.get(), values.size, float16_values.get());
        if (float16) {
            for (int64_t i = 0; i < keys.size; ++i) keys[i] = of_float16(float16_keys[i]), values[i] = of_float16(float16_values[i]);
        }
        for (int64_t length = 1; length <= most; length += 1 + length / 5) {
            std::vector<int64_t> offsets(static_cast<size_t>(length));
            for (int64_t t = 0; t < length; ++t) offsets[static_cast<size_t>(t)] = random.below(most) * position + random.below(5);
            for (const bool biased : {false, true}) {
                Floats bias = normals(random, heads * length), weights(heads * length), context(heads * head_width);
                if (biased && length > 2) bias[1] = -std::numeric_limits<float>::infinity();
                const float* b = biased ? bias.get() : nullptr;
                const float scale = 1.0f / std::sqrt(static_cast<float>(head_width));
                if (float16) kernels.attend_float16(query.get(), float16_keys.get(), float16_values.get(), offsets.data(), length, heads, head_width, head_stride, scale, b, weights.get(), context.get());
                else kernels.attend_float(query.get(), keys.get(), values.get(), offsets.data(), length, heads, head_width, head_stride, scale, b, weights.get(), context.get());
                for (int64_t h = 0; h < heads; ++h) {
                    std::vector<double> w(static_cast<size_t>(length));
                    double top = -1e300, sum = 0;
                    for (int64_t t = 0; t < length; ++t) {
                        double dot = 0;
                        for (int64_t k = 0; k < head_width; ++k) {
                            dot += static_cast<double>(query[h * head_width + k]) * keys[offsets[static_cast<size_t>(t)] + h * head_stride + k];
                        }
                        w[static_cast<size_t>(t)] = dot * scale + (b ? b[h * length + t] : 0.0f);
                        top = std::fmax(top, w[static_cast<size_t>(t)]);
                    }
                    for (double& v : w) sum += v = std::exp(v - top);
                    for (int64_t t = 0; t < length; ++t) {
                        const double should = w[static_cast<size_t>(t)] / sum, is = weights[h * length + t];
                        CHECK(std::fabs(is - should) < 2e-6, "weight %.9g for %.9g", is, should);
                        if (b && b[h * length + t] < -1e30f) CHECK(is == 0.0, "a masked position has no weight");
                    }
                    for (int64_t k = 0; k < head_width; ++k) {
                        double should = 0;
                        for (int64_t t = 0; t < length; ++t) {
                            should += w[static_cast<size_t>(t)] / sum * values[offsets[static_cast<size_t>(t)] + h * head_stride + k];
                        }
                        CHECK(std::fabs(context[h * head_width + k] - should) < 1e-5, "context %g for %g", static_cast<double>(context[h * head_width + k]), should);
                    }
                }
            }
        }
    }
}

void test_self_attend(const Kernels& kernels) {
    Random random(12);
    const int64_t shapes[][2] = {{2, 64}, {1, 1}, {3, 20}, {2, 33}, {4, 32}, {2, 96}, {5, 7}};
    for (const auto& shape : shapes) {
        const int64_t heads = shape[0], width = shape[1], stride = 3 * heads * width + 5, context_stride = heads * width + 3;
        for (int64_t length = 1; length <= 70; length += 1 + length / 3) {
            const int64_t most = 6;
            Floats projected = normals(random, length * stride), relative = normals(random, 2 * most + 1), context(length * context_stride);
            Floats scratch((width + 4) * padded_keys(length));
            for (const bool biased : {false, true}) {
                for (int64_t h = 0; h < heads; ++h) {
                    SelfAttention a;
                    a.queries = projected.get() + h * width;
                    a.keys = a.queries + heads * width;
                    a.values = a.keys + heads * width;
                    a.stride = stride;
                    a.length = length;
                    a.head_width = width;
                    a.scale = 1.0f / std::sqrt(static_cast<float>(width));
                    a.relative = biased ? relative.get() + most : nullptr;
                    a.max_distance = most;
                    a.scratch = scratch.get();
                    a.context = context.get() + h * width;
                    a.context_stride = context_stride;
                    for (int64_t i = 0; i < scratch.size; ++i) scratch[i] = std::numeric_limits<float>::quiet_NaN();  // previous contents do not matter
                    for (a.first = 0; a.first < length; a.first = a.last) {
                        a.last = std::min(length, a.first + 1 + random.below(length));
                        kernels.self_attend(a);
                    }
                    for (int64_t row = 0; row < length; ++row) {
                        std::vector<double> w(static_cast<size_t>(length));
                        double top = -1e300, sum = 0;
                        for (int64_t t = 0; t < length; ++t) {
                            double dot = 0;
                            for (int64_t k = 0; k < width; ++k) dot += static_cast<double>(a.queries[row * stride + k]) * a.keys[t * stride + k];
                            w[static_cast<size_t>(t)] = dot * a.scale + (biased ? relative[most + std::min(most, std::max(-most, t - row))] : 0.0f);
                            top = std::fmax(top, w[static_cast<size_t>(t)]);
                        }
                        for (double& v : w) sum += v = std::exp(v - top);
                        for (int64_t k = 0; k < width; ++k) {
                            double should = 0;
                            for (int64_t t = 0; t < length; ++t) should += w[static_cast<size_t>(t)] / sum * a.values[t * stride + k];
                            const double is = a.context[row * context_stride + k];
                            CHECK(std::fabs(is - should) < 1e-5, "context %g for %g", is, should);
                        }
                    }
                }
            }
        }
    }
}

}  // namespace uwaga
