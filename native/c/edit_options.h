// The option "edits" of a call: changes of attention and positions, as JSON.
#pragma once

#include "checkpoints/fields.h"
#include "network/network.h"

namespace uwaga {

// Read an array of edits for a model; the numbers of layers and heads count from 1. Throws Failure, whose
// message names the edit and the key.
Edits read_edits(const Json& value, const Network& model);

}  // namespace uwaga
