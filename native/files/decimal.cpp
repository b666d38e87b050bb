#include "files/decimal.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace uwaga {

namespace {

constexpr int max_shift = 59;                            // so that ten times a shifted digit fits in 64 bits
constexpr int mantissa_bits = 53, min_exponent = -1021;  // of a float64 from 0.5 to 1 times a power of two

// The number 0.d1 d2 d3 ... * 10^point, without zeros at either end. The numbers halfway between two float64
// have fewer than 800 digits; of more digits it matters only that they are there.
class Decimal {
  public:
    explicit Decimal(std::string_view text) {
        std::size_t position = 0;
        for (bool integer_part = true;
             position < text.size() && (is_digit(text[position]) || text[position] == '.'); ++position) {
            if (text[position] == '.') {
                integer_part = false;
                continue;
            }
            const bool leading = count_ == 0 && text[position] == '0';
            if (!leading) append(text[position] - '0');
            if (integer_part != leading) point_ += integer_part ? 1 : -1;
        }
        if (position < text.size()) point_ += exponent(text.substr(position + 1));
        trim();
    }

    double nearest() {
        if (!count_ || point_ < -330) return 0;
        if (point_ > 310) return HUGE_VAL;
        int shifted_bits = 0;  // the power of two that the number has been divided by
        const auto shift_right_by = [&](int bits) {
            shifted_bits += bits;
            for (; bits > 0; bits -= max_shift) shift_right(std::min(bits, max_shift));
        };
        while (point_ > 0) shift_right_by(static_cast<int>(3 * point_));
        while (point_ < 0 || digits_[0] < 5) {
            const int bits = point_ < 0 ? static_cast<int>(std::min<int64_t>(-3 * point_, max_shift)) : 1;
            shift_left(bits);
            shifted_bits -= bits;
        }
        if (shifted_bits < min_exponent)
            shift_right_by(min_exponent - shifted_bits);  // a subnormal number has fewer bits
        shift_left(mantissa_bits);
        return std::ldexp(static_cast<double>(rounded()), shifted_bits - mantissa_bits);
    }

  private:
    static constexpr int64_t max_digits = 800;

    static int64_t exponent(std::string_view text) {
        constexpr int64_t limit = int64_t{1} << 56;  // any text's length
        const bool negative = text[0] == '-';
        int64_t value = 0;
        for (const char byte : text.substr(is_digit(text[0]) ? 0 : 1))
            value = std::min(10 * value + (byte - '0'), limit);
        return negative ? -value : value;
    }

    void append(uint64_t digit) {
        if (count_ < max_digits) digits_[count_++] = static_cast<uint8_t>(digit);
        else truncated_ = truncated_ || digit;
    }
    void trim() {
        while (count_ && !digits_[count_ - 1]) --count_;
    }

    // Divide by 2^bits: long division, digit by digit.
    void shift_right(int bits) {
        const int64_t digits = count_;
        uint64_t remainder = 0;
        count_ = 0;
        for (int64_t i = 0; i < digits || remainder; ++i) {
            remainder = 10 * remainder + (i < digits ? digits_[i] : 0);
            const uint64_t digit = remainder >> bits;
            remainder &= (uint64_t{1} << bits) - 1;
            if (count_ || digit) append(digit);
            else --point_;
        }
        trim();
    }

    // Multiply by 2^bits, from the last digit to the first; the carry becomes new digits in front.
    void shift_left(int bits) {
        uint64_t carry = 0;
        for (int64_t i = count_ - 1; i >= 0; --i) {
            carry += static_cast<uint64_t>(digits_[i]) << bits;
            digits_[i] = static_cast<uint8_t>(carry % 10);
            carry /= 10;
        }
        int64_t extra_digits = 0;
        for (uint64_t remaining = carry; remaining; remaining /= 10) ++extra_digits;
        for (int64_t i = std::max<int64_t>(0, max_digits - extra_digits); i < count_; ++i)
            truncated_ = truncated_ || digits_[i];
        count_ = std::min(max_digits, count_ + extra_digits);
        std::copy_backward(digits_, digits_ + count_ - extra_digits, digits_ + count_);
        for (int64_t i = extra_digits - 1; i >= 0; --i, carry /= 10)
            digits_[i] = static_cast<uint8_t>(carry % 10);
        point_ += extra_digits;
        trim();
    }

    // The nearest integer, ties to even.
    uint64_t rounded() const {
        uint64_t integer = 0;
        for (int64_t i = 0; i < point_; ++i) integer = 10 * integer + (i < count_ ? digits_[i] : 0);
        if (point_ < 0 || point_ >= count_ || digits_[point_] < 5) return integer;
        const bool half = digits_[point_] == 5 && point_ + 1 == count_ && !truncated_;
        return integer + (!half || integer % 2);
    }

    uint8_t digits_[max_digits];
    int64_t count_ = 0, point_ = 0;
    bool truncated_ = false;
};

}  // namespace

double nearest_float64(std::string_view text) {
    const bool negative = text[0] == '-';
    const double magnitude = Decimal(text.substr(negative)).nearest();
    return negative ? -magnitude : magnitude;
}

}  // namespace uwaga
