// Every intermediate array of a translation by name: the contents of the boxes of a diagram of the
// Transformer.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace uwaga {

struct NamedArray {
    std::string name;
    std::vector<int64_t> shape;
    std::vector<float> values = {};

    int64_t size() const {
        int64_t count = 1;
        for (const int64_t axis : shape) count *= axis;
        return count;
    }
    // Allocate the values, zeroed.
    float* zeroed() {
        values.assign(static_cast<std::size_t>(size()), 0.0f);
        return values.data();
    }
};

struct NoSuchArray : std::invalid_argument {
    using std::invalid_argument::invalid_argument;
};
// The selected arrays exceed the bound of memory.
struct InsightTooLarge : std::length_error {
    using std::length_error::length_error;
};

constexpr int64_t max_insight_bytes = int64_t{1} << 28;  // of a translation's arrays, by default

}  // namespace uwaga
