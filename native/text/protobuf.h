// Reader of the protocol buffers' wire format: the fields of a message, in the order of the file.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string_view>

namespace uwaga {

// A message that is cut short, or that is not in the wire format.
struct DamagedMessage : std::invalid_argument {
    DamagedMessage() : std::invalid_argument("damaged or not a SentencePiece model") {}
};

struct Field {
    uint64_t number = 0;
    uint64_t value = 0;           // of a varint or a fixed number
    std::string_view bytes = {};  // of a string, bytes or message

    bool flag() const { return value != 0; }
    float as_float() const {
        const auto bits = static_cast<uint32_t>(value);
        float number_of_bits;
        std::memcpy(&number_of_bits, &bits, sizeof number_of_bits);
        return number_of_bits;
    }
};

class MessageReader {
  public:
    explicit MessageReader(std::string_view message) : remaining_(message) {}

    // False at the end of the message. Throws DamagedMessage.
    bool next(Field& field) {
        if (remaining_.empty()) return false;
        const uint64_t key = varint();
        field = Field{key >> 3};
        switch (key & 7) {
            case 0: field.value = varint(); break;
            case 1: field.value = fixed(8); break;
            case 2: field.bytes = take(varint()); break;
            case 5: field.value = fixed(4); break;
            default: throw DamagedMessage();
        }
        return true;
    }

  private:
    std::string_view take(uint64_t count) {
        if (count > remaining_.size()) throw DamagedMessage();
        const std::string_view bytes = remaining_.substr(0, static_cast<std::size_t>(count));
        remaining_.remove_prefix(bytes.size());
        return bytes;
    }
    uint64_t fixed(uint64_t bytes) {
        uint64_t value = 0;
        int shift = 0;
        for (const char byte : take(bytes)) {
            value |= static_cast<uint64_t>(static_cast<unsigned char>(byte)) << shift;
            shift += 8;
        }
        return value;
    }
    uint64_t varint() {
        uint64_t value = 0;
        for (int shift = 0; shift < 64; shift += 7) {
            const auto byte = static_cast<unsigned char>(take(1)[0]);
            value |= static_cast<uint64_t>(byte & 0x7f) << shift;
            if (byte < 0x80) return value;
        }
        throw DamagedMessage();
    }

    std::string_view remaining_;
};

}  // namespace uwaga
