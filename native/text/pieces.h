// Compact storage for the pieces of a vocabulary (up to about 300,000), with lookup by id and by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace uwaga {

class Pieces {
  public:
    int32_t size() const { return static_cast<int32_t>(starts_.size()) - 1; }
    // The piece of an id below `size`; a zero byte follows its data.
    std::string_view operator[](int32_t id) const {
        const std::size_t index = static_cast<std::size_t>(id);
        return {text_.data() + starts_[index], starts_[index + 1] - starts_[index] - 1};
    }
    void append(std::string_view piece);  // gives it the next id; throws std::invalid_argument beyond 4 GB or
                                          // 2^31 - 1 pieces

  private:
    std::string text_;                    // the pieces, each with a zero byte at its end
    std::vector<uint32_t> starts_ = {0};  // of each in text_, and the end
};

// The size of a hash table, a power of 2, of which at most three quarters are used.
std::size_t table_size(std::size_t entries);

// Maps pieces to ids. It stores only ids, so each call takes their `Pieces`. It does not grow: `capacity` ids
// may be inserted.
class PieceIds {
  public:
    static constexpr int32_t none = -1;

    explicit PieceIds(std::size_t capacity = 0) : slots_(table_size(capacity), none) {}

    bool insert(const Pieces& pieces, int32_t id);  // false, and nothing changes, if an equal piece has an id
    // None if no id has it.
    int32_t find(const Pieces& pieces, std::string_view piece) const { return slots_[slot(pieces, piece)]; }

  private:
    std::size_t slot(const Pieces& pieces, std::string_view piece) const;  // where its id is, or would be

    std::vector<int32_t> slots_;
};

}  // namespace uwaga
