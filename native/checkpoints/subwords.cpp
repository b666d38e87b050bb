#include "checkpoints/subwords.h"

#include <array>
#include <set>
#include <stdexcept>

#include "text/utf8.h"

namespace uwaga {

namespace {

constexpr std::string_view space_mark_piece = "\xe2\x96\x81";  // SentencePiece uses it for spaces
constexpr const char *end_piece = "</s>", *unknown_piece = "<unk>", *pad_piece = "<pad>";

// The tag that a text begins with: <...> or >>...<<, without spaces or further brackets; empty for none.
std::string_view leading_tag(std::string_view text) {
    const bool marian = text.substr(0, 2) == ">>";
    if (!marian && text.substr(0, 1) != "<") return {};
    const std::size_t first = marian ? 2 : 1, close_start = text.find_first_of("<> \t\n\v\f\r", first);
    if (close_start == std::string_view::npos || close_start == first) return {};
    const std::string_view end = marian ? "<<" : ">";
    return text.substr(close_start, end.size()) == end ? text.substr(0, close_start + end.size())
                                                       : std::string_view();
}

// The language of a tag >>de<< or <2de>, empty for other tags.
std::string_view tag_language(std::string_view tag) {
    if (tag.substr(0, 2) == ">>") return tag.substr(2, tag.size() - 4);
    return tag.substr(0, 2) == "<2" && tag.size() > 3 ? tag.substr(2, tag.size() - 3) : std::string_view();
}

// Of models that uwaga trained: text that spells a special symbol is ordinary text, and U+2581 is encoded as
// bytes.
class TrainedSubwords final : public Subwords {
  public:
    explicit TrainedSubwords(std::string_view model) : pieces_(model) {
        symbols_ = {pieces_.start(), pieces_.end(), pieces_.pad(), pieces_.unknown()};
        if (symbols_.unknown < 0 || symbols_.start < 0 || symbols_.end < 0 || symbols_.pad < 0)
            throw std::invalid_argument("the tokeniser lacks a special symbol");
        for (int32_t id = 0; id < pieces_.size(); ++id) {
            const std::string_view piece = pieces_.piece(id);
            if (id == symbols_.start || id == symbols_.end || id == symbols_.pad || id == symbols_.unknown ||
                leading_tag(piece).size() != piece.size() || piece.empty())
                continue;
            const std::string_view language = tag_language(piece);
            if (!language.empty()) languages_[std::string(language)] = piece;
            if (!language.empty() || pieces_.control(id)) tags_.emplace(piece, id);
        }
        for (const char* byte : {"<0xE2>", "<0x96>", "<0x81>"}) mark_ids_.push_back(pieces_.id_of(byte));
        for (const int32_t id : std::vector<int32_t>(mark_ids_)) {
            if (id == symbols_.unknown) mark_ids_ = {id};
        }
    }

    std::vector<int32_t> encode(std::string_view text, const std::string& tag) const override {
        std::vector<int32_t> ids;
        std::string_view remaining = text;
        while (!tags_.empty()) {
            const std::string_view leading = leading_tag(remaining);
            const auto match = tags_.find(std::string(leading));
            if (match == tags_.end()) {
                if (!tag_language(leading).empty()) check_language(leading);
                break;
            }
            ids.push_back(match->second);
            remaining.remove_prefix(leading.size());
            remaining.remove_prefix(std::min(remaining.find_first_not_of(' '), remaining.size()));
        }
        if (ids.empty() && !tag.empty() && !text.empty()) ids.push_back(tags_.at(tag));
        if (remaining.find(space_mark_piece) == std::string_view::npos) {
            append(ids, remaining, true);
            return ids;
        }
        const std::string spaced = " " + std::string(remaining);
        remaining = spaced;
        while (true) {
            const std::size_t position = remaining.find(space_mark_piece);
            if (position != 0 && !remaining.empty()) append(ids, remaining.substr(0, position), false);
            if (position == std::string_view::npos) return ids;
            ids.insert(ids.end(), mark_ids_.begin(), mark_ids_.end());
            remaining.remove_prefix(position + space_mark_piece.size());
        }
    }

    std::string decode(const std::vector<int32_t>& tokens) const override {
        std::vector<int32_t> text_tokens;
        for (const int32_t token : tokens) {
            if (token != symbols_.start && token != symbols_.end && token != symbols_.pad)
                text_tokens.push_back(token);
        }
        return text_tokens.empty() ? std::string() : pieces_.decode(text_tokens);
    }

    std::string_view piece(int32_t id) const override { return pieces_.piece(id); }
    int32_t size() const override { return pieces_.size(); }

