#include "text/sentencepiece.h"

#include <algorithm>
#include <cfloat>
#include <queue>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "text/protobuf.h"
#include "text/utf8.h"

namespace uwaga {

namespace {

constexpr float unknown_penalty = 10;  // below the lowest score: the cost of an unknown character

void append_with_spaces(std::string& text, std::string_view piece) {
    for (std::size_t position; (position = piece.find(space_mark)) != std::string_view::npos;
         piece.remove_prefix(position + space_mark.size())) {
        text.append(piece.substr(0, position)).push_back(' ');
    }
    text += piece;
}

// Bytes spelled by byte pieces; malformed UTF-8 among them becomes U+FFFD, byte by byte.
void append_bytes(std::string& text, std::string& bytes) {
    for (std::string_view remaining = bytes; !remaining.empty();) {
        const std::size_t length = well_formed(remaining);
        text += length ? remaining.substr(0, length) : replacement_mark;
        remaining.remove_prefix(std::max<std::size_t>(length, 1));
    }
    bytes.clear();
}

}  // namespace

int byte_of(std::string_view piece) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    if (piece.size() != 6 || piece.substr(0, 3) != "<0x" || piece[5] != '>') return -1;
    const std::size_t high = digits.find(piece[3]), low = digits.find(piece[4]);
    if (high == std::string_view::npos || low == std::string_view::npos) return -1;
    return static_cast<int>(high * 16 + low);
}

SentencePiece::SentencePiece(std::string_view model) {
    read(model);
    index_pieces();
    normaliser_ = std::make_unique<Normaliser>(spec_);
    if (!reverse_spec_.character_map.empty()) reverse_ = std::make_unique<Normaliser>(reverse_spec_);
}

void SentencePiece::read(std::string_view model) {
    Field field;
    for (MessageReader reader(model); reader.next(field);) {
        if (field.number == 1) read_piece(field.bytes);
        if (field.number == 2) read_trainer(field.bytes);
        if (field.number == 3) read_normaliser(field.bytes, spec_);
        if (field.number == 5) read_normaliser(field.bytes, reverse_spec_);
    }
}

void SentencePiece::read_piece(std::string_view message) {
    std::string_view text;
    float score = 0;
    Kind kind = Kind::normal;
    Field field;
    for (MessageReader reader(message); reader.next(field);) {
        if (field.number == 1) text = field.bytes;
        if (field.number == 2) score = field.as_float();
        if (field.number == 3 && field.value >= 1 && field.value <= 6) kind = static_cast<Kind>(field.value);
    }
    pieces_.append(text);
    scores_.push_back(score);
    kinds_.push_back(kind);
}

void SentencePiece::read_trainer(std::string_view message) {
    Field field;
    for (MessageReader reader(message); reader.next(field);) {
        if (field.number == 3) {
            if (field.value < 1 || field.value > 4) throw std::invalid_argument("its algorithm is unknown");
            algorithm_ = static_cast<Algorithm>(field.value);
        }
        if (field.number == 24) spec_.space_as_suffix = field.flag();
        if (field.number == 35) byte_fallback_ = field.flag();
        if (field.number == 44) unknown_text_ = field.bytes;
        if (field.number == 46) start_piece_ = field.bytes;
        if (field.number == 47) end_piece_ = field.bytes;
        if (field.number == 48) pad_piece_ = field.bytes;
    }
}

void SentencePiece::read_normaliser(std::string_view message, NormaliserSpec& spec) {
    Field field;
    for (MessageReader reader(message); reader.next(field);) {
        if (field.number == 2) spec.character_map = field.bytes;
        if (field.number == 3) spec.add_prefix = field.flag();
        if (field.number == 4) spec.remove_extra_spaces = field.flag();
        if (field.number == 5) spec.escape_spaces = field.flag();
    }
}

// Check the pieces, and build the indices that find them.
void SentencePiece::index_pieces() {
    const auto is_normal = [](Kind kind) {
        return kind == Kind::normal || kind == Kind::user_defined || kind == Kind::unused;
    };
    const auto normal = static_cast<std::size_t>(std::count_if(kinds_.begin(), kinds_.end(), is_normal));
    normal_ = PieceIds(normal);
    special_ = PieceIds(kinds_.size() - normal);
    std::vector<std::pair<std::string_view, int32_t>> keys, user_defined;
    if (byte_fallback_) byte_ids_.assign(256, -1);
    lowest_ = FLT_MAX;
    highest_ = FLT_MIN;
    for (int32_t id = 0; id < size(); ++id) {
        const std::string_view text = pieces_[id];
        if (text.empty()) throw std::invalid_argument("piece " + std::to_string(id) + " is empty");
        if (!(is_normal(kind(id)) ? normal_ : special_).insert(pieces_, id)) {
            throw std::invalid_argument("piece " + std::to_string(id) + " is there twice");
        }
        if (is_normal(kind(id)) && algorithm_ == Algorithm::unigram) keys.emplace_back(text, id);
        if (kind(id) == Kind::user_defined) user_defined.emplace_back(text, id);
        if (kind(id) == Kind::normal) {
            lowest_ = std::min(lowest_, score(id));
            highest_ = std::max(highest_, score(id));
        }
        if (kind(id) == Kind::unknown) {
            if (unknown_ >= 0) throw std::invalid_argument("it has two unknown symbols");
            unknown_ = id;
        }
        if (kind(id) == Kind::byte) {
            const int byte = byte_of(text);
            if (byte < 0 || !byte_fallback_)
                throw std::invalid_argument("piece " + std::to_string(id) + " cannot be a byte");
            byte_ids_[static_cast<std::size_t>(byte)] = id;
        }
    }
    if (unknown_ < 0) throw std::invalid_argument("it has no unknown symbol");
    if (normal == 0) throw std::invalid_argument("it has no pieces");
    if (std::find(byte_ids_.begin(), byte_ids_.end(), -1) != byte_ids_.end())
        throw std::invalid_argument("it lacks pieces of bytes");
    if (algorithm_ == Algorithm::unigram) trie_ = Trie(std::move(keys));
    user_defined_ = Trie(std::move(user_defined));
}

