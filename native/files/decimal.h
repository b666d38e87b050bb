// Decimal numbers as float64, in every locale, and without the C library's long doubles, which a page would
// have to load.
#pragma once

#include <string_view>

namespace uwaga {

inline bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }

// The float64 nearest to a number in JSON's notation, ties to even; infinite beyond the largest. In linear
// time.
double nearest_float64(std::string_view text);

}  // namespace uwaga
