// Reader of JSON (RFC 8259) in memory: strict, in linear time, with a bound on the depth.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace uwaga {

class Json {
  public:
    static constexpr int max_depth = 64;  // arrays and objects within each other
    struct Member;

    Json() = default;
    // Throws std::invalid_argument, with the line and column, if the text is not JSON in UTF-8, if a key is
    // in an object twice, if a string holds half of a surrogate pair, if a number is beyond float64, or if it
    // is nested too deeply.
    static Json read(std::string_view text);

    // Each returns nullptr if the value is of another type.
    const bool* boolean() const { return std::get_if<bool>(&value_); }
    // Written without fraction or exponent.
    const int64_t* integer() const { return std::get_if<int64_t>(&value_); }
    const std::string* string() const { return std::get_if<std::string>(&value_); }
    const std::vector<Json>* array() const { return std::get_if<std::vector<Json>>(&value_); }
    // Sorted by key.
    const std::vector<Member>* object() const { return std::get_if<std::vector<Member>>(&value_); }
    bool null() const { return std::holds_alternative<std::nullptr_t>(value_); }
    // Whether it is a number of any kind, and which.
    bool number(double& result) const;

    // The value of a key, nullptr if it is absent or this is no object.
    const Json* find(std::string_view key) const;

  private:
    friend class JsonReader;
    std::variant<std::nullptr_t, bool, int64_t, double, std::string, std::vector<Json>, std::vector<Member>>
        value_ = nullptr;
};

struct Json::Member {
    std::string key;
    Json value;
};

}  // namespace uwaga
