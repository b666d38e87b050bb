// Reader of flat YAML in memory: a mapping of scalars and of lists of scalars, as Marian writes its settings.
#pragma once

#include <string_view>

#include "files/json.h"

namespace uwaga {

// The mapping as a JSON object, in linear time. Throws std::invalid_argument, with the line, for anything
// else: a deeper structure, an alias, a tag, a scalar of several lines.
Json read_flat_yaml(std::string_view text);

}  // namespace uwaga
