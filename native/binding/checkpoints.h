// Contents of model files, for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace uwaga {

void bind_checkpoints(nanobind::module_& m);

}  // namespace uwaga
