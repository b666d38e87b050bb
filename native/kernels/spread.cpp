// The orthogonal matrices by which inputs are spread.
#include <cmath>

#include "kernels/kernels.h"

namespace uwaga {
namespace {

constexpr int64_t min_block = 16;  // of the widest vectors
constexpr int64_t max_blocks = Spread::max_blocks, max_inputs = 65536;

struct Signs {
    float signs[max_inputs];

    Signs() {  // the Rudin-Shapiro sequence, whose Hadamard transform is flat: a constant is spread, too
        signs[0] = 1.0f;
        for (int64_t i = 1; i < max_inputs; ++i) signs[i] = (i & 3) == 3 ? -signs[i / 2] : signs[i / 2];
    }
};

struct Angles {
    float cosines[max_blocks + 1][max_blocks], sines[max_blocks + 1][max_blocks];

    Angles() {
        for (int64_t m = 1; m <= max_blocks; ++m) {
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
    if (block < min_block || inputs / block > max_blocks || inputs > max_inputs) return {};
    static const Signs signs;
    static const Angles angles;
    return {block,
            inputs / block,
            1.0f / std::sqrt(static_cast<float>(inputs)),
            signs.signs,
            angles.cosines[inputs / block],
            angles.sines[inputs / block]};
}

}  // namespace uwaga
