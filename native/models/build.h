// Builds a network of any kind from its settings and named weights; every host (Python, C, WebAssembly) gives
// these.
#pragma once

#include "network/part_reader.h"

namespace uwaga {

// Build a network, with every setting and every shape checked. `check_interrupt`, called often while the
// network computes, throws if the caller should stop; null where nothing interrupts. Throws
// std::invalid_argument, which names the setting or the weight.
NetworkPtr build_model(const Parts& parts, Isa isa, void (*check_interrupt)());

}  // namespace uwaga
