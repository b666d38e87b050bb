#include "checkpoints/subwords.h"

#include <stdexcept>

#include "text/utf8.h"

namespace uwaga {

namespace {

constexpr std::string_view mark = "\xe2\x96\x81";  // SentencePiece uses it for spaces
constexpr const char *end_piece = "</s>", *unknown_piece = "<unk>", *pad_piece = "<pad>";

// The tag that a text begins with: <...> or >>...<<, without spaces or further brackets; empty for none.
std::string_view leading_tag(std::string_view text) {
    const bool marian = text.substr(0, 2) == ">>";
    if (!marian && text.substr(0, 1) != "<") return {};
    const std::size_t first = marian ? 2 : 1, last = text.find_first_of("<> \t\n\v\f\r", first);
    if (last == std::string_view::npos || last == first) return {};
    const std::string_view end = marian ? "<<" : ">";
    return text.substr(last, end.size()) == end ? text.substr(0, last + end.size()) : std::string_view();
}

// The language of a tag >>de<< or <2de>, empty for other tags.
std::string_view tag_language(std::string_view tag) {
    if (tag.substr(0, 2) == ">>") return tag.substr(2, tag.size() - 4);
    return tag.substr(0, 2) == "<2" && tag.size() > 3 ? tag.substr(2, tag.size() - 3) : std::string_view();
}

// Of models that uwaga trained: text that spells a special symbol is ordinary text, and U+2581 is encoded as bytes.
class Trained final : public Subwords {
  public:
    explicit Trained(std::string_view model) : pieces_(model) {
        symbols_ = {pieces_.start(), pieces_.end(), pieces_.pad(), pieces_.unknown()};
        if (symbols_.unknown < 0 || symbols_.start < 0 || symbols_.end < 0 || symbols_.pad < 0) throw std::invalid_argument("the tokeniser lacks a special symbol");
        for (int32_t id = 0; id < pieces_.size(); ++id) {
            const std::string_view piece = pieces_.piece(id);
            if (id == symbols_.start || id == symbols_.end || id == symbols_.pad || id == symbols_.unknown || leading_tag(piece).size() != piece.size() || piece.empty()) continue;
            const std::string_view language = tag_language(piece);
            if (!language.empty()) languages_[std::string(language)] = piece;
            if (!language.empty() || pieces_.control(id)) tags_.emplace(piece, id);
        }
        for (const char* byte : {"<0xE2>", "<0x96>", "<0x81>"}) mark_.push_back(pieces_.id_of(byte));
        for (const int32_t id : std::vector<int32_t>(mark_)) {
            if (id == symbols_.unknown) mark_ = {id};
        }
    }

    std::vector<int32_t> encode(std::string_view text, const std::string& tag) const override {
        std::vector<int32_t> ids;
        std::string_view rest = text;
        while (!tags_.empty()) {
            const std::string_view found = leading_tag(rest);
            const auto known = tags_.find(std::string(found));
            if (known == tags_.end()) {
                if (!tag_language(found).empty()) check_language(found);
                break;
            }
            ids.push_back(known->second);
            rest.remove_prefix(found.size());
            rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
        }
        if (ids.empty() && !tag.empty() && !text.empty()) ids.push_back(tags_.at(tag));
        if (rest.find(mark) == std::string_view::npos) {
            append(ids, rest, true);
            return ids;
        }
        const std::string spaced = " " + std::string(rest);
        rest = spaced;
        while (true) {
            const std::size_t at = rest.find(mark);
            if (at != 0 && !rest.empty()) append(ids, rest.substr(0, at), false);
            if (at == std::string_view::npos) return ids;
            ids.insert(ids.end(), mark_.begin(), mark_.end());
            rest.remove_prefix(at + mark.size());
        }
    }

    std::string decode(const std::vector<int32_t>& tokens) const override {
        std::vector<int32_t> kept;
        for (const int32_t token : tokens) {
            if (token != symbols_.start && token != symbols_.end && token != symbols_.pad) kept.push_back(token);
        }
        return kept.empty() ? std::string() : pieces_.decode(kept);
    }

    std::string_view piece(int32_t id) const override { return pieces_.piece(id); }
    int32_t size() const override { return pieces_.size(); }

  private:
    void append(std::vector<int32_t>& ids, std::string_view text, bool prefix) const {
        const std::vector<int32_t> own = pieces_.encode(text, prefix);
        ids.insert(ids.end(), own.begin(), own.end());
    }

