// A model that Python holds.
#pragma once

#include <memory>

#include "binding/arrays.h"
#include "transformer/model.h"

namespace uwaga {

// What Python holds: the model and the arrays that its panels lie in.
struct Handle {
    std::shared_ptr<Model> model;
    nb::dict matrices;
};

// From settings and weights by name; `check_interrupt` is called now and then and throws when the caller is to stop.
Handle build(const nb::dict& settings, const nb::dict& matrices, const nb::dict& vectors, int isa, void (*check_interrupt)());

}  // namespace uwaga
