// Builds a model from its settings and named weights; every host (Python, C, WebAssembly) gives these.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "transformer/model.h"

namespace uwaga {

// A vector of a file; build() copies it.
struct Vector {
    const float* data = nullptr;
    int64_t size = 0;
};

// The parts of a model. Names are those of src/uwaga/engine/layout.py; matrices are packed, and whoever
// packed them keeps their panels as long as the model.
struct Parts {
    std::map<std::string, double> settings;
    std::map<std::string, Matrix> matrices;
    std::map<std::string, Vector> vectors;
};

// Build a model, with every setting and every shape checked. `check_interrupt`, called often while the model
// computes, throws if the caller should stop; null where nothing interrupts. Throws std::invalid_argument,
// which names the setting or the weight.
std::shared_ptr<Model> build_model(const Parts& parts, Isa isa, void (*check_interrupt)());

// Set the sizes of the pages of keys and values.
void configure_pools(Model& model);

}  // namespace uwaga
