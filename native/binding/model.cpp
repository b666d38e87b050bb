// The model object of the Python interface: settings and weights of dictionaries for build_model.
#include "binding/model.h"

#include <string>
#include <vector>

#include "binding/weights.h"
#include "transformer/build.h"

namespace uwaga {

Handle build(const nb::dict& settings, const nb::dict& matrices, const nb::dict& vectors, int isa, void (*check_interrupt)()) {
    if (isa < 0 || isa > static_cast<int>(Isa::wasm) || !supported(static_cast<Isa>(isa))) refuse("isa: not supported on this machine");
    Parts parts;
    std::vector<Array<float>> arrays;  // until build_model has copied them
    for (const auto& [name, value] : settings) parts.settings[nb::cast<std::string>(name)] = nb::cast<double>(value);
    for (const auto& [name, matrix] : matrices) parts.matrices[nb::cast<std::string>(name)] = nb::cast<const Packed&>(matrix).matrix;
    for (const auto& [name, vector] : vectors) {
        arrays.push_back(nb::cast<Array<float>>(vector));
        parts.vectors[nb::cast<std::string>(name)] = {arrays.back().data(), static_cast<int64_t>(arrays.back().size())};
    }
    Handle handle{build_model(parts, static_cast<Isa>(isa), check_interrupt), nb::dict()};
    handle.matrices.update(matrices);
    return handle;
}

}  // namespace uwaga
