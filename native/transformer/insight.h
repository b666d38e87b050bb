// Every number of a translation by name: what the boxes of a diagram of the Transformer hold.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace uwaga {

struct NamedArray {
    std::string name;
    std::vector<int64_t> shape;
    std::vector<float> values;
};

// The selected arrays exceed the bound of memory.
struct InsightTooLarge : std::length_error {
    using std::length_error::length_error;
};

// Names are NAME, `encoder.LAYER.NAME`, `decoder.LAYER.NAME` and `cross.LAYER.NAME`, with layers from 1; see
// uwaga.engine.insight.
struct Insight {
    std::vector<std::string> wanted;  // names or beginnings of names before a point; empty: all
    int64_t bound;                    // of the arrays' bytes
    std::vector<NamedArray> arrays = {};
    int64_t bytes = 0;

    bool wants(const std::string& name) const {
        for (const std::string& one : wanted) {
            if (name == one || name.compare(0, one.size() + 1, one + ".") == 0) return true;
        }
        return wanted.empty();
    }
    // Room for an array, zeroed; null if it is not wanted. It stays valid until the insight is destroyed.
    float* add(const std::string& name, std::vector<int64_t> shape) {
        if (!wants(name)) return nullptr;
        int64_t count = 1;
        for (const int64_t size : shape) count *= size;
        bytes += count * static_cast<int64_t>(sizeof(float));
        if (bytes > bound) {
            throw InsightTooLarge(name + ": the selected arrays take more than " + std::to_string(bound) + " bytes: select fewer names or raise the bound");
        }
        arrays.push_back({name, std::move(shape), std::vector<float>(static_cast<std::size_t>(count))});
        return arrays.back().values.data();
    }
};

}  // namespace uwaga
