#include "files/yaml.h"

#include <stdexcept>
#include <string>

namespace uwaga {

namespace {

constexpr std::string_view spaces = " \t\r";

std::string_view trimmed(std::string_view text) {
    const std::size_t first = text.find_first_not_of(spaces);
    return first == std::string_view::npos ? std::string_view()
                                           : text.substr(first, text.find_last_not_of(spaces) - first + 1);
}

// The text that YAML's lines are translated to: JSON, whose reader then checks it.
class FlatYaml {
  public:
    explicit FlatYaml(std::string_view text) : remaining_(text) {}

    std::string json() {
        bool listed = false, empty_value = false;  // the key's value is a list; it has none yet
        std::string_view line;
        while (next_line(line)) {
            const std::string_view content = trimmed(line);
            if (content.empty() || content[0] == '#' || content == "---") continue;
            if (content == "-" || content.substr(0, 2) == "- ") {
                if (!empty_value && !listed) fail("an item without a key");
                json_ += listed ? "," : "[";
                listed = true;
                empty_value = false;
                scalar(trimmed(content.substr(1)));
                continue;
            }
            if (line[0] == ' ' || line[0] == '\t') fail("a nested value");
            if (listed) json_ += ']';
            if (empty_value) json_ += "null";
            listed = false;
            const std::size_t colon = content.find(':');
            if (colon == std::string_view::npos ||
                (colon + 1 < content.size() && spaces.find(content[colon + 1]) == std::string_view::npos))
                fail("a key without a value");
            json_ += json_.empty() ? "{" : ",";
            quoted(content.substr(0, colon));
            json_ += ':';
            const std::string_view value = trimmed(content.substr(colon + 1));
            empty_value = value.empty();
            if (!value.empty() && value[0] == '[') {
                list(value);
            } else if (!value.empty()) {
                scalar(value);
            }
        }
        if (listed) json_ += ']';
        if (empty_value) json_ += "null";
        return json_.empty() ? "{}" : json_ + "}";
    }

  private:
    bool next_line(std::string_view& line) {
        if (remaining_.empty()) return false;
        const std::size_t end = remaining_.find('\n');
        line = remaining_.substr(0, end);
        remaining_.remove_prefix(end == std::string_view::npos ? remaining_.size() : end + 1);
        ++line_number_;
        return true;
    }
    [[noreturn]] void fail(const std::string& message) const {
        throw std::invalid_argument("line " + std::to_string(line_number_) + ": " + message +
                                    ", which is not read here");
    }

    void list(std::string_view value) {
        if (value.back() != ']') fail("a list of several lines");
        std::string_view items = trimmed(value.substr(1, value.size() - 2));
        json_ += '[';
        for (bool first = true; !items.empty(); first = false) {
            const std::size_t comma = items.find(',');
            if (!first) json_ += ',';
            scalar(trimmed(items.substr(0, comma)));
            items.remove_prefix(comma == std::string_view::npos ? items.size() : comma + 1);
        }
        json_ += ']';
    }

    void scalar(std::string_view value) {
        if (value.empty() || value == "~" || value == "null") {
            json_ += "null";
            return;
        }
        const char first = value[0];
        if (first == '"' || first == '\'') {
            const std::string_view inner = value.substr(1, value.size() - 2);
            if (value.size() < 2 || value.back() != first || inner.find(first) != std::string_view::npos ||
                inner.find('\\') != std::string_view::npos)
                fail("a quoted value with escapes");
            return quoted(inner);
        }
        if (std::string_view("&*!|>{}[]%@`").find(first) != std::string_view::npos)
            fail("a value that begins with " + std::string(1, first));
        value = trimmed(value.substr(0, value.find(" #")));
        for (const auto& [word, truth] : {std::pair<std::string_view, const char*>("true", "true"),
                                          {"yes", "true"},
                                          {"on", "true"},
                                          {"false", "false"},
                                          {"no", "false"},
                                          {"off", "false"}}) {
            if (value == word) {
                json_ += truth;
                return;
            }
        }
        if (is_number(value)) {
            json_ += value;
        } else {
            quoted(value);
        }
    }

    // Whether it is a number in JSON's notation.
    static bool is_number(std::string_view value) {
        if (value.find_first_not_of("+-.0123456789eE") != std::string_view::npos) return false;
        try {
            double number = 0;
            return Json::read(value).number(number);
        } catch (const std::invalid_argument&) {
            return false;
        }
    }

    void quoted(std::string_view text) {
        json_ += '"';
        for (const char byte : text) {
            if (static_cast<unsigned char>(byte) < 0x20) fail("a control character");
            if (byte == '"' || byte == '\\') json_ += '\\';
            json_ += byte;
        }
        json_ += '"';
    }

    std::string_view remaining_;
    std::string json_;
    int line_number_ = 0;
};

}  // namespace

Json read_flat_yaml(std::string_view text) { return Json::read(FlatYaml(text).json()); }

}  // namespace uwaga