  private:
    void append(std::vector<int32_t>& ids, std::string_view text, bool prefix) const {
        const std::vector<int32_t> text_ids = pieces_.encode(text, prefix);
        ids.insert(ids.end(), text_ids.begin(), text_ids.end());
    }

    SentencePiece pieces_;
    std::vector<int32_t> mark_ids_;        // ids of U+2581 in a text
    std::map<std::string, int32_t> tags_;  // that a text may begin with
};

// Bytes of the white space, as Python's str.strip() has it, at the start of a text; 0 for none.
std::size_t space_bytes(std::string_view text) {
    if (text.empty()) return 0;
    const auto first = static_cast<unsigned char>(text[0]);
    if (first == ' ' || (first >= 0x09 && first <= 0x0d) || (first >= 0x1c && first <= 0x1f)) return 1;
    for (const std::string_view space : {"\xc2\x85", "\xc2\xa0"}) {
        if (text.substr(0, 2) == space) return 2;
    }
    const std::string_view first_three = text.substr(0, 3);
    for (const std::string_view space :
         {"\xe1\x9a\x80", "\xe2\x80\xa8", "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"}) {
        if (first_three == space) return 3;
    }
    const bool general_punctuation = first_three.size() == 3 &&
                                     first_three.substr(0, 2) == "\xe2\x80";  // U+2000 to U+200A
    return general_punctuation && static_cast<unsigned char>(first_three[2]) >= 0x80 &&
                   static_cast<unsigned char>(first_three[2]) <= 0x8a
               ? 3
               : 0;
}

std::string_view left_stripped(std::string_view text) {
    while (const std::size_t bytes = space_bytes(text)) text.remove_prefix(bytes);
    return text;
}

std::string_view right_stripped(std::string_view text) {
    std::size_t end = text.size();
    while (end > 0) {
        std::size_t last = end - 1;
        while (last > 0 && (static_cast<unsigned char>(text[last]) & 0xc0) == 0x80) --last;
        if (space_bytes(text.substr(last, end - last)) != end - last) break;
        end = last;
    }
    return text.substr(0, end);
}

std::string stripped(std::string_view text) { return std::string(right_stripped(left_stripped(text))); }

void replace_all(std::string& text, std::string_view before, std::string_view after) {
    std::string result;
    std::size_t start = 0;
    for (std::size_t position; (position = text.find(before, start)) != std::string::npos;
         start = position + before.size()) {
        result.append(text, start, position - start);
        result += after;
    }
    text = result.append(text, start, std::string::npos);
}

// See uwaga.tokenizers.framed.clean_up.
std::string cleaned_up(std::string text) {
    for (const std::string_view mark : {".", "?", "!", ","}) replace_all(text, " " + std::string(mark), mark);
    replace_all(text, " ' ", "'");
    for (const std::string_view ending : {"n't", "'m", "'s", "'ve", "'re"})
        replace_all(text, " " + std::string(ending), ending);
    return text;
}

class MarianSubwords final : public Subwords {
  public:
    MarianSubwords(std::shared_ptr<const SentencePiece> model, std::unordered_map<std::string, int32_t> ids,
                   const SymbolIds& symbols)
        : pieces_(std::move(model)), ids_(std::move(ids)), texts_(ids_.size()) {
        symbols_ = symbols;
        for (const auto& [piece, id] : ids_) texts_[static_cast<std::size_t>(id)] = piece;
        find_languages();
    }
    MarianSubwords(std::shared_ptr<const SentencePiece> model, int32_t pad)
        : pieces_(std::move(model)), texts_(static_cast<std::size_t>(pad) + 1) {
        for (int32_t id = 0; id < pad; ++id)
            texts_[static_cast<std::size_t>(id)] = id < pieces_->size()
                                                       ? std::string(pieces_->piece(id))
                                                       : "<unused" + std::to_string(id) + ">";
        texts_.back() = pad_piece;
        symbols_ = {pad, required_piece(end_piece), pad, required_piece(unknown_piece)};
        find_languages();
        uses_piece_ids_ = languages_.empty();
        if (uses_piece_ids_) return;
        for (int32_t id = 0; id < pad; ++id) ids_.emplace(piece(id), id);
        ids_[pad_piece] = pad;
    }

