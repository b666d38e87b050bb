#include "transformer/positions.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace uwaga {

namespace {

// The sum of x^n / n! for n = first, first + 2 or + 1, ..., with alternating signs where `sign` is -1.
double series(double x, int first, int step, double sign) {
    double term = first ? x : 1, sum = 0;
    double terms[24];
    int count = 0;
    for (int n = first; count < 24 && n < 24; n += step) {
        terms[count++] = term;
        for (int k = 1; k <= step; ++k) term *= x / (n + k);
        term *= sign;
    }
    while (count) sum += terms[--count];  // smallest first
    return sum;
}

double exponential(double x) {
    constexpr double high = 6.93147180369123816490e-01, low = 1.90821492927058770002e-10;  // of log 2
    const double doublings = std::floor(x / (high + low) + 0.5);
    return std::ldexp(series((x - doublings * high) - doublings * low, 0, 1, 1), static_cast<int>(doublings));
}

struct Angle {
    double sine, cosine;
};
Angle sine_and_cosine(double x) {
    // pi / 2 in three parts, of which multiples are exact (Cody and Waite 1980).
    constexpr double high = 1.57079632673412561417e+00, middle = 6.07710050630396597660e-11,
                     low = 2.02226624879595063154e-21;
    const double quarters = std::floor(x / (high + middle) + 0.5);
    const double remainder = ((x - quarters * high) - quarters * middle) - quarters * low;
    const double sine = series(remainder, 1, 2, -1), cosine = series(remainder, 0, 2, -1);
    switch (static_cast<int64_t>(quarters) & 3) {
        case 0: return {sine, cosine};
        case 1: return {cosine, -sine};
        case 2: return {-sine, -cosine};
        default: return {-cosine, sine};
    }
}

int64_t bucket(int64_t distance, int64_t buckets, int64_t max_distance, bool bidirectional) {
    const int64_t count = bidirectional ? buckets / 2 : buckets, exact = count / 2;
    const int64_t offset = bidirectional && distance > 0 ? count : 0;
    const int64_t magnitude = bidirectional ? std::abs(distance) : std::max<int64_t>(-distance, 0);
    if (magnitude < exact) return offset + magnitude;
    const float spread = std::log(static_cast<float>(magnitude) / static_cast<float>(exact)) /
                         static_cast<float>(std::log(static_cast<double>(max_distance) /
                                                     static_cast<double>(exact)));
    return offset +
           std::min(exact + static_cast<int64_t>(spread * static_cast<float>(count - exact)), count - 1);
}

}  // namespace

std::vector<float> sinusoids(Sinusoids order, int64_t width, int64_t first, int64_t count) {
    const int64_t half = width / 2;
    const double log_slowest = std::log(10000.0);
    std::vector<float> table(static_cast<std::size_t>(count * width));
    for (int64_t i = 0; i < half; ++i) {
        const double exponent = order == Sinusoids::tensor2tensor
                                    ? static_cast<double>(i) *
                                          (-log_slowest / static_cast<double>(std::max<int64_t>(half - 1, 1)))
                                    : static_cast<double>(2 * i) *
                                          (-log_slowest / static_cast<double>(width));
        const double rate = exponential(exponent);
        const int64_t sine = order == Sinusoids::interleaved ? 2 * i : i,
                      cosine = order == Sinusoids::interleaved ? 2 * i + 1 : half + i;
        for (int64_t p = 0; p < count; ++p) {
            const Angle angle = sine_and_cosine(static_cast<double>(first + p) * rate);
            table[static_cast<std::size_t>(p * width + sine)] = static_cast<float>(angle.sine);
            table[static_cast<std::size_t>(p * width + cosine)] = static_cast<float>(angle.cosine);
        }
    }
    return table;
}

void write_angles(const std::vector<double>& frequencies, double factor, int64_t position, float* to) {
    const std::size_t pairs = frequencies.size();
    for (std::size_t i = 0; i < pairs; ++i) {
        const Angle angle = sine_and_cosine(static_cast<double>(position) * frequencies[i]);
        to[i] = static_cast<float>(angle.cosine * factor);
        to[pairs + i] = static_cast<float>(angle.sine * factor);
    }
}

std::vector<float> distances(const float* weight, int64_t buckets, int64_t heads, int64_t max_distance,
                             bool bidirectional) {
    const int64_t count = 2 * max_distance + 1;
    std::vector<float> table(static_cast<std::size_t>(heads * count));
    for (int64_t d = -max_distance; d <= max_distance; ++d) {
        const float* row = weight + bucket(d, buckets, max_distance, bidirectional) * heads;
        for (int64_t h = 0; h < heads; ++h)
            table[static_cast<std::size_t>(h * count + d + max_distance)] = row[h];
    }
    return table;
}

}  // namespace uwaga
