// UTF-8: lengths of characters and well-formedness (RFC 3629).
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace uwaga {

// Bytes of the character that begins with this byte, by its high bits; 1 for a continuation byte.
inline std::size_t character_bytes(char first) {
    const auto byte = static_cast<unsigned char>(first);
    return byte < 0xc0 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

// The first character of a text that is not empty; at its end, perhaps a part of one.
inline std::string_view first_character(std::string_view text) {
    return text.substr(0, std::min(text.size(), character_bytes(text[0])));
}

// Bytes of a well-formed character at the start of `text`, or 0: no overlong form, surrogate or code point
// above U+10FFFF.
inline std::size_t well_formed(std::string_view text) {
    if (text.empty()) return 0;
    const auto byte = [&](std::size_t index) { return static_cast<unsigned char>(text[index]); };
    if (byte(0) < 0x80) return 1;
    const std::size_t length = character_bytes(text[0]);
    if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < length) return 0;
    for (std::size_t index = 1; index < length; ++index) {
        if ((byte(index) & 0xc0) != 0x80) return 0;
    }
    if (byte(0) == 0xe0 && byte(1) < 0xa0) return 0;
    if (byte(0) == 0xed && byte(1) > 0x9f) return 0;
    if (byte(0) == 0xf0 && byte(1) < 0x90) return 0;
    if (byte(0) == 0xf4 && byte(1) > 0x8f) return 0;
    return length;
}

}  // namespace uwaga