    std::vector<int32_t> encode(std::string_view text, const std::string& tag) const override {
        if (uses_piece_ids_) return pieces_->encode(text);
        std::vector<int32_t> ids;
        const std::size_t close = text.substr(0, 2) == ">>" ? text.find("<<", 2) : std::string_view::npos;
        std::string remaining(text);
        if (close != std::string_view::npos) {
            const std::string leading(text.substr(0, close + 2));
            const auto match = ids_.find(leading);
            if (match == ids_.end() && !languages_.empty()) check_language(leading);
            ids.push_back(match == ids_.end() ? symbols_.unknown : match->second);
            remaining.erase(0, leading.size());
        } else if (!tag.empty()) {
            ids.push_back(ids_.at(tag));
            remaining.insert(0, " ");
        }
        for (const Segment& segment : pieces_->segment(remaining)) {
            const auto match = ids_.find(segment.piece);
            ids.push_back(match == ids_.end() ? symbols_.unknown : match->second);
        }
        return ids;
    }

    std::string decode(const std::vector<int32_t>& tokens) const override {
        std::vector<std::string_view> text_pieces;
        for (const int32_t token : tokens) {
            if (token != symbols_.end && token != symbols_.pad && token != symbols_.unknown)
                text_pieces.push_back(piece(token));
        }
        std::string text = pieces_->join(text_pieces);
        replace_all(text, space_mark_piece, " ");
        return stripped(text);
    }

    std::string_view piece(int32_t id) const override { return texts_[static_cast<std::size_t>(id)]; }
    int32_t size() const override { return static_cast<int32_t>(texts_.size()); }

  private:
    int32_t required_piece(const char* piece) const {
        const int32_t id = pieces_->id_of(piece);
        if (pieces_->piece(id) != piece)
            throw std::invalid_argument(std::string("the vocabulary lacks ") + piece);
        return id;
    }
    void find_languages() {
        for (const std::string& piece : texts_) {
            if (piece.size() >= 4 && piece.substr(0, 2) == ">>" && piece.substr(piece.size() - 2) == "<<")
                languages_[piece.substr(2, piece.size() - 4)] = piece;
        }
    }

    std::shared_ptr<const SentencePiece> pieces_;
    std::unordered_map<std::string, int32_t> ids_;
    std::vector<std::string> texts_;  // pieces by id
    bool uses_piece_ids_ = false;  // the ids of texts are those of the SentencePiece model, and no tag leads
                                   // them
};

// Splits a text at special tokens, with the longest match: see uwaga.tokenizers.codecs.SpecialSplitter.
class SpecialSplitter {
  public:
    explicit SpecialSplitter(const std::vector<SpecialToken>& tokens) {
        for (const SpecialToken& token : tokens) {
            tokens_[token.text] = &token;
            lengths_.insert(token.text.size());
            first_[static_cast<unsigned char>(token.text[0])] = true;
        }
    }

    // Calls `on_text` and `on_token` for the parts in their order.
    template <class OnText, class OnToken>
    void split(std::string_view text, const OnText& on_text, const OnToken& on_token) const {
        std::size_t start = 0;
        bool strip = false;
        for (std::size_t position = 0; position < text.size();) {
            const SpecialToken* const token = match(text.substr(position));
            if (!token) {
                ++position;
                continue;
            }
            std::string_view part = text.substr(start, position - start);
            if (strip) part = left_stripped(part);
            if (token->lstrip) part = right_stripped(part);
            if (!part.empty()) on_text(part);
            on_token(token->id);
            start = position += token->text.size();
            strip = token->rstrip;
        }
        const std::string_view part = strip ? left_stripped(text.substr(start)) : text.substr(start);
        if (!part.empty()) on_text(part);
    }

  private:
    const SpecialToken* match(std::string_view text) const {
        if (!first_[static_cast<unsigned char>(text[0])]) return nullptr;
        for (auto length = lengths_.rbegin(); length != lengths_.rend(); ++length) {
            if (*length > text.size()) continue;
            const auto token = tokens_.find(std::string(text.substr(0, *length)));
            if (token != tokens_.end()) return token->second;
        }
        return nullptr;
    }

