// Attention of one query and of whole sentences, against plain loops in double.
#include "packed.h"
#include "tests.h"

namespace uwaga {

void test_attend(const Kernels& kernels, bool float16) {
    Random random(11);
    const int64_t shapes[][2] = {{8, 64}, {1, 1}, {3, 20}, {2, 33}, {16, 32}, {4, 96}, {2, 128}, {5, 7}};
    for (const auto& shape : shapes) {
        const int64_t heads = shape[0], head_width = shape[1],
                      head_stride = head_width + (head_width % 2 ? 3 : 0);
        const int64_t max_length = 50, position = heads * head_stride + 5;
        Floats query = normals(random, heads * head_width, 2.0f),
               keys = normals(random, max_length * position), values = normals(random, max_length * position);
        Aligned<uint16_t> float16_keys(keys.size), float16_values(values.size);
        kernels.to_float16(keys.get(), keys.size, float16_keys.get());
        kernels.to_float16(values.get(), values.size, float16_values.get());
        if (float16) {
            for (int64_t i = 0; i < keys.size; ++i)
                keys[i] = from_float16(float16_keys[i]), values[i] = from_float16(float16_values[i]);
        }
        for (int64_t length = 1; length <= max_length; length += 1 + length / 5) {
            std::vector<int64_t> offsets(static_cast<size_t>(length));
            for (int64_t t = 0; t < length; ++t)
                offsets[static_cast<size_t>(t)] = random.below(max_length) * position + random.below(5);
            for (const bool biased : {false, true}) {
                Floats bias = normals(random, heads * length), weights(heads * length),
                       context(heads * head_width);
                if (biased && length > 2) bias[1] = -std::numeric_limits<float>::infinity();
                const float* b = biased ? bias.get() : nullptr;
                const float scale = 1.0f / std::sqrt(static_cast<float>(head_width));
                CachedAttention a;
                a.query = query.get();
                a.offsets = offsets.data();
                a.length = length;
                a.heads = heads;
                a.head_width = head_width;
                a.head_stride = head_stride;
                a.scale = scale;
                a.bias = b;
                a.weights = weights.get();
                a.context = context.get();
                if (float16) kernels.attend_float16(a, float16_keys.get(), float16_values.get());
                else kernels.attend_float(a, keys.get(), values.get());
                for (int64_t h = 0; h < heads; ++h) {
                    std::vector<double> w(static_cast<size_t>(length));
                    double top = -1e300, sum = 0;
                    for (int64_t t = 0; t < length; ++t) {
                        double dot = 0;
                        for (int64_t k = 0; k < head_width; ++k) {
                            dot += static_cast<double>(query[h * head_width + k]) *
                                   keys[offsets[static_cast<size_t>(t)] + h * head_stride + k];
                        }
                        w[static_cast<size_t>(t)] = dot * scale + (b ? b[h * length + t] : 0.0f);
                        top = std::fmax(top, w[static_cast<size_t>(t)]);
                    }
                    for (double& v : w) sum += v = std::exp(v - top);
                    for (int64_t t = 0; t < length; ++t) {
                        const double should = w[static_cast<size_t>(t)] / sum, is = weights[h * length + t];
                        CHECK(std::fabs(is - should) < 2e-6, "weight %.9g for %.9g", is, should);
                        if (b && b[h * length + t] < -1e30f)
                            CHECK(is == 0.0, "a masked position has no weight");
                    }
                    for (int64_t k = 0; k < head_width; ++k) {
                        double should = 0;
                        for (int64_t t = 0; t < length; ++t) {
                            should += w[static_cast<size_t>(t)] / sum *
                                      values[offsets[static_cast<size_t>(t)] + h * head_stride + k];
                        }
                        CHECK(std::fabs(context[h * head_width + k] - should) < 1e-5, "context %g for %g",
                              static_cast<double>(context[h * head_width + k]), should);
                    }
                }
            }
        }
    }
}

// Groups of query heads, a cap and windows against plain loops, and several queries against single ones, to
// the bit.
void test_attend_groups(const Kernels& kernels, bool float16) {
    Random random(13);
    const int64_t shapes[][3] = {{6, 3, 64}, {4, 4, 128}, {7, 7, 32}, {9, 3, 20},
                                 {8, 2, 96}, {5, 1, 256}, {16, 8, 16}};
    for (const auto& shape : shapes) {
        const int64_t heads = shape[0], group = shape[1], head_width = shape[2],
                      position = heads / group * head_width + 3, max_length = 60;
        const int64_t row = heads * head_width + 1;
        Floats query = normals(random, queries_at_once * row, 2.0f),
               keys = normals(random, max_length * position), values = normals(random, max_length * position);
        Aligned<uint16_t> float16_keys(keys.size), float16_values(values.size);
        kernels.to_float16(keys.get(), keys.size, float16_keys.get());
        kernels.to_float16(values.get(), values.size, float16_values.get());
        if (float16) {
            for (int64_t i = 0; i < keys.size; ++i)
                keys[i] = from_float16(float16_keys[i]), values[i] = from_float16(float16_values[i]);
        }
        std::vector<int64_t> offsets(static_cast<size_t>(max_length));
        for (int64_t t = 0; t < max_length; ++t)
            offsets[static_cast<size_t>(t)] = random.below(max_length - 1) * position + random.below(3);
        CachedAttention a;
        a.heads = heads;
        a.group = group;
        a.head_width = a.head_stride = head_width;
        a.scale = 0.3f;
        a.query_stride = a.context_stride = row;
        const auto attend = [&] {
            if (float16) kernels.attend_float16(a, float16_keys.get(), float16_values.get());
            else kernels.attend_float(a, keys.get(), values.get());
        };
        for (const int64_t window : {int64_t{1}, int64_t{2}, int64_t{19}, int64_t{INT64_MAX}}) {
            for (int64_t first = 0; first + queries_at_once <= max_length; first += 7) {  // keys before the
                                                                                          // first query
                for (int64_t queries = 1; queries <= queries_at_once; ++queries) {
                    Floats together(queries_at_once * row, 0.0f), single(row),
                        weights(queries_at_once * heads * max_length);
                    const int64_t visible = first + 1 < window ? first + 1 : window;
                    a.cap = first % 2 ? 0.0f : 5.0f;
                    a.query = query.get();
                    a.offsets = offsets.data() + (first + 1 - visible);
                    a.length = visible;
                    a.window = window;
                    a.queries = queries;
                    a.weights = weights.get();
                    a.context = together.get();
                    attend();
                    for (int64_t i = 0; i < queries; ++i) {
                        const int64_t visible_here = first + i + 1 < window ? first + i + 1 : window,
                                      from = first + i + 1 - visible_here;
                        a.query = query.get() + i * row;
                        a.offsets = offsets.data() + from;
                        a.length = visible_here;
                        a.queries = 1;
                        a.context = single.get();
                        attend();
                        for (int64_t k = 0; k < heads * head_width; ++k)
                            CHECK(single[k] == together[i * row + k], "query %lld of %lld",
                                  static_cast<long long>(i), static_cast<long long>(queries));
                        for (int64_t h = 0; h < heads; ++h) {
                            std::vector<double> w(static_cast<size_t>(visible_here));
                            const auto number = [&](const Floats& array, int64_t t, int64_t k) {
                                return static_cast<double>(array[offsets[static_cast<size_t>(from + t)] +
                                                                 h / group * head_width + k]);
                            };
                            double top = -1e300, sum = 0;
                            for (int64_t t = 0; t < visible_here; ++t) {
                                double dot = 0;
                                for (int64_t k = 0; k < head_width; ++k)
                                    dot += static_cast<double>(query[i * row + h * head_width + k]) *
                                           number(keys, t, k);
                                dot *= static_cast<double>(a.scale);
                                w[static_cast<size_t>(t)] = a.cap != 0.0f
                                                                ? static_cast<double>(a.cap) *
                                                                      std::tanh(dot /
                                                                                static_cast<double>(a.cap))
                                                                : dot;
                                top = std::fmax(top, w[static_cast<size_t>(t)]);
                            }
                            for (double& v : w) sum += v = std::exp(v - top);
                            for (int64_t t = 0; t < visible_here; ++t)
                                CHECK(std::fabs(weights[h * visible_here + t] -
                                                w[static_cast<size_t>(t)] / sum) < 1e-5,
                                      "weight %lld", static_cast<long long>(t));
                            for (int64_t k = 0; k < head_width; ++k) {
                                double should = 0;
                                for (int64_t t = 0; t < visible_here; ++t)
                                    should += w[static_cast<size_t>(t)] / sum * number(values, t, k);
                                CHECK(std::fabs(single[h * head_width + k] - should) < 3e-5,
                                      "context %g for %g", static_cast<double>(single[h * head_width + k]),
                                      should);
                            }
                        }
                    }
                }
            }
        }
    }
}

void test_rotate(const Kernels& kernels) {
    Random random(14);
    for (const int64_t half : {1, 2, 5, 8, 16, 32, 33, 64}) {
        constexpr int64_t heads = 3;
        const int64_t width = 2 * half;
        const Floats x = normals(random, heads * width), cos_sin = normals(random, width);
        Floats y(heads * width);
        std::memcpy(y.get(), x.get(), static_cast<size_t>(heads * width) * sizeof(float));
        kernels.rotate(y.get(), heads, width, cos_sin.get());
        for (int64_t h = 0; h < heads; ++h) {
            for (int64_t k = 0; k < half; ++k) {
                const double a = x[h * width + k], b = x[h * width + half + k], cosine = cos_sin[k],
                             sine = cos_sin[half + k];
                CHECK(std::fabs(y[h * width + k] - (a * cosine - b * sine)) < 1e-5, "first of pair %lld",
                      static_cast<long long>(k));
                CHECK(std::fabs(y[h * width + half + k] - (b * cosine + a * sine)) < 1e-5,
                      "second of pair %lld", static_cast<long long>(k));
            }
        }
    }
}

void test_self_attend(const Kernels& kernels) {
    Random random(12);
    const int64_t shapes[][2] = {{2, 64}, {1, 1}, {3, 20}, {2, 33}, {4, 32}, {2, 96}, {5, 7}};
    for (const auto& shape : shapes) {
        const int64_t heads = shape[0], width = shape[1], stride = 3 * heads * width + 5,
                      context_stride = heads * width + 3;
        for (int64_t length = 1; length <= 70; length += 1 + length / 3) {
            const int64_t max_length = 6;
            Floats projected = normals(random, length * stride),
                   relative = normals(random, 2 * max_length + 1), context(length * context_stride);
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
                    a.relative = biased ? relative.get() + max_length : nullptr;
                    a.max_distance = max_length;
                    a.scratch = scratch.get();
                    a.context = context.get() + h * width;
                    a.context_stride = context_stride;
                    for (int64_t i = 0; i < scratch.size; ++i)
                        scratch[i] = std::numeric_limits<float>::quiet_NaN();  // previous contents do not
                                                                               // matter
                    for (a.first = 0; a.first < length; a.first = a.last) {
                        a.last = std::min(length, a.first + 1 + random.below(length));
                        kernels.self_attend(a);
                    }
                    for (int64_t row = 0; row < length; ++row) {
                        std::vector<double> w(static_cast<size_t>(length));
                        double top = -1e300, sum = 0;
                        for (int64_t t = 0; t < length; ++t) {
                            double dot = 0;
                            for (int64_t k = 0; k < width; ++k)
                                dot += static_cast<double>(a.queries[row * stride + k]) *
                                       a.keys[t * stride + k];
                            w[static_cast<size_t>(t)] =
                                dot * a.scale +
                                (biased ? relative[max_length +
                                                   std::min(max_length, std::max(-max_length, t - row))]
                                        : 0.0f);
                            top = std::fmax(top, w[static_cast<size_t>(t)]);
                        }
                        for (double& v : w) sum += v = std::exp(v - top);
                        for (int64_t k = 0; k < width; ++k) {
                            double should = 0;
                            for (int64_t t = 0; t < length; ++t)
                                should += w[static_cast<size_t>(t)] / sum * a.values[t * stride + k];
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
