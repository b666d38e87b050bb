// The members of a JSON object, each read once with its bounds; what is unknown is an error.
#pragma once

#include <cmath>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "checkpoints/failure.h"
#include "files/json.h"

namespace uwaga {

// Every function throws Failure, whose message names the place and the key.
class Fields {
  public:
    // `place` begins messages: a file, or a file and the key of the object with a dot.
    Fields(const Json& value, std::string place, Fault fault) : value_(value), place_(std::move(place)), fault_(fault) {
        if (!value.object()) refuse("", "must be an object");
    }

    bool has(std::string_view name) {
        const Json* const found = find(name);
        return found && !found->null();
    }
    // The value of a key that may be absent.
    const Json* find(std::string_view name) {
        used_.emplace(name);
        return value_.find(name);
    }
    const Json& value(std::string_view name) {
        const Json* const found = find(name);
        if (!found) refuse(name, "is missing");
        return *found;
    }
    int64_t whole(std::string_view name, int64_t least, int64_t most, std::optional<int64_t> fallback = {}) {
        const Json* const found = find(name);
        if (!found && fallback) return *fallback;
        const int64_t* const number = value(name).integer();
        if (!number || *number < least || *number > most) refuse(name, "must be a whole number from " + std::to_string(least) + " to " + std::to_string(most));
        return *number;
    }
    double number(std::string_view name, double least, double most, std::optional<double> fallback = {}) {
        const Json* const found = find(name);
        if (!found && fallback) return *fallback;
        double number = 0;
        if (!value(name).number(number) || !(number >= least && number <= most)) refuse(name, "must be a number from " + bound(least) + " to " + bound(most));
        return number;
    }
    bool truth(std::string_view name, std::optional<bool> fallback = {}) {
        const Json* const found = find(name);
        if (!found && fallback) return *fallback;
        const bool* const truth = value(name).boolean();
        if (!truth) refuse(name, "must be true or false");
        return *truth;
    }
    std::string text(std::string_view name, std::optional<std::string> fallback = {}) {
        const Json* const found = find(name);
        if (!found && fallback) return *fallback;
        const std::string* const text = value(name).string();
        if (!text) refuse(name, "must be a string");
        return *text;
    }
    // The index of a string among those allowed; the fallback is the first.
    int choice(std::string_view name, std::initializer_list<std::string_view> allowed) {
        const std::string given = text(name, std::string(*allowed.begin()));
        std::string listed;
        int at = 0;
        for (const std::string_view one : allowed) {
            if (one == given) return at;
            listed += (at++ ? ", " : "") + std::string(one);
        }
        refuse(name, "must be one of " + listed);
    }
    // A member that has no meaning here, if it has any value.
    void pass(std::initializer_list<std::string_view> names) { used_.insert(names.begin(), names.end()); }
    void check_all_used() const {
        for (const Json::Member& member : *value_.object()) {
            if (!used_.count(member.key)) refuse(member.key, "is unknown");
        }
    }
    [[noreturn]] void refuse(std::string_view name, const std::string& message) const {
        throw Failure(fault_, place_ + std::string(name.substr(0, 60)) + (name.empty() && place_.empty() ? "the options " : " ") + message);
    }

  private:
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
    const std::string place_;
    const Fault fault_;
    std::set<std::string, std::less<>> used_;
};

}  // namespace uwaga
