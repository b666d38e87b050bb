#include "text/pieces.h"

#include <functional>
#include <limits>
#include <stdexcept>

namespace uwaga {

void Pieces::append(std::string_view piece) {
    if (text_.size() + piece.size() >= std::numeric_limits<uint32_t>::max() ||
        size() == std::numeric_limits<int32_t>::max())
        throw std::invalid_argument("the pieces are too many");
    text_.append(piece).push_back('\0');
    starts_.push_back(static_cast<uint32_t>(text_.size()));
}

std::size_t table_size(std::size_t entries) {
    std::size_t size = 16;
    while (3 * size < 4 * entries) size *= 2;
    return size;
}

bool PieceIds::insert(const Pieces& pieces, int32_t id) {
    const std::size_t slot_index = slot(pieces, pieces[id]);
    if (slots_[slot_index] != none) return false;
    slots_[slot_index] = id;
    return true;
}

std::size_t PieceIds::slot(const Pieces& pieces, std::string_view piece) const {
    std::size_t slot_index = std::hash<std::string_view>{}(piece) & (slots_.size() - 1);
    while (slots_[slot_index] != none && pieces[slots_[slot_index]] != piece)
        slot_index = (slot_index + 1) & (slots_.size() - 1);
    return slot_index;
}

}  // namespace uwaga
