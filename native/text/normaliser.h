// SentencePiece's normalisation of texts: a character map, and its treatment of spaces.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/trie.h"

namespace uwaga {

constexpr std::string_view space_mark = "\xe2\x96\x81";        // U+2581, which stands for a space in pieces
constexpr std::string_view replacement_mark = "\xef\xbf\xbd";  // U+FFFD, for malformed UTF-8

// The NormalizerSpec of a model file.
struct NormaliserSpec {
    std::string character_map;
    bool add_prefix = true;           // a space before the text, or after it where pieces end in spaces
    bool remove_extra_spaces = true;  // at both ends, and all but one of several
    bool escape_spaces = true;        // to U+2581
    bool space_as_suffix = false;     // of the TrainerSpec
};

// Rules from sequences of characters to others: a double-array trie in the layout of Darts-clone
// (https://github.com/s-yata/darts-clone), followed by the strings that its values point to.
class CharacterMap {
  public:
    // Throws std::invalid_argument if the map is damaged.
    explicit CharacterMap(std::string_view compiled);

    bool empty() const { return units_.empty(); }
    // The result of the longest rule at the start of a text, and the bytes that it reads: 0 if there is no
    // rule.
    std::size_t longest_rule(std::string_view text, std::string_view& result) const;

  private:
    std::vector<uint32_t> units_;
    std::string results_;  // each ends in a zero byte
};

class Normaliser {
  public:
    explicit Normaliser(NormaliserSpec spec);

    // The text as the model reads it. `protected_strings` holds strings that are not changed. Without
    // `prefix` no space is added.
    std::string normalise(std::string_view text, const Trie& protected_strings, bool prefix = true) const;
    const NormaliserSpec& spec() const { return spec_; }

  private:
    std::string_view next(std::string_view& text, const Trie& protected_strings) const;

    NormaliserSpec spec_;
    CharacterMap map_;
};

}  // namespace uwaga
