// Rows of weights as they are packed: as given, or spread.
#pragma once

#include <vector>

#include "kernels/kernels.h"

namespace uwaga {

class SpreadRows {
  public:
    SpreadRows(const float* w, int64_t inputs, const Spread& spread)
        : w_(w), inputs_(inputs), spread_(spread), kernels_(kernels_of(best_isa())),
          scratch_(spread ? static_cast<std::size_t>(2 * inputs) : 0) {}

    const float* row_at(int64_t row) {  // valid until the next call
        const float* row_values = w_ + row * inputs_;
        if (!spread_) return row_values;
        kernels_.spread(row_values, spread_, false, scratch_.data());
        return scratch_.data();
    }

  private:
    const float* const w_;
    const int64_t inputs_;
    const Spread spread_;
    const Kernels& kernels_;
    std::vector<float> scratch_;
};

}  // namespace uwaga
