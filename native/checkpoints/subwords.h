// The tokeniser of a uwaga folder: the twin of src/uwaga/tokenizers/tokeniser.py without language tags.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/sentencepiece.h"

namespace uwaga {

class Subwords {
  public:
    // Throws std::invalid_argument if the bytes are damaged, lack a special symbol, or have language tags.
    explicit Subwords(std::string_view model);

    const SentencePiece& pieces() const { return pieces_; }
    std::vector<int32_t> encode(std::string_view text) const;  // without the end symbol
    std::string decode(const std::vector<int32_t>& tokens) const;

  private:
    SentencePiece pieces_;
    std::vector<int32_t> mark_;  // ids of U+2581 in a text
};

}  // namespace uwaga
