// The members of a JSON object, each read once with its bounds; unknown members are errors.
#pragma once

#include <cmath>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/failure.h"
#include "files/json.h"

namespace uwaga {

// Every function throws Failure, whose message names the location and the key.
class Fields {
  public:
    // `location` begins messages: a file, or a file and the key of the object with a dot.
    Fields(const Json& value, std::string location, Fault fault)
        : value_(value), location_(std::move(location)), fault_(fault) {
        if (!value.object()) refuse("", "must be an object");
    }

    bool has(std::string_view name) {
        const Json* const member = find(name);
        return member && !member->null();
    }
    // The value of a key that may be absent.
    const Json* find(std::string_view name) {
        used_.emplace(name);
        return value_.find(name);
    }
    const Json& value(std::string_view name) {
        const Json* const member = find(name);
        if (!member) refuse(name, "is missing");
        return *member;
    }
    int64_t integer(std::string_view name, int64_t min, int64_t max, std::optional<int64_t> fallback = {}) {
        const Json* const member = find(name);
        if (!member && fallback) return *fallback;
        const int64_t* const number = value(name).integer();
        if (!number || *number < min || *number > max)
            refuse(name, "must be a whole number from " + std::to_string(min) + " to " + std::to_string(max));
        return *number;
    }
    double number(std::string_view name, double min, double max, std::optional<double> fallback = {}) {
        const Json* const member = find(name);
        if (!member && fallback) return *fallback;
        double number = 0;
        if (!value(name).number(number) || !(number >= min && number <= max))
            refuse(name, "must be a number from " + bound(min) + " to " + bound(max));
        return number;
    }
    bool boolean(std::string_view name, std::optional<bool> fallback = {}) {
        const Json* const member = find(name);
        if (!member && fallback) return *fallback;
        const bool* const boolean = value(name).boolean();
        if (!boolean) refuse(name, "must be true or false");
        return *boolean;
    }
    std::string text(std::string_view name, std::optional<std::string> fallback = {}) {
        const Json* const member = find(name);
        if (!member && fallback) return *fallback;
        const std::string* const text = value(name).string();
        if (!text) refuse(name, "must be a string");
        return *text;
    }
    // The index of a string among those allowed; the fallback is the first.
    int choice(std::string_view name, std::initializer_list<std::string_view> allowed) {
        const std::string value = text(name, std::string(*allowed.begin()));
        std::string listed;
        int index = 0;
        for (const std::string_view option : allowed) {
            if (option == value) return index;
            listed += (index++ ? ", " : "") + std::string(option);
        }
        refuse(name, "must be one of " + listed);
    }
    // A member that has no meaning here, if it has any value.
    void ignore(std::initializer_list<std::string_view> names) { used_.insert(names.begin(), names.end()); }
    void check_all_used() const {
        for (const Json::Member& member : *value_.object()) {
            if (!used_.count(member.key)) refuse(member.key, "is unknown");
        }
    }
    // Names of the members that have not been used and are not off, off being null, false, 0 or empty.
    std::vector<std::string> unused() const {
        std::vector<std::string> names;
        for (const Json::Member& member : *value_.object()) {
            if (!used_.count(member.key) && !is_off(member.value)) names.push_back(member.key);
        }
        return names;
    }
    [[noreturn]] void refuse(std::string_view name, const std::string& message) const {
        throw Failure(fault_, location_ + std::string(name.substr(0, 60)) +
                                  (name.empty() && location_.empty() ? "the options " : " ") + message);
    }

  private:
    static bool is_off(const Json& value) {
        double number = 1;
        return value.null() || (value.boolean() && !*value.boolean()) ||
               (value.number(number) && number == 0) || (value.string() && value.string()->empty()) ||
               (value.array() && value.array()->empty()) || (value.object() && value.object()->empty());
    }
    // A bound of a number, which is whole or a power of ten.
    static std::string bound(double number) {
        const double size = std::abs(number);
        if (size < 1e15 && number == std::floor(number)) return std::to_string(static_cast<int64_t>(number));
        int exponent = 0;
        for (double power = 1; power < size / 5; power *= 10) ++exponent;
        for (double power = 1; power > size * 5; power /= 10) --exponent;
        return (number < 0 ? "-1e" : "1e") + std::to_string(exponent);
    }

    const Json& value_;
    const std::string location_;
    const Fault fault_;
    std::set<std::string, std::less<>> used_;
};

}  // namespace uwaga
