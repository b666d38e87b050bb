#include "text/normaliser.h"

#include <cstring>
#include <stdexcept>
#include <utility>

#include "text/affixes.h"
#include "text/utf8.h"

namespace uwaga {

namespace {

// The fields of a unit of the double array.
bool has_value(uint32_t unit) { return unit >> 8 & 1; }
uint32_t value_of(uint32_t unit) { return unit & 0x7fffffffu; }
// A value has the highest bit, and equals no byte.
uint32_t label_of(uint32_t unit) { return unit & 0x800000ffu; }
uint32_t offset_of(uint32_t unit) { return unit >> 10 << ((unit & 0x200u) >> 6); }

}  // namespace

CharacterMap::CharacterMap(std::string_view compiled) {
    if (compiled.empty()) return;
    uint32_t size = 0;
    if (compiled.size() <= sizeof size) throw std::invalid_argument("its character map is damaged");
    for (std::size_t byte = sizeof size; byte-- > 0;)
        size = size << 8 | static_cast<unsigned char>(compiled[byte]);
    compiled.remove_prefix(sizeof size);
    if (size >= compiled.size() || size < sizeof(uint32_t))
        throw std::invalid_argument("its character map is damaged");
    units_.resize(size / sizeof(uint32_t));
    for (std::size_t unit = 0; unit < units_.size(); ++unit) {
        for (std::size_t byte = sizeof(uint32_t); byte-- > 0;) {
            units_[unit] = units_[unit] << 8 |
                           static_cast<unsigned char>(compiled[unit * sizeof(uint32_t) + byte]);
        }
    }
    results_ = compiled.substr(size);
    results_.push_back('\0');
}

std::size_t CharacterMap::longest_rule(std::string_view text, std::string_view& result) const {
    std::size_t longest = 0;
    if (units_.empty()) return longest;
    uint32_t node = offset_of(units_[0]);
    for (std::size_t bytes_read = 0; bytes_read < text.size(); ++bytes_read) {
        const auto byte = static_cast<unsigned char>(text[bytes_read]);
        node ^= byte;
        if (node >= units_.size() || label_of(units_[node]) != byte) break;
        const uint32_t unit = units_[node];
        node ^= offset_of(unit);
        if (node >= units_.size()) break;
        if (!has_value(unit)) continue;
        const uint32_t value = value_of(units_[node]);
        if (value >= results_.size()) throw std::invalid_argument("its character map is damaged");
        result = results_.c_str() + value;
        longest = bytes_read + 1;
    }
    return longest;
}

Normaliser::Normaliser(NormaliserSpec spec) : spec_(std::move(spec)), map_(spec_.character_map) {}

// What the start of a text becomes; the text is shortened by it.
std::string_view Normaliser::next(std::string_view& text, const Trie& protected_strings) const {
    std::string_view result;
    std::size_t bytes_read = protected_strings.longest_prefix(text);
    if (bytes_read) result = text.substr(0, bytes_read);
    if (!bytes_read) bytes_read = map_.longest_rule(text, result);
    if (!bytes_read) {
        bytes_read = well_formed(text);
        result = bytes_read ? text.substr(0, bytes_read) : replacement_mark;
        bytes_read = std::max<std::size_t>(bytes_read, 1);
    }
    text.remove_prefix(bytes_read);
    return result;
}

std::string Normaliser::normalise(std::string_view text, const Trie& protected_strings, bool prefix) const {
    if (spec_.remove_extra_spaces) {
        for (std::string_view remaining = text; !text.empty(); text = remaining) {
            if (next(remaining, protected_strings) != " ") break;
        }
    }
    std::string result;
    if (text.empty()) return result;
    const std::string_view space = spec_.escape_spaces ? space_mark : " ";
    const bool add = prefix && spec_.add_prefix;
    result.reserve(text.size() * 3 / 2 + space.size());
    if (add && !spec_.space_as_suffix) result += space;
    bool after_space = spec_.remove_extra_spaces;
    while (!text.empty()) {
        std::string_view part = next(text, protected_strings);
        while (after_space && !part.empty() && part[0] == ' ') part.remove_prefix(1);
        if (part.empty()) continue;
        for (const char byte : part) {
            if (byte == ' ') result += space;
            else result += byte;
        }
        after_space = spec_.remove_extra_spaces && part.back() == ' ';
    }
    while (spec_.remove_extra_spaces && ends_with(result, space)) result.resize(result.size() - space.size());
    if (add && spec_.space_as_suffix) result += space;
    return result;
}

}  // namespace uwaga
