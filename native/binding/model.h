// The model object of the Python interface.
#pragma once

#include <memory>
#include <vector>

#include "binding/arrays.h"
#include "network/network.h"

namespace uwaga {

// A model and the arrays that contain its panels.
struct Handle {
    NetworkPtr model;
    nb::dict matrices;
};

// Build a model from settings and named weights. `check_interrupt`, called often, throws if the caller should
// stop.
Handle build(const nb::dict& settings, const nb::dict& matrices, const nb::dict& vectors, int isa,
             void (*check_interrupt)());
// The same model with edits: of attention, (kind, layer, head, weights, table, mask, scale) each, and of
// positions.
Handle edited_model(const Handle& base, const nb::list& attention,
                    const std::vector<int32_t>& source_positions,
                    const std::vector<int32_t>& target_positions, void (*check_interrupt)());

// Tables of positions (transformer/positions.h).
nb::object sinusoids_table(int order, int64_t width, int64_t first, int64_t count);
nb::object distances_table(Shaped<float, 2> weight, int64_t max_distance, bool bidirectional);

}  // namespace uwaga
