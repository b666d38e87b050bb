// Gated recurrent units and their attention, against plain loops in double.
#include "check.h"
#include "tests.h"

namespace uwaga {

namespace {

double logistic(double x) { return 1.0 / (1.0 + std::exp(-x)); }

void check_near(double expected, float actual, double tolerance) {
    CHECK(std::fabs(expected - actual) < tolerance, "%g for %g", static_cast<double>(actual), expected);
}

void check_attention(const Kernels& kernels, Random& random, int64_t width, int64_t length) {
    const int64_t stride = width + 3;
    const double off = 4e-6 * std::sqrt(static_cast<double>(width)) + 1e-6;
    Floats query = normals(random, width),
           vector = normals(random, width, 1.0f / std::sqrt(static_cast<float>(width))),
           keys = normals(random, length * stride - 3);
    Floats dots(length), sums(length), gain = normals(random, length), weights(length), context(width);
    kernels.score_dot(query.get(), keys.get(), stride, length, width, 0.25f, dots.get());
    kernels.score_additive(query.get(), vector.get(), keys.get(), stride, length, width, sums.get());
    double total = 0;
    std::vector<double> exact(static_cast<size_t>(length));
    for (int64_t t = 0; t < length; ++t) {
        double dot = 0, sum = 0;
        for (int64_t k = 0; k < width; ++k) {
            const double key = keys[t * stride + k];
            dot += query[k] * key;
            sum += vector[k] * std::tanh(query[k] + key);
        }
        check_near(0.25 * dot, dots[t], off * (1 + std::fabs(dot)));
        check_near(sum, sums[t], off);
        total += exact[static_cast<size_t>(t)] = std::exp(sum);
    }
    for (const bool has_gain : {false, true}) {
        std::memcpy(weights.get(), sums.get(), static_cast<size_t>(length) * sizeof(float));
        kernels.weigh_values(weights.get(), has_gain ? gain.get() : nullptr, keys.get(), stride, length,
                             width, context.get());
        for (int64_t t = 0; t < length; ++t)
            check_near(exact[static_cast<size_t>(t)] / total * (has_gain ? gain[t] : 1.0f), weights[t],
                       4 * off);
        for (int64_t k = 0; k < width; ++k) {
            double sum = 0;
            for (int64_t t = 0; t < length; ++t)
                sum += static_cast<double>(weights[t]) * keys[t * stride + k];
            check_near(sum, context[k], 1e-5);
        }
    }
    Floats last(1);
    kernels.score_additive(query.get(), vector.get(), keys.get() + (length - 1) * stride, stride, 1, width,
                           last.get());
    CHECK(same_bits(last.get(), sums.get() + length - 1, 1), "a key alone");
}

void check_window(const Kernels& kernels, Random& random, int64_t width, int64_t length, int64_t reach) {
    Floats hidden = normals(random, width), vector = normals(random, width), gain(length);
    double sum = 0;
    for (int64_t k = 0; k < width; ++k) sum += static_cast<double>(hidden[k]) * vector[k];
    const double centre = static_cast<double>(length) * logistic(sum),
                 deviation = static_cast<double>(reach) / 2;
    int64_t window[2];
    kernels.predict_window(hidden.get(), vector.get(), width, length, reach, window, gain.get());
    CHECK(0 <= window[0] && window[0] < window[1] && window[1] <= length, "[%lld, %lld)",
          static_cast<long long>(window[0]), static_cast<long long>(window[1]));
    for (int64_t t = 0; t < length; ++t) {
        const double distance = static_cast<double>(t) - centre,
                     edge = std::fabs(distance) - static_cast<double>(reach);
        if (std::fabs(edge) > 1e-3)
            CHECK((edge < 0) == (window[0] <= t && t < window[1]), "position %lld",
                  static_cast<long long>(t));
        if (edge < 0) check_near(std::exp(-distance * distance / (2 * deviation * deviation)), gain[t], 1e-4);
    }
}

}  // namespace

void test_gates(const Kernels& kernels) {
    Random random(7);
    for (const int64_t units : {1, 7, 16, 40, 256, 515}) {
        Floats inputs = normals(random, 4 * units, 2.0f), states = normals(random, 4 * units, 2.0f),
               before = normals(random, units);
        Floats gated(units), after(units), hidden(units);
        const float infinity = std::numeric_limits<float>::infinity();
        if (units > 8) inputs[1] = 90.0f, inputs[2] = -90.0f, inputs[3] = infinity, inputs[4] = -infinity;
        const auto sum = [&](int64_t gate_index, int64_t k) {
            return static_cast<double>(inputs[gate_index * units + k]) + states[gate_index * units + k];
        };
        kernels.gate(inputs.get(), states.get(), before.get(), units, gated.get());
        for (int64_t k = 0; k < units; ++k) check_near(logistic(sum(0, k)) * before[k], gated[k], 4e-6);
        kernels.gru(inputs.get(), states.get(), inputs.get() + units, states.get() + units, before.get(),
                    units, after.get());
        for (int64_t k = 0; k < units; ++k) {
            const double z = logistic(sum(0, k)), n = std::tanh(sum(1, k));
            check_near(z * before[k] + (1 - z) * n, after[k], 8e-6);
        }
        Floats cell = normals(random, units), in_place = normals(random, units);
        std::memcpy(in_place.get(), cell.get(), static_cast<size_t>(units) * sizeof(float));
        kernels.lstm(inputs.get(), states.get(), cell.get(), units, after.get(), hidden.get());
        for (int64_t k = 0; k < units; ++k) {
            const double c = logistic(sum(1, k)) * cell[k] + logistic(sum(0, k)) * std::tanh(sum(2, k));
            check_near(c, after[k], 8e-6);
            check_near(logistic(sum(3, k)) * std::tanh(c), hidden[k], 8e-6);
        }
        kernels.lstm(inputs.get(), states.get(), in_place.get(), units, in_place.get(), gated.get());
        CHECK(same_bits(in_place.get(), after.get(), units) && same_bits(gated.get(), hidden.get(), units),
              "in place");
    }
}

void test_recurrent_attention(const Kernels& kernels) {
    Random random(8);
    for (const int64_t width : {1, 7, 16, 40, 256, 515}) {
        for (const int64_t length : {1, 2, 9, 16, 33}) check_attention(kernels, random, width, length);
    }
    for (const int64_t length : {1, 5, 40}) {
        for (const int64_t reach : {1, 4, 10}) check_window(kernels, random, 24, length, reach);
    }
}

}  // namespace uwaga
