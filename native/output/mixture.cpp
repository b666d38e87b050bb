#include "output/mixture.h"

#include <algorithm>
#include <limits>

#include "output/four.h"

namespace uwaga {

namespace {

constexpr double max_weight = 0.99;  // so that other tokens stay possible

constexpr int64_t checked_width = 4 * lanes;  // after so many elements a distance may prove too large

// |a - b|², or infinity if it is not below `limit`: most keys are far away, and are not read to their ends.
double squared_distance(const float* a, const float* b, int64_t width, double limit) {
    Four sums[parts] = {};
    double sum = 0;
    const auto add_up = [&] {
        sum = 0;
        for (const Four& part : sums) {
            for (int lane = 0; lane < 4; ++lane) sum += static_cast<double>(part[lane]);
        }
        return sum;
    };
    int64_t i = 0;
    for (; i + lanes <= width; i += lanes) {
        if (i % checked_width == 0 && !(add_up() < limit)) return std::numeric_limits<double>::infinity();
        for (int64_t part = 0; part < parts; ++part) {
            const Four difference = load(a + i + 4 * part) - load(b + i + 4 * part);
            sums[part] += difference * difference;
        }
    }
    add_up();
    for (; i < width; ++i) {
        const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
        sum += difference * difference;
    }
    return sum;
}

}  // namespace

Mixture::Mixture(const Datastore& datastore, const float* features) {
    std::array<double, max_neighbours> distances;
    std::array<int32_t, max_neighbours> tokens;
    int64_t found = 0;
    double limit = datastore.radius;
    for (std::size_t entry = 0; entry < datastore.tokens.size(); ++entry) {
        const double distance = squared_distance(features,
                                                 datastore.keys.get() +
                                                     static_cast<int64_t>(entry) * datastore.width,
                                                 datastore.width, limit);
        if (!(distance < limit)) continue;  // a later entry loses a tie
        std::size_t slot = static_cast<std::size_t>(found < datastore.neighbours ? found++ : found - 1);
        for (; slot > 0 && distance < distances[slot - 1]; --slot) {
            distances[slot] = distances[slot - 1];
            tokens[slot] = tokens[slot - 1];
        }
        distances[slot] = distance;
        tokens[slot] = datastore.tokens[entry];
        if (found == datastore.neighbours) limit = distances[static_cast<std::size_t>(found - 1)];
    }
    if (!found) return;
    weight_ = std::min(1 - distances[0] / datastore.radius, max_weight);
    double total = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(found); ++i) {
        const double share = std::exp((distances[0] - distances[i]) / datastore.temperature);
        total += share;
        const auto end = tokens_.begin() + count_;
        const auto known = std::find(tokens_.begin(), end, tokens[i]);
        if (known == end) {
            tokens_[static_cast<std::size_t>(count_)] = tokens[i];
            shares_[static_cast<std::size_t>(count_++)] = share;
        } else {
            shares_[static_cast<std::size_t>(known - tokens_.begin())] += share;
        }
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(count_); ++i) shares_[i] /= total;
}

}  // namespace uwaga
