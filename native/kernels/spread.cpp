// The orthogonal matrices by which inputs are spread.
#include <cmath>

#include "kernels/kernels.h"

namespace uwaga {
namespace {

constexpr int64_t least_block = 16;  // of the widest vectors
constexpr int64_t most_blocks = Spread::most_blocks, most_inputs = 65536;

struct Signs {
    float at[most_inputs];

    Signs() {  // the Rudin-Shapiro sequence, whose Hadamard transform is flat: a constant is spread, too
        at[0] = 1.0f;
        for (int64_t i = 1; i < most_inputs; ++i) at[i] = (i & 3) == 3 ? -at[i / 2] : at[i / 2];
    }
};

struct Angles {
    float cosines[most_blocks + 1][most_blocks], sines[most_blocks + 1][most_blocks];

    Angles() {
        for (int64_t m = 1; m <= most_blocks; ++m) {
            for (int64_t k = 0; k < m; ++k) {
                const double angle = 6.283185307179586 * static_cast<double>(k) / static_cast<double>(m);
                cosines[m][k] = static_cast<float>(std::cos(angle));
                sines[m][k] = static_cast<float>(std::sin(angle));
            }
        }
    }
};

}  // namespace

Spread spread_of(int64_t inputs) {
    const int64_t block = inputs & -inputs;
    if (block < least_block || inputs / block > most_blocks || inputs > most_inputs) return {};
    static const Signs signs;
    static const Angles angles;
    return {block, inputs / block, 1.0f / std::sqrt(static_cast<float>(inputs)), signs.at, angles.cosines[inputs / block], angles.sines[inputs / block]};
}

}  // namespace uwaga
