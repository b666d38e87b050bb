// The checksum of Marian's binary shortlists.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace uwaga {

// Over the 64-bit numbers that follow the first two; bytes beyond the last whole number are left out.
inline uint64_t lexical_checksum(std::string_view bytes) {
    uint64_t hash = 0, word = 0;
    for (std::size_t position = 0; position + sizeof word <= bytes.size(); position += sizeof word) {
        std::memcpy(&word, bytes.data() + position, sizeof word);
        hash ^= word + 0x9e3779b9u + (hash << 6) + (hash >> 2);
    }
    return hash;
}

}  // namespace uwaga
