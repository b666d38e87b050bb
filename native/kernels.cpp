// Which instruction sets there are here, and their tables.
#include "kernels.h"

namespace uwaga {

extern const Kernels portable_kernels;

bool supported(Isa isa) { return isa == Isa::portable; }
const Kernels& kernels_of(Isa) { return portable_kernels; }
Isa best_isa() { return Isa::portable; }

}  // namespace uwaga
