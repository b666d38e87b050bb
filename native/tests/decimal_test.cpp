// The decimal numbers of JSON files as float64: `make -C native/tests decimal`. The C library's are the law.
#include "files/decimal.h"
#include "require.h"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

using uwaga::nearest_float64;

namespace {

void check_equal(const std::string& text) {
    const double actual = nearest_float64(text), expected = std::strtod(text.c_str(), nullptr);
    if (std::memcmp(&actual, &expected, sizeof actual))
        std::printf("%.60s: %a, not %a\n", text.c_str(), actual, expected);
    REQUIRE(!std::memcmp(&actual, &expected, sizeof actual));
}

std::string written(const char* format, int digits, double value) {
    char text[1600];
    std::snprintf(text, sizeof text, format, digits, value);
    return text;
}

double from_bits(uint64_t bits) {
    double value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

// Texts of float64 of all sizes: short ones, exact ones, and those halfway to the next, just below and just
// above.
void random_numbers() {
    std::mt19937_64 random(1);
    for (int i = 0; i < 20000; ++i) {
        uint64_t bits = random();
        if (i % 4 == 0) bits = bits >> 12 >> random() % 52;  // subnormal
        const double value = from_bits(bits & ~(uint64_t{1} << 63));
        if (!std::isfinite(value)) continue;
        check_equal(written("%.*e", static_cast<int>(random() % 24), value));
        check_equal(written("%.*f", static_cast<int>(random() % 30), std::fmod(value, 1e20)));
        if (i % 20) continue;
        check_equal(written("%.*e", 800, value));
        // With one bit more, in long double, the point halfway is exact, and so are its 1,100 digits at most.
        const long double half = (static_cast<long double>(value) + std::nextafter(value, 0)) / 2;
        char text[1600];
        std::snprintf(text, sizeof text, "%.1200Lf", half < 1e300L ? half : 0.5L);
        std::string exact = text;
        check_equal(exact);
        check_equal(exact + "1");
        const std::size_t last = exact.find_last_not_of("0.");
        if (last != std::string::npos) {
            --exact[last];
            check_equal(exact + "9");
        }
    }
}

void edges() {
    const std::string zeros(5000, '0'), nines(5000, '9');
    for (const char* text : {"0",
                             "-0",
                             "0.0",
                             "-0.0e5",
                             "1",
                             "-1",
                             "0.1",
                             "0.5",
                             "1e0",
                             "1E+5",
                             "1e-5",
                             "9007199254740993",
                             "9007199254740992.5",
                             "1e308",
                             "1.7976931348623157e308",
                             "1.7976931348623158e308",
                             "1.7976931348623159e308",
                             "1e309",
                             "-1e400",
                             "5e-324",
                             "2.4703282292062327e-324",
                             "2.4703282292062328e-324",
                             "2e-324",
                             "1e-400",
                             "2.2250738585072011e-308",
                             "2.2250738585072014e-308",
                             "1e99999999999999999999",
                             "1e-99999999999999999999",
                             "0e99999999999999999999"}) {
        check_equal(text);
    }
    for (const std::string& text :
         {"1" + zeros + "e-5000", "0." + zeros + "1e5001", "0." + nines, nines + "e-5000", "1." + zeros + "1",
          "9007199254740993." + zeros + "1", "0." + zeros})
        check_equal(text);
}

}  // namespace

int main() {
    edges();
    random_numbers();
    std::puts("decimal: passed");
}
