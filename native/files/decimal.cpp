#include "files/decimal.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace uwaga {

namespace {

constexpr int most_shift = 59;  // so that ten times a shifted digit fits in 64 bits
constexpr int mantissa_bits = 53, least_exponent = -1021;  // of a float64 from 0.5 to 1 times a power of two

// The number 0.d1 d2 d3 ... * 10^point, without zeros at either end. The numbers halfway between two float64 have fewer
// than 800 digits; of more digits it matters only that they are there.
class Decimal {
  public:
    explicit Decimal(std::string_view text) {
        std::size_t at = 0;
        for (bool whole = true; at < text.size() && (is_digit(text[at]) || text[at] == '.'); ++at) {
            if (text[at] == '.') {
                whole = false;
                continue;
            }
            const bool leading = count_ == 0 && text[at] == '0';
            if (!leading) append(text[at] - '0');
            if (whole != leading) point_ += whole ? 1 : -1;
        }
        if (at < text.size()) point_ += exponent(text.substr(at + 1));
        trim();
    }

    double nearest() {
        if (!count_ || point_ < -330) return 0;
        if (point_ > 310) return HUGE_VAL;
        int taken = 0;  // the power of two that the number has been divided by
        const auto divide_by = [&](int bits) {
            taken += bits;
            for (; bits > 0; bits -= most_shift) divide(std::min(bits, most_shift));
        };
        while (point_ > 0) divide_by(static_cast<int>(3 * point_));
        while (point_ < 0 || digits_[0] < 5) {
            const int bits = point_ < 0 ? static_cast<int>(std::min<int64_t>(-3 * point_, most_shift)) : 1;
            multiply(bits);
            taken -= bits;
        }
        if (taken < least_exponent) divide_by(least_exponent - taken);  // a subnormal number has fewer bits
        multiply(mantissa_bits);
        return std::ldexp(static_cast<double>(rounded()), taken - mantissa_bits);
    }

  private:
    static constexpr int64_t most = 800;

    static int64_t exponent(std::string_view text) {
        constexpr int64_t beyond = int64_t{1} << 56;  // any text's length
        const bool negative = text[0] == '-';
        int64_t value = 0;
        for (const char byte : text.substr(is_digit(text[0]) ? 0 : 1)) value = std::min(10 * value + (byte - '0'), beyond);
        return negative ? -value : value;
    }

    void append(uint64_t digit) {
        if (count_ < most) digits_[count_++] = static_cast<uint8_t>(digit);
        else more_ = more_ || digit;
    }
    void trim() {
        while (count_ && !digits_[count_ - 1]) --count_;
    }

    // Divide by 2^bits: long division, digit by digit.
    void divide(int bits) {
        const int64_t given = count_;
        uint64_t rest = 0;
        count_ = 0;
        for (int64_t i = 0; i < given || rest; ++i) {
            rest = 10 * rest + (i < given ? digits_[i] : 0);
            const uint64_t digit = rest >> bits;
            rest &= (uint64_t{1} << bits) - 1;
            if (count_ || digit) append(digit);
            else --point_;
        }
        trim();
    }

    // Multiply by 2^bits, from the last digit to the first; what is carried becomes new digits in front.
    void multiply(int bits) {
        uint64_t carried = 0;
        for (int64_t i = count_ - 1; i >= 0; --i) {
            carried += static_cast<uint64_t>(digits_[i]) << bits;
            digits_[i] = static_cast<uint8_t>(carried % 10);
            carried /= 10;
        }
        int64_t room = 0;
        for (uint64_t left = carried; left; left /= 10) ++room;
        for (int64_t i = std::max<int64_t>(0, most - room); i < count_; ++i) more_ = more_ || digits_[i];
        count_ = std::min(most, count_ + room);
        std::copy_backward(digits_, digits_ + count_ - room, digits_ + count_);
        for (int64_t i = room - 1; i >= 0; --i, carried /= 10) digits_[i] = static_cast<uint8_t>(carried % 10);
        point_ += room;
        trim();
    }

    // The nearest integer, ties to even.
    uint64_t rounded() const {
        uint64_t whole = 0;
        for (int64_t i = 0; i < point_; ++i) whole = 10 * whole + (i < count_ ? digits_[i] : 0);
        if (point_ < 0 || point_ >= count_ || digits_[point_] < 5) return whole;
        const bool half = digits_[point_] == 5 && point_ + 1 == count_ && !more_;
        return whole + (!half || whole % 2);
    }

    uint8_t digits_[most];
    int64_t count_ = 0, point_ = 0;
    bool more_ = false;
};

}  // namespace

double nearest_float64(std::string_view text) {
    const bool negative = text[0] == '-';
    const double magnitude = Decimal(text.substr(negative)).nearest();
    return negative ? -magnitude : magnitude;
}

}  // namespace uwaga
