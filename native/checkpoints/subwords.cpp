#include "checkpoints/subwords.h"

#include <stdexcept>

namespace uwaga {

namespace {

constexpr std::string_view mark = "\xe2\x96\x81";  // SentencePiece uses it for spaces

// Whether a piece names a language: >>de<< or <2de>.
bool names_language(std::string_view piece) {
    const bool marian = piece.size() > 4 && piece.substr(0, 2) == ">>" && piece.substr(piece.size() - 2) == "<<";
    const bool short_form = piece.size() > 3 && piece.substr(0, 2) == "<2" && piece.back() == '>';
    if (!marian && !short_form) return false;
    const std::string_view code = marian ? piece.substr(2, piece.size() - 4) : piece.substr(2, piece.size() - 3);
    return code.find_first_of("<> \t") == std::string_view::npos;
}

}  // namespace

Subwords::Subwords(std::string_view model) : pieces_(model) {
    if (pieces_.unknown() < 0 || pieces_.start() < 0 || pieces_.end() < 0 || pieces_.pad() < 0) throw std::invalid_argument("the tokeniser lacks a special symbol");
    for (int32_t id = 0; id < pieces_.size(); ++id) {
        if (names_language(pieces_.piece(id))) throw std::invalid_argument("the model has tags of languages (" + pieces_.piece(id) + "); translate with the Python package");
    }
    for (const char* byte : {"<0xE2>", "<0x96>", "<0x81>"}) mark_.push_back(pieces_.id_of(byte));
    for (const int32_t id : std::vector<int32_t>(mark_)) {
        if (id == pieces_.unknown()) mark_ = {id};
    }
}

std::vector<int32_t> Subwords::encode(std::string_view text) const {
    if (text.find(mark) == std::string_view::npos) return pieces_.encode(text);
    const std::string spaced = " " + std::string(text);
    std::string_view rest = spaced;
    std::vector<int32_t> ids;
    while (true) {
        const std::size_t at = rest.find(mark);
        const std::string_view part = rest.substr(0, at);
        if (!part.empty()) {
            const std::vector<int32_t> own = pieces_.encode(part, false);
            ids.insert(ids.end(), own.begin(), own.end());
        }
        if (at == std::string_view::npos) return ids;
        ids.insert(ids.end(), mark_.begin(), mark_.end());
        rest.remove_prefix(at + mark.size());
    }
}

std::string Subwords::decode(const std::vector<int32_t>& tokens) const {
    std::vector<int32_t> kept;
    for (const int32_t token : tokens) {
        if (token != pieces_.start() && token != pieces_.end() && token != pieces_.pad()) kept.push_back(token);
    }
    return kept.empty() ? std::string() : pieces_.decode(kept);
}

}  // namespace uwaga
