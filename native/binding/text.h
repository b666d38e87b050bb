// Tokenisers for Python: the law tests compare them with `sentencepiece`.
#pragma once

#include <nanobind/nanobind.h>

namespace uwaga {

void bind_text(nanobind::module_& m);

}  // namespace uwaga
