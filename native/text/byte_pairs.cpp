#include "text/byte_pairs.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <stdexcept>

namespace uwaga {

namespace {

// The characters of the bytes 0 to 255: visible ones of Latin-1 stand for themselves, the others are U+0100 and on.
struct Letters {
    std::array<uint32_t, 256> of_byte{};
    std::array<int16_t, 512> byte_of{};  // -1: no byte

    Letters() {
        byte_of.fill(-1);
        uint32_t next = 256;
        for (uint32_t byte = 0; byte < 256; ++byte) {
            const bool visible = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
            of_byte[byte] = visible ? byte : next++;
            byte_of[of_byte[byte]] = static_cast<int16_t>(byte);
        }
    }
};
const Letters& alphabet() {
    static const Letters made;
    return made;
}

void append_letter(std::string& to, uint8_t byte) {
    const uint32_t letter = alphabet().of_byte[byte];
    if (letter < 128) {
        to += static_cast<char>(letter);
    } else {
        to += static_cast<char>(0xc0 | letter >> 6);
        to += static_cast<char>(0x80 | (letter & 63));
    }
}

std::string spelt(std::string_view bytes) {
    std::string made;
    for (const char byte : bytes) append_letter(made, static_cast<uint8_t>(byte));
    return made;
}

std::size_t hash_of(int32_t left, int32_t right) {
    const uint64_t both = static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
    return static_cast<std::size_t>((both * 0x9e3779b97f4a7c15u) >> 29);
}

}  // namespace

BytePairs::BytePairs(const std::vector<std::string_view>& pieces, const std::vector<std::pair<std::string_view, std::string_view>>& merges, bool whole_words)
    : whole_words_(whole_words), ids_(pieces.size()), found_(table_size(merges.size()), none) {
    for (const std::string_view piece : pieces) {
        const int32_t id = size();
        pieces_.append(piece);
        if (!piece.empty() && !ids_.insert(pieces_, id)) throw std::invalid_argument("two pieces are '" + std::string(piece) + "'");
    }
    for (std::size_t byte = 0; byte < 256; ++byte) {
        std::string letter;
        append_letter(letter, static_cast<uint8_t>(byte));
        byte_ids_[byte] = id_of(letter);
    }
    merges_.reserve(merges.size());
    std::string both;
    for (const auto& [left, right] : merges) {
        both.assign(left).append(right);
        const Merge one{id_of(left), id_of(right), id_of(both)};
        for (const auto& [part, id] : {std::pair(left, one.left), std::pair(right, one.right), std::pair(std::string_view(both), one.made)}) {
            if (id == none) throw std::invalid_argument("a merge needs the piece '" + std::string(part) + "', which the vocabulary lacks");
        }
        add(one);
    }
}

// A merge that is listed twice has its last place.
void BytePairs::add(const Merge& merge) {
    std::size_t at = hash_of(merge.left, merge.right) & (found_.size() - 1);
    for (; found_[at] != none; at = (at + 1) & (found_.size() - 1)) {
        const Merge& other = merges_[static_cast<std::size_t>(found_[at])];
        if (other.left == merge.left && other.right == merge.right) break;
    }
    found_[at] = static_cast<int32_t>(merges_.size());
    merges_.push_back(merge);
}

const BytePairs::Merge* BytePairs::merge(int32_t left, int32_t right) const {
    for (std::size_t at = hash_of(left, right) & (found_.size() - 1); found_[at] != none; at = (at + 1) & (found_.size() - 1)) {
        const Merge& one = merges_[static_cast<std::size_t>(found_[at])];
        if (one.left == left && one.right == right) return &one;
    }
    return nullptr;
}

std::string BytePairs::letters() {
    std::string made;
    for (int byte = 0; byte < 256; ++byte) append_letter(made, static_cast<uint8_t>(byte));
    return made;
}

std::string_view BytePairs::piece(int32_t id) const { return id < 0 || id >= size() ? std::string_view() : pieces_[id]; }

std::string BytePairs::bytes(int32_t id) const {
    const std::string_view text = piece(id);
    std::string made;
    for (std::size_t at = 0; at < text.size(); ++at) {
        uint32_t letter = static_cast<uint8_t>(text[at]);
        if (letter >= 0xc0 && letter < 0xe0 && at + 1 < text.size()) letter = (letter & 31) << 6 | (static_cast<uint8_t>(text[++at]) & 63);
        else if (letter >= 128) return std::string(text);
        if (letter >= alphabet().byte_of.size() || alphabet().byte_of[letter] < 0) return std::string(text);
        made += static_cast<char>(alphabet().byte_of[letter]);
    }
    return made;
}

std::vector<int32_t> BytePairs::encode(std::string_view word) const {
    if (whole_words_) {
        const int32_t id = id_of(spelt(word));
        if (id != none) return {id};
    }
    // A list of symbols, in which a merged one is taken out; possible merges wait in the order of rank and place.
    struct Symbol {
        int32_t id, before, after;
    };
    std::vector<Symbol> symbols;
    symbols.reserve(word.size());
    for (const char byte : word) {
        const int32_t id = byte_ids_[static_cast<uint8_t>(byte)], at = static_cast<int32_t>(symbols.size());
        if (id != none) symbols.push_back({id, at - 1, at + 1});
    }
    if (symbols.empty()) return {};
    symbols.back().after = none;
    const int32_t count = static_cast<int32_t>(symbols.size());
    using Possible = std::pair<const Merge*, int32_t>;  // merges are in the order of their ranks
    std::priority_queue<Possible, std::vector<Possible>, std::greater<>> waiting;
    const auto symbol = [&](int32_t at) -> Symbol& { return symbols[static_cast<std::size_t>(at)]; };
    const auto offer = [&](int32_t at) {
        if (at == none || symbol(at).after == none) return;
        const Merge* possible = merge(symbol(at).id, symbol(symbol(at).after).id);
        if (possible) waiting.emplace(possible, at);
    };
    for (int32_t at = 0; at < count; ++at) offer(at);
    while (!waiting.empty()) {
        const auto [made, at] = waiting.top();
        waiting.pop();
        Symbol& left = symbol(at);
        if (left.id == none || left.after == none) continue;
        Symbol& right = symbol(left.after);
        const Merge* now = merge(left.id, right.id);  // of other symbols, perhaps, which make the same piece
        if (!now || now->made != made->made) continue;
        left.id = now->made;
        right.id = none;
        left.after = right.after;
        if (left.after != none) symbol(left.after).before = at;
        offer(left.before);
        offer(at);
    }
    std::vector<int32_t> ids;
    for (const Symbol& one : symbols) {
        if (one.id != none) ids.push_back(one.id);
    }
    return ids;
}

std::vector<std::pair<int32_t, int32_t>> BytePairs::merges() const {
    std::vector<std::pair<int32_t, int32_t>> pairs;
    for (const Merge& one : merges_) pairs.emplace_back(one.left, one.right);
    return pairs;
}

}  // namespace uwaga
