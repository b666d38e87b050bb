// Prefixes and suffixes of strings, which std::string_view compares only from C++20.
#pragma once

#include <string_view>

namespace uwaga {

inline bool starts_with(std::string_view text, std::string_view prefix) {
    return text.substr(0, prefix.size()) == prefix;
}

inline bool ends_with(std::string_view text, std::string_view suffix) {
    return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

}  // namespace uwaga
