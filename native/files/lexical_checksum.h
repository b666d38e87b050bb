// The checksum of Marian's binary shortlists.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace uwaga {

// Over the 64-bit numbers of what follows the first two; bytes beyond the last whole number are left out.
inline uint64_t lexical_checksum(std::string_view bytes) {
    uint64_t hash = 0, word = 0;
    for (std::size_t at = 0; at + sizeof word <= bytes.size(); at += sizeof word) {
        std::memcpy(&word, bytes.data() + at, sizeof word);
        hash ^= word + 0x9e3779b9u + (hash << 6) + (hash >> 2);
    }
    return hash;
}

}  // namespace uwaga