int32_t SentencePiece::id_of(std::string_view piece) const {
    for (const PieceIds* ids : {&special_, &normal_}) {
        const int32_t id = ids->find(pieces_, piece);
        if (id != PieceIds::none) return id;
    }
    return unknown_;
}

int32_t SentencePiece::checked(int32_t id) const {
    if (id < 0 || id >= size()) throw std::out_of_range("no piece has the id " + std::to_string(id));
    return id;
}

int32_t SentencePiece::control_id(std::string_view piece) const {
    const int32_t id = id_of(piece);
    return kind(id) == Kind::control ? id : -1;
}

// The most probable segmentation: Viterbi's algorithm over the ends of pieces.
std::vector<SentencePiece::Part> SentencePiece::best_path(std::string_view text) const {
    struct End {  // of the best path to a byte
        float score = 0;
        std::size_t start = std::string_view::npos;
        int32_t id = -1;
    };
    std::vector<End> ends(text.size() + 1);
    const auto propose = [&](std::size_t start, std::size_t end, float score, int32_t id) {
        End& best = ends[end];
        const float sum = score + ends[start].score;
        if (best.start == std::string_view::npos || sum > best.score) best = {sum, start, id};
    };
    for (std::size_t start = 0; start < text.size();) {
        const std::size_t character = start + first_character(text.substr(start)).size();
        bool covered = false;  // whether some piece is the first character
        int32_t node = 0;
        for (std::size_t end = start + 1; end <= text.size(); ++end) {
            node = trie_.child(node, text[end - 1]);
            if (node == Trie::none) break;
            const int32_t id = trie_.value(node);
            if (id == Trie::none || kind(id) == Kind::unused) continue;
            const bool protected_piece = kind(id) == Kind::user_defined;  // taken whatever else is possible
            propose(start, end,
                    protected_piece ? static_cast<float>(end - start) * highest_ - 0.1f : score(id), id);
            covered |= end == character;
        }
        if (!covered) propose(start, character, lowest_ - unknown_penalty, unknown_);
        start = character;
    }
    std::vector<Part> parts;
    for (std::size_t end = text.size(); end > 0; end = ends[end].start) {
        parts.push_back({text.substr(ends[end].start, end - ends[end].start), ends[end].id});
    }
    std::reverse(parts.begin(), parts.end());
    return parts;
}

// Byte-pair encoding: of two neighbours whose concatenation is a piece, those of the highest score are merged
// first, and of equal ones the leftmost. Pieces that are unused serve as steps to longer ones, and are taken
// apart at the end.
std::vector<SentencePiece::Part> SentencePiece::merged(std::string_view text) const {
    constexpr int64_t none = -1;
    struct Symbol {
        std::string_view text;  // empty once it is part of the one before
        int64_t before, after;
        bool protected_symbol;  // user-defined: never merged
    };
    struct Pair {
        float score;
        int64_t left, right;
        std::size_t size;
        bool operator<(const Pair& other) const {
            return score < other.score || (score == other.score && left > other.left);
        }
    };
    std::vector<Symbol> symbols;
    for (std::string_view remaining = text; !remaining.empty();) {
        const std::size_t user_defined_length = user_defined_.longest_prefix(remaining);
        const std::string_view first = user_defined_length ? remaining.substr(0, user_defined_length)
                                                           : first_character(remaining);
        const auto index = static_cast<int64_t>(symbols.size());
        remaining.remove_prefix(first.size());
        symbols.push_back({first, index - 1, remaining.empty() ? none : index + 1, user_defined_length > 0});
    }
    const auto symbol = [&](int64_t index) -> Symbol& { return symbols[static_cast<std::size_t>(index)]; };
    std::priority_queue<Pair> pairs;
    std::unordered_map<std::string_view, std::size_t> left_sizes;  // of unused pieces: the size of the left
                                                                   // one
    const auto propose = [&](int64_t left, int64_t right) {
        if (left == none || right == none || symbol(left).protected_symbol || symbol(right).protected_symbol)
            return;
        const std::string_view joined(symbol(left).text.data(),
                                      symbol(left).text.size() + symbol(right).text.size());
        const int32_t id = normal_.find(pieces_, joined);
        if (id == PieceIds::none) return;
        pairs.push({score(id), left, right, joined.size()});
        if (kind(id) == Kind::unused) left_sizes[joined] = symbol(left).text.size();
    };
    for (std::size_t right = 1; right < symbols.size(); ++right)
        propose(static_cast<int64_t>(right) - 1, static_cast<int64_t>(right));
    while (!pairs.empty()) {
        const Pair pair = pairs.top();
        pairs.pop();
        Symbol &left = symbol(pair.left), &right = symbol(pair.right);
        if (left.text.empty() || right.text.empty() || left.text.size() + right.text.size() != pair.size)
            continue;
        left.text = {left.text.data(), pair.size};
        left.after = right.after;
        if (left.after != none) symbol(left.after).before = pair.left;
        right.text = {};
        propose(left.before, pair.left);
        propose(pair.left, left.after);
    }
    std::vector<Part> parts;
    std::vector<std::string_view> pending;
    for (int64_t index = symbols.empty() ? none : 0; index != none; index = symbol(index).after) {
        for (pending.push_back(symbol(index).text); !pending.empty();) {
            const std::string_view part = pending.back();
            pending.pop_back();
            const int32_t id = id_of(part);
            const auto left_size = kind(id) == Kind::unused ? left_sizes.find(part) : left_sizes.end();
            if (left_size == left_sizes.end()) {
                parts.push_back({part, id});
                continue;
            }
            pending.push_back(part.substr(left_size->second));
            pending.push_back(part.substr(0, left_size->second));
        }
    }
    return parts;
}

