// Rates of the machine, for Python: `uwaga bench`.
#pragma once

#include <nanobind/nanobind.h>

namespace uwaga {

void bind_rates(nanobind::module_& m);

}  // namespace uwaga