    std::unordered_map<std::string, const SpecialToken*> tokens_;
    std::set<std::size_t> lengths_;
    std::array<bool, 256> first_{};
};

// The counterpart of uwaga.tokenizers.framed.FramedTokeniser with a SentencePieceCodec.
class NumberedSubwords final : public Subwords {
  public:
    NumberedSubwords(std::string_view model, const std::unordered_map<std::string, int32_t>& ids,
                     int32_t size, const SymbolIds& symbols, Frame frame)
        : pieces_(model), frame_(std::move(frame)), splitter_(frame_.special),
          texts_(static_cast<std::size_t>(size)), dropped_(static_cast<std::size_t>(size)) {
        symbols_ = symbols;
        for (const auto& [piece, id] : ids) texts_[static_cast<std::size_t>(id)] = piece;
        for (int32_t id = 0; id < pieces_.size(); ++id) {
            const auto match = ids.find(std::string(pieces_.piece(id)));
            ids_.push_back(match == ids.end() ? symbols_.unknown : match->second);
            bytes_ = bytes_ || (id < byte_pieces && pieces_.byte(id));
        }
        dropped_[static_cast<std::size_t>(symbols_.unknown)] = true;
        for (const SpecialToken& token : frame_.special) {
            texts_[static_cast<std::size_t>(token.id)] = token.text;
            if (token.dropped) dropped_[static_cast<std::size_t>(token.id)] = true;
        }
        for (int32_t id = 0; id < size; ++id) {
            if (!piece(id).empty()) continue;
            texts_[static_cast<std::size_t>(id)] = "<unused " + std::to_string(id) + ">";
            dropped_[static_cast<std::size_t>(id)] = true;
        }
    }

    std::vector<int32_t> encode(std::string_view text, const std::string&) const override {
        std::vector<int32_t> ids;
        splitter_.split(
            text,
            [&](std::string_view part) {
                for (const int32_t id : pieces_.encode(part))
                    ids.push_back(ids_[static_cast<std::size_t>(id)]);
            },
            [&](int32_t id) { ids.push_back(id); });
        return ids;
    }

    std::vector<int32_t> framed(std::vector<int32_t> ids, int32_t language) const override {
        std::vector<int32_t> result = frame_.prefix;
        if (language >= 0 && !frame_.language_behind) result.push_back(language);
        result.insert(result.end(), ids.begin(), ids.end());
        result.insert(result.end(), frame_.suffix.begin(), frame_.suffix.end());
        if (language >= 0 && frame_.language_behind) result.push_back(language);
        return result;
    }

    std::string decode(const std::vector<int32_t>& tokens) const override {
        std::vector<std::string_view> text_pieces;
        std::string text;
        for (const int32_t token : tokens) {
            if (dropped_[static_cast<std::size_t>(token)]) continue;
            text_pieces.push_back(piece(token));
            text += text_pieces.back();
        }
        if (text_pieces.empty()) return {};
        if (frame_.strip || bytes_) {
            text = pieces_.join(text_pieces);
            if (frame_.strip) text = stripped(text);
        } else {
            if (text.substr(0, space_mark_piece.size()) == space_mark_piece)
                text.erase(0, space_mark_piece.size());
            replace_all(text, space_mark_piece, " ");
        }
        return frame_.clean ? cleaned_up(std::move(text)) : text;
    }

    std::string_view piece(int32_t id) const override { return texts_[static_cast<std::size_t>(id)]; }
    int32_t size() const override { return static_cast<int32_t>(texts_.size()); }

  private:
    static constexpr int32_t byte_pieces = 300;  // among which byte pieces begin, if there are any

    SentencePiece pieces_;
    const Frame frame_;
    const SpecialSplitter splitter_;
    std::vector<int32_t> ids_;        // by the number of the piece in the model
    std::vector<std::string> texts_;  // pieces by id
    std::vector<bool> dropped_;       // by id
    bool bytes_ = false;
};

}  // namespace

std::vector<int32_t> Subwords::framed(std::vector<int32_t> ids, int32_t) const {
    ids.push_back(symbols_.end);
    return ids;
}

void Subwords::check_language(std::string_view tag) const {
    if (languages_.empty()) return;
    std::string codes;
    for (const auto& language : languages_) codes += (codes.size() < 200 ? " " + language.first : "");
    throw WrongLanguage(std::string(tag.substr(0, 60)) + ": the model has no such target language; it has" +
                        codes);
}

std::shared_ptr<const Subwords> uwaga_subwords(std::string_view model) {
    return std::make_shared<const TrainedSubwords>(model);
}

std::shared_ptr<const Subwords> marian_subwords(std::shared_ptr<const SentencePiece> model,
                                                std::unordered_map<std::string, int32_t> ids,
                                                const SymbolIds& symbols) {
    return std::make_shared<const MarianSubwords>(std::move(model), std::move(ids), symbols);
}
std::shared_ptr<const Subwords> marian_subwords(std::shared_ptr<const SentencePiece> model, int32_t pad) {
    return std::make_shared<const MarianSubwords>(std::move(model), pad);
}

std::shared_ptr<const Subwords> numbered_subwords(std::string_view model,
                                                  const std::unordered_map<std::string, int32_t>& ids,
                                                  int32_t size, const SymbolIds& symbols, Frame frame) {
    return std::make_shared<const NumberedSubwords>(model, ids, size, symbols, std::move(frame));
}

}  // namespace uwaga
