// Tables of positions, computed once for every host. Sines, cosines and exponentials are computed here: those
// of C libraries differ in their last bits, and a page must compute what a server computes.
#pragma once

#include <cstdint>
#include <vector>

namespace uwaga {

// Order of sines and cosines: alternating, sines first, or sines first with tensor2tensor's rates.
enum class Sinusoids { interleaved, halves, tensor2tensor };

// The sinusoids (count, width) of positions from `first` (Vaswani et al. 2017, section 3.5). The width is
// even.
std::vector<float> sinusoids(Sinusoids order, int64_t width, int64_t first, int64_t count);

// The cosines (frequencies,) and then the sines of position * frequency, times a factor (Su et al. 2021,
// equation 34).
void write_angles(const std::vector<double>& frequencies, double factor, int64_t position, float* to);

// Score biases (heads, 2 * max_distance + 1) for `key - query` from -max_distance to max_distance, from
// weights (buckets, heads). All larger distances share a bucket (Raffel et al. 2020, section 2.1); later keys
// have separate buckets if `bidirectional`. `max_distance` is more than half of `buckets`, which are at
// least 4.
std::vector<float> distances(const float* weight, int64_t buckets, int64_t heads, int64_t max_distance,
                             bool bidirectional);

}  // namespace uwaga
