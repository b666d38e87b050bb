#include "text/byte_pairs.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <stdexcept>

namespace uwaga {

namespace {

// The characters of the bytes 0 to 255: visible ones of Latin-1 stand for themselves, the others are U+0100
// and on.
struct Letters {
    std::array<uint32_t, 256> of_byte{};
    std::array<int16_t, 512> byte_of{};  // -1: no byte

    Letters() {
        byte_of.fill(-1);
        uint32_t next = 256;
        for (uint32_t byte = 0; byte < 256; ++byte) {
            const bool visible = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) ||
                                 byte >= 0xae;
            of_byte[byte] = visible ? byte : next++;
            byte_of[of_byte[byte]] = static_cast<int16_t>(byte);
        }
    }
};
const Letters& alphabet() {
    static const Letters alphabet;
    return alphabet;
}

void append_letter(std::string& text, uint8_t byte) {
    const uint32_t letter = alphabet().of_byte[byte];
    if (letter < 128) {
        text += static_cast<char>(letter);
    } else {
        text += static_cast<char>(0xc0 | letter >> 6);
        text += static_cast<char>(0x80 | (letter & 63));
    }
}

std::string spelling_of(std::string_view bytes) {
    std::string spelling;
    for (const char byte : bytes) append_letter(spelling, static_cast<uint8_t>(byte));
    return spelling;
}

std::size_t hash_of(int32_t left, int32_t right) {
    const uint64_t pair = static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 |
                          static_cast<uint32_t>(right);
    return static_cast<std::size_t>((pair * 0x9e3779b97f4a7c15u) >> 29);
}

}  // namespace

BytePairs::BytePairs(const std::vector<std::string_view>& pieces,
                     const std::vector<std::pair<std::string_view, std::string_view>>& merges,
                     bool whole_words)
    : whole_words_(whole_words), ids_(pieces.size()), merge_table_(table_size(merges.size()), none) {
    for (const std::string_view piece : pieces) {
        const int32_t id = size();
        pieces_.append(piece);
        if (!piece.empty() && !ids_.insert(pieces_, id))
            throw std::invalid_argument("two pieces are '" + std::string(piece) + "'");
    }
    for (std::size_t byte = 0; byte < 256; ++byte) {
        std::string letter;
        append_letter(letter, static_cast<uint8_t>(byte));
        byte_ids_[byte] = id_of(letter);
    }
    merges_.reserve(merges.size());
    std::string joined;
    for (const auto& [left, right] : merges) {
        joined.assign(left).append(right);
        const Merge merge{id_of(left), id_of(right), id_of(joined)};
        for (const auto& [part, id] : {std::pair(left, merge.left), std::pair(right, merge.right),
                                       std::pair(std::string_view(joined), merge.merged)}) {
            if (id == none)
                throw std::invalid_argument("a merge needs the piece '" + std::string(part) +
                                            "', which the vocabulary lacks");
        }
        add(merge);
    }
}

// A merge that is listed twice has its last position.
void BytePairs::add(const Merge& merge) {
    std::size_t slot = hash_of(merge.left, merge.right) & (merge_table_.size() - 1);
    for (; merge_table_[slot] != none; slot = (slot + 1) & (merge_table_.size() - 1)) {
        const Merge& existing = merges_[static_cast<std::size_t>(merge_table_[slot])];
        if (existing.left == merge.left && existing.right == merge.right) break;
    }
    merge_table_[slot] = static_cast<int32_t>(merges_.size());
    merges_.push_back(merge);
}

const BytePairs::Merge* BytePairs::merge(int32_t left, int32_t right) const {
    for (std::size_t slot = hash_of(left, right) & (merge_table_.size() - 1); merge_table_[slot] != none;
         slot = (slot + 1) & (merge_table_.size() - 1)) {
        const Merge& merge = merges_[static_cast<std::size_t>(merge_table_[slot])];
        if (merge.left == left && merge.right == right) return &merge;
    }
    return nullptr;
}

std::string BytePairs::letters() {
    std::string text;
    for (int byte = 0; byte < 256; ++byte) append_letter(text, static_cast<uint8_t>(byte));
    return text;
}

std::string_view BytePairs::piece(int32_t id) const {
    return id < 0 || id >= size() ? std::string_view() : pieces_[id];
}

std::string BytePairs::bytes(int32_t id) const {
    const std::string_view text = piece(id);
    std::string result;
    for (std::size_t position = 0; position < text.size(); ++position) {
        uint32_t letter = static_cast<uint8_t>(text[position]);
        if (letter >= 0xc0 && letter < 0xe0 && position + 1 < text.size())
            letter = (letter & 31) << 6 | (static_cast<uint8_t>(text[++position]) & 63);
        else if (letter >= 128) return std::string(text);
        if (letter >= alphabet().byte_of.size() || alphabet().byte_of[letter] < 0) return std::string(text);
        result += static_cast<char>(alphabet().byte_of[letter]);
    }
    return result;
}

std::vector<int32_t> BytePairs::encode(std::string_view word) const {
    if (whole_words_) {
        const int32_t id = id_of(spelling_of(word));
        if (id != none) return {id};
    }
    // A list of symbols, from which merged ones are removed; possible merges wait in the order of rank and
    // position.
    struct Symbol {
        int32_t id, before, after;
    };
    std::vector<Symbol> symbols;
    symbols.reserve(word.size());
    for (const char byte : word) {
        const int32_t id = byte_ids_[static_cast<uint8_t>(byte)],
                      position = static_cast<int32_t>(symbols.size());
        if (id != none) symbols.push_back({id, position - 1, position + 1});
    }
    if (symbols.empty()) return {};
    symbols.back().after = none;
    const int32_t count = static_cast<int32_t>(symbols.size());
    using PossibleMerge = std::pair<const Merge*, int32_t>;  // merges are in the order of their ranks
    std::priority_queue<PossibleMerge, std::vector<PossibleMerge>, std::greater<>> queue;
    const auto symbol = [&](int32_t position) -> Symbol& {
        return symbols[static_cast<std::size_t>(position)];
    };
    const auto propose = [&](int32_t position) {
        if (position == none || symbol(position).after == none) return;
        const Merge* matching_merge = merge(symbol(position).id, symbol(symbol(position).after).id);
        if (matching_merge) queue.emplace(matching_merge, position);
    };
    for (int32_t position = 0; position < count; ++position) propose(position);
    while (!queue.empty()) {
        const auto [candidate, position] = queue.top();
        queue.pop();
        Symbol& left = symbol(position);
        if (left.id == none || left.after == none) continue;
        Symbol& right = symbol(left.after);
        const Merge* current = merge(left.id, right.id);  // of other symbols, perhaps, which make the same
                                                          // piece
        if (!current || current->merged != candidate->merged) continue;
        left.id = current->merged;
        right.id = none;
        left.after = right.after;
        if (left.after != none) symbol(left.after).before = position;
        propose(left.before);
        propose(position);
    }
    std::vector<int32_t> ids;
    for (const Symbol& entry : symbols) {
        if (entry.id != none) ids.push_back(entry.id);
    }
    return ids;
}

std::vector<std::pair<int32_t, int32_t>> BytePairs::merges() const {
    std::vector<std::pair<int32_t, int32_t>> pairs;
    for (const Merge& merge : merges_) pairs.emplace_back(merge.left, merge.right);
    return pairs;
}

}  // namespace uwaga
