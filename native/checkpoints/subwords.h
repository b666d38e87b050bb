// The tokenisers of models: the counterparts of src/uwaga/tokenizers/tokeniser.py and marian.py.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/sentencepiece.h"

namespace uwaga {

struct SymbolIds {
    int32_t start = 0, end = 0, pad = 0, unknown = 0;
    bool operator==(const SymbolIds& other) const {
        return start == other.start && end == other.end && pad == other.pad && unknown == other.unknown;
    }
};

// A text that begins with the tag of a language that the model does not have.
struct WrongLanguage : std::invalid_argument {
    using std::invalid_argument::invalid_argument;
};

class Subwords {
  public:
    virtual ~Subwords() = default;

    // The ids of a text without the end symbol. `tag` is put before a text without one; "" for none. Throws
    // WrongLanguage.
    virtual std::vector<int32_t> encode(std::string_view text, const std::string& tag) const = 0;
    virtual std::string decode(const std::vector<int32_t>& tokens) const = 0;
    virtual std::string_view piece(int32_t id) const = 0;  // a zero byte follows its data
    virtual int32_t size() const = 0;

    // The ids of a text as the model reads them; `language` is the token of its language, -1 for none.
    virtual std::vector<int32_t> framed(std::vector<int32_t> ids, int32_t language) const;

    const SymbolIds& symbols() const { return symbols_; }
    // Tags of target languages (>>de<<, <2de>) by their codes; empty for a model of one language pair.
    const std::map<std::string, std::string>& languages() const { return languages_; }

  protected:
    void check_language(std::string_view tag) const;  // throws WrongLanguage

    SymbolIds symbols_;
    std::map<std::string, std::string> languages_;
};

// Of models that uwaga trained. Throws std::invalid_argument if the bytes are damaged or lack a special
// symbol.
std::shared_ptr<const Subwords> uwaga_subwords(std::string_view model);

// Of models of Marian, whose pieces `ids` number from 0.
std::shared_ptr<const Subwords> marian_subwords(std::shared_ptr<const SentencePiece> model,
                                                std::unordered_map<std::string, int32_t> ids,
                                                const SymbolIds& symbols);
// The same with the numbers of the SentencePiece model, which lacks a padding symbol: `pad`, the start symbol
// too. Throws std::invalid_argument if another special symbol is missing.
std::shared_ptr<const Subwords> marian_subwords(std::shared_ptr<const SentencePiece> model, int32_t pad);

// A special token that may be spelt in texts, with the white space before and after it if `lstrip` and
// `rstrip`; it is dropped from translations if `dropped`.
struct SpecialToken {
    int32_t id;
    std::string text;
    bool lstrip, rstrip, dropped;
};

// What surrounds a text: see Frame in src/uwaga/checkpoints/formats/uwaga/int8_config.py.
struct Frame {
    std::vector<int32_t> prefix, suffix;
    bool clean = false, strip = false;
    bool language_behind = false;  // the language's token comes last
    std::vector<SpecialToken> special;
};

// Of models whose pieces have the ids of a vocabulary, which may lack some of `size` ids.
std::shared_ptr<const Subwords> numbered_subwords(std::string_view model,
                                                  const std::unordered_map<std::string, int32_t>& ids,
                                                  int32_t size, const SymbolIds& symbols, Frame frame);

}  // namespace uwaga