    SentencePiece pieces_;
    std::vector<int32_t> mark_;             // ids of U+2581 in a text
    std::map<std::string, int32_t> tags_;  // that a text may begin with
};

// Bytes of the white space, as Python's str.strip() has it, at the beginning of a text; 0 for none.
std::size_t space_bytes(std::string_view text) {
    if (text.empty()) return 0;
    const auto first = static_cast<unsigned char>(text[0]);
    if (first == ' ' || (first >= 0x09 && first <= 0x0d) || (first >= 0x1c && first <= 0x1f)) return 1;
    for (const std::string_view space : {"\xc2\x85", "\xc2\xa0"}) {
        if (text.substr(0, 2) == space) return 2;
    }
    const std::string_view three = text.substr(0, 3);
    for (const std::string_view space : {"\xe1\x9a\x80", "\xe2\x80\xa8", "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"}) {
        if (three == space) return 3;
    }
    const bool general = three.size() == 3 && three.substr(0, 2) == "\xe2\x80";  // U+2000 to U+200A
    return general && static_cast<unsigned char>(three[2]) >= 0x80 && static_cast<unsigned char>(three[2]) <= 0x8a ? 3 : 0;
}

std::string stripped(std::string_view text) {
    while (const std::size_t bytes = space_bytes(text)) text.remove_prefix(bytes);
    std::size_t end = text.size();
    while (end > 0) {
        std::size_t last = end - 1;
        while (last > 0 && (static_cast<unsigned char>(text[last]) & 0xc0) == 0x80) --last;
        if (space_bytes(text.substr(last, end - last)) != end - last) break;
        end = last;
    }
    return std::string(text.substr(0, end));
}

class Marian final : public Subwords {
  public:
    Marian(std::shared_ptr<const SentencePiece> model, std::unordered_map<std::string, int32_t> ids, const SymbolIds& symbols) : pieces_(std::move(model)), ids_(std::move(ids)), texts_(ids_.size()) {
        symbols_ = symbols;
        for (const auto& [piece, id] : ids_) texts_[static_cast<std::size_t>(id)] = piece;
        find_languages();
    }
    Marian(std::shared_ptr<const SentencePiece> model, int32_t pad) : pieces_(std::move(model)), texts_(static_cast<std::size_t>(pad) + 1) {
        for (int32_t id = 0; id < pad; ++id) texts_[static_cast<std::size_t>(id)] = id < pieces_->size() ? std::string(pieces_->piece(id)) : "<unused" + std::to_string(id) + ">";
        texts_.back() = pad_piece;
        symbols_ = {pad, known_piece(end_piece), pad, known_piece(unknown_piece)};
        find_languages();
        direct_ = languages_.empty();
        if (direct_) return;
        for (int32_t id = 0; id < pad; ++id) ids_.emplace(piece(id), id);
        ids_[pad_piece] = pad;
    }

    std::vector<int32_t> encode(std::string_view text, const std::string& tag) const override {
        if (direct_) return pieces_->encode(text);
        std::vector<int32_t> ids;
        const std::size_t close = text.substr(0, 2) == ">>" ? text.find("<<", 2) : std::string_view::npos;
        std::string rest(text);
        if (close != std::string_view::npos) {
            const std::string lead(text.substr(0, close + 2));
            const auto known = ids_.find(lead);
            if (known == ids_.end() && !languages_.empty()) check_language(lead);
            ids.push_back(known == ids_.end() ? symbols_.unknown : known->second);
            rest.erase(0, lead.size());
        } else if (!tag.empty()) {
            ids.push_back(ids_.at(tag));
            rest.insert(0, " ");
        }
        for (const Segment& one : pieces_->segment(rest)) {
            const auto known = ids_.find(one.piece);
            ids.push_back(known == ids_.end() ? symbols_.unknown : known->second);
        }
        return ids;
    }

    std::string decode(const std::vector<int32_t>& tokens) const override {
        std::vector<std::string_view> kept;
        for (const int32_t token : tokens) {
            if (token != symbols_.end && token != symbols_.pad && token != symbols_.unknown) kept.push_back(piece(token));
        }
        std::string text = pieces_->join(kept);
        for (std::size_t at = 0; (at = text.find(mark, at)) != std::string::npos;) text.replace(at, mark.size(), " ");
        return stripped(text);
    }

    std::string_view piece(int32_t id) const override { return texts_[static_cast<std::size_t>(id)]; }
    int32_t size() const override { return static_cast<int32_t>(texts_.size()); }

  private:
    int32_t known_piece(const char* piece) const {
        const int32_t id = pieces_->id_of(piece);
        if (pieces_->piece(id) != piece) throw std::invalid_argument(std::string("the vocabulary lacks ") + piece);
        return id;
    }
    void find_languages() {
        for (const std::string& piece : texts_) {
            if (piece.size() >= 4 && piece.substr(0, 2) == ">>" && piece.substr(piece.size() - 2) == "<<") languages_[piece.substr(2, piece.size() - 4)] = piece;
        }
    }

    std::shared_ptr<const SentencePiece> pieces_;
    std::unordered_map<std::string, int32_t> ids_;
    std::vector<std::string> texts_;  // pieces by id
    bool direct_ = false;             // the ids of texts are those of the SentencePiece model, and no tag leads them
};

}  // namespace

void Subwords::check_language(std::string_view tag) const {
    if (languages_.empty()) return;
    std::string codes;
    for (const auto& language : languages_) codes += (codes.size() < 200 ? " " + language.first : "");
    throw WrongLanguage(std::string(tag.substr(0, 60)) + ": the model has no such target language; it has" + codes);
}

std::shared_ptr<const Subwords> uwaga_subwords(std::string_view model) { return std::make_shared<const Trained>(model); }

std::shared_ptr<const Subwords> marian_subwords(std::shared_ptr<const SentencePiece> model, std::unordered_map<std::string, int32_t> ids, const SymbolIds& symbols) {
    return std::make_shared<const Marian>(std::move(model), std::move(ids), symbols);
}
std::shared_ptr<const Subwords> marian_subwords(std::shared_ptr<const SentencePiece> model, int32_t pad) { return std::make_shared<const Marian>(std::move(model), pad); }

}  // namespace uwaga
