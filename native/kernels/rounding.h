// Rounding to the nearest number, as packing does it.
#pragma once

namespace uwaga {

// The number nearest to |x| < 2^22, ties to even; unlike std::nearbyint, compilers vectorise it.
inline float nearest(float x) { return (x + 12582912.0f) - 12582912.0f; }
inline float clamp(float x, float min, float max) { return x < min ? min : x > max ? max : x; }

}  // namespace uwaga
