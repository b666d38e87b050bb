// Every intermediate array of a translation by name: the contents of the boxes of a diagram of the
// Transformer.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace uwaga {

struct Model;

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

// The arrays of a translation, without values, in the order of the computation: NAME, `encoder.LAYER.NAME`,
// `decoder.LAYER.NAME` and `cross.LAYER.NAME`, with layers from 1; see uwaga.engine.insight. `selection` are
// names or prefixes of names before a point; empty: all. Throws NoSuchArray, and std::invalid_argument for a
// recurrent model.
std::vector<NamedArray> insight_arrays(const Model& model, int64_t source, int64_t target,
                                       const std::vector<std::string>& selection);

}  // namespace uwaga
