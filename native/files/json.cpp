#include "files/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "files/decimal.h"
#include "text/utf8.h"

namespace uwaga {

namespace {

void append_utf8(std::string& text, uint32_t point) {
    const auto add = [&](uint32_t byte) { text.push_back(static_cast<char>(byte)); };
    if (point < 0x80) return add(point);
    if (point < 0x800) {
        add(0xc0 | point >> 6);
    } else {
        if (point < 0x10000) {
            add(0xe0 | point >> 12);
        } else {
            add(0xf0 | point >> 18);
            add(0x80 | (point >> 12 & 0x3f));
        }
        add(0x80 | (point >> 6 & 0x3f));
    }
    add(0x80 | (point & 0x3f));
}

}  // namespace

class JsonReader {
  public:
    explicit JsonReader(std::string_view text) : text_(text) {}

    Json document() {
        Json value = this->value(0);
        skip_spaces();
        if (position_ < text_.size()) fail("more follows the value");
        return value;
    }

  private:
    [[noreturn]] void fail(const std::string& problem) const {
        std::size_t line = 1, column = 1;
        for (std::size_t position = 0; position < std::min(position_, text_.size()); ++position) {
            const auto byte = static_cast<unsigned char>(text_[position]);
            if (byte == '\n') {
                ++line;
                column = 1;
            } else if ((byte & 0xc0) != 0x80) {
                ++column;
            }
        }
        throw std::invalid_argument("not valid JSON: line " + std::to_string(line) + ", column " +
                                    std::to_string(column) + ": " + problem);
    }

    char peek() const { return position_ < text_.size() ? text_[position_] : '\0'; }
    bool take(char expected) {
        if (position_ >= text_.size() || text_[position_] != expected) return false;
        ++position_;
        return true;
    }
    void require(char expected) {
        if (!take(expected)) fail(std::string("'") + expected + "' is missing");
    }
    void skip_spaces() {
        while (position_ < text_.size() &&
               std::string_view(" \t\n\r").find(text_[position_]) != std::string_view::npos)
            ++position_;
    }
    bool take_word(std::string_view word) {
        if (text_.substr(position_, word.size()) != word) return false;
        position_ += word.size();
        return true;
    }

    Json value(int depth) {
        skip_spaces();
        Json result;
        const char first = peek();
        if (depth > Json::max_depth)
            fail("nested more than " + std::to_string(Json::max_depth) + " levels deep");
        if (first == '{') result.value_ = object(depth);
        else if (first == '[') result.value_ = array(depth);
        else if (first == '"') result.value_ = string();
        else if (first == '-' || is_digit(first)) number(result);
        else if (take_word("true")) result.value_ = true;
        else if (take_word("false")) result.value_ = false;
        else if (!take_word("null")) fail("a value is missing");
        return result;
    }

    std::vector<Json::Member> object(int depth) {
        const std::size_t start = position_++;
        std::vector<Json::Member> members;
        skip_spaces();
        if (take('}')) return members;
        do {
            skip_spaces();
            if (peek() != '"') fail("a key is missing");
            std::string key = string();
            skip_spaces();
            require(':');
            members.push_back({std::move(key), value(depth + 1)});
            skip_spaces();
        } while (take(','));
        require('}');
        std::sort(members.begin(), members.end(),
                  [](const Json::Member& a, const Json::Member& b) { return a.key < b.key; });
        const auto duplicate = std::adjacent_find(members.begin(), members.end(),
                                                  [](const Json::Member& a, const Json::Member& b) {
                                                      return a.key == b.key;
                                                  });
        if (duplicate != members.end()) {
            position_ = start;
            fail("the object has the key \"" + duplicate->key + "\" twice");
        }
        return members;
    }

    std::vector<Json> array(int depth) {
        ++position_;
        std::vector<Json> items;
        skip_spaces();
        if (take(']')) return items;
        do {
            items.push_back(value(depth + 1));
            skip_spaces();
        } while (take(','));
        require(']');
        return items;
    }

    std::string string() {
        ++position_;
        std::string result;
        while (!take('"')) {
            if (position_ == text_.size()) fail("the string does not end");
            if (static_cast<unsigned char>(text_[position_]) < 0x20)
                fail("a control character is not escaped");
            if (take('\\')) {
                escape(result);
                continue;
            }
            const std::size_t length = well_formed(text_.substr(position_));
            if (!length) fail("not UTF-8");
            result += text_.substr(position_, length);
            position_ += length;
        }
        return result;
    }

    void escape(std::string& result) {
        constexpr std::string_view letters = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
        if (take('u')) {
            uint32_t point = four_digits();
            if (point >= 0xd800 && point < 0xdc00 && take_word("\\u")) {
                const uint32_t low = four_digits();
                if (low < 0xdc00 || low > 0xdfff) fail("half of a surrogate pair");
                point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
            }
            if (point >= 0xd800 && point <= 0xdfff) fail("half of a surrogate pair");
            return append_utf8(result, point);
        }
        const std::size_t letter = position_ < text_.size() ? letters.find(text_[position_])
                                                            : std::string_view::npos;
        if (letter == std::string_view::npos) fail("no such escape sequence");
        result.push_back(meanings[letter]);
        ++position_;
    }

    uint32_t four_digits() {
        uint32_t value = 0;
        for (int digit = 0; digit < 4; ++digit, ++position_) {
            const char byte = peek();
            const char lower = static_cast<char>(byte | 0x20);
            if (is_digit(byte)) value = value * 16 + static_cast<uint32_t>(byte - '0');
            else if (lower >= 'a' && lower <= 'f')
                value = value * 16 + static_cast<uint32_t>(lower - 'a' + 10);
            else fail("\\u needs four hexadecimal digits");
        }
        return value;
    }

    void digits() {
        if (!is_digit(peek())) fail("a digit is missing");
        while (is_digit(peek())) ++position_;
    }

    void number(Json& result) {
        const std::size_t start = position_;
        take('-');
        if (!take('0')) digits();
        const std::size_t end = position_;
        if (take('.')) digits();
        if (take('e') || take('E')) {
            if (!take('-')) take('+');
            digits();
        }
        const std::string_view literal = text_.substr(start, position_ - start);
        if (position_ == end) {
            int64_t integer_value = 0;
            if (std::from_chars(literal.data(), literal.data() + literal.size(), integer_value).ec ==
                std::errc()) {
                result.value_ = integer_value;
                return;
            }
        }
        const double value = nearest_float64(literal);
        if (!std::isfinite(value)) {
            position_ = start;
            fail("the number is too large");
        }
        result.value_ = value;
    }

    std::string_view text_;
    std::size_t position_ = 0;
};

Json Json::read(std::string_view text) { return JsonReader(text).document(); }

bool Json::number(double& result) const {
    if (const auto* integer_value = integer()) result = static_cast<double>(*integer_value);
    else if (const auto* real = std::get_if<double>(&value_)) result = *real;
    else return false;
    return true;
}

const Json* Json::find(std::string_view key) const {
    const auto* members = object();
    if (!members) return nullptr;
    const auto match = std::lower_bound(members->begin(), members->end(), key,
                                        [](const Member& member, std::string_view expected) {
                                            return member.key < expected;
                                        });
    return match == members->end() || match->key != key ? nullptr : &match->value;
}

}  // namespace uwaga