// A word begins with each space.
std::vector<SentencePiece::Part> SentencePiece::words(std::string_view text) const {
    std::vector<Part> parts;
    while (!text.empty()) {
        const std::string_view word = text.substr(0, text.find(space_mark, 1));
        parts.push_back({word, id_of(word)});
        text.remove_prefix(word.size());
    }
    return parts;
}

std::vector<SentencePiece::Part> SentencePiece::characters(std::string_view text) const {
    std::vector<Part> parts;
    while (!text.empty()) {
        const std::size_t user_defined_length = user_defined_.longest_prefix(text);
        const std::string_view character = user_defined_length ? text.substr(0, user_defined_length)
                                                               : first_character(text);
        parts.push_back({character, id_of(character)});
        text.remove_prefix(character.size());
    }
    return parts;
}

std::vector<SentencePiece::Part> SentencePiece::parts(std::string_view text) const {
    switch (algorithm_) {
        case Algorithm::unigram: return best_path(text);
        case Algorithm::bpe: return merged(text);
        case Algorithm::words: return words(text);
        case Algorithm::characters: break;
    }
    return characters(text);
}

std::vector<Segment> SentencePiece::segment(std::string_view text, bool prefix) const {
    const std::string normalised = normalise(text, prefix);
    std::vector<Segment> segments;
    bool after_unknown = false;
    for (const Part& part : parts(normalised)) {
        const bool is_unknown = kind(part.id) == Kind::unknown;
        if (is_unknown && byte_fallback_) {
            for (const char byte : part.text) {
                const int32_t id = byte_ids_[static_cast<unsigned char>(byte)];
                segments.push_back({std::string(piece(id)), id});
            }
        } else if (is_unknown && after_unknown) {
            segments.back().piece += part.text;  // a run of unknown characters is one symbol
        } else {
            segments.push_back({std::string(part.text), part.id});
        }
        after_unknown = is_unknown;
    }
    return segments;
}

std::vector<int32_t> SentencePiece::encode(std::string_view text, bool prefix) const {
    std::vector<int32_t> ids;
    for (const Segment& segment : segment(text, prefix)) ids.push_back(segment.id);
    return ids;
}

std::string SentencePiece::join(const std::vector<std::string_view>& pieces) const {
    std::string text, bytes;
    bool first = true, dropped = false;  // whether a space may still be dropped, and was by the last piece
    for (std::string_view part : pieces) {
        const int32_t id = id_of(part);
        if (kind(id) == Kind::byte) {
            bytes.push_back(static_cast<char>(byte_of(part)));
            continue;
        }
        append_bytes(text, bytes);
        first = first && !dropped && text.empty();
        dropped = false;
        if (kind(id) == Kind::control) continue;
        if (kind(id) == Kind::unknown) {
            text += piece(id) == part ? std::string_view(unknown_text_) : part;
            continue;
        }
        if (first && (spec_.add_prefix || spec_.remove_extra_spaces) &&
            part.substr(0, space_mark.size()) == space_mark) {
            part.remove_prefix(space_mark.size());
            dropped = !spec_.remove_extra_spaces;  // otherwise each space at the beginning is dropped
        }
        append_with_spaces(text, part);
    }
    append_bytes(text, bytes);
    return reverse_ ? reverse_->normalise(text, Trie()) : text;
}

std::string SentencePiece::decode(const std::vector<int32_t>& ids) const {
    std::vector<std::string_view> pieces;
    for (const int32_t id : ids) {
        pieces.push_back(piece(checked(id)));
    }
    return join(pieces);
}

}  // namespace uwaga
