// Byte-level BPE (Sennrich et al. 2016; Radford et al. 2019): words, given as bytes, become the ids of
// pieces.
//
// Splitting a text into words is not done here. The library `tokenizers` is the law: the same ids
// (tests/tokenizers/test_byte_pairs.py), in a tenth of its memory.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/pieces.h"

namespace uwaga {

class BytePairs {
  public:
    static constexpr int32_t none = PieceIds::none;

    // Pieces by id, in the spelling of vocabularies, where each byte is a visible character. Of two possible
    // merges, the earlier in the list is made first. With `whole_words`, a word that is a piece becomes its
    // id without merges. Bytes without a piece are left out, as by the library. Throws std::invalid_argument
    // if two pieces are equal, or a merge is of or makes no piece.
    BytePairs(const std::vector<std::string_view>& pieces,
              const std::vector<std::pair<std::string_view, std::string_view>>& merges, bool whole_words);

    static std::string letters();  // the characters of the bytes 0 to 255

    bool whole_words() const { return whole_words_; }
    int32_t size() const { return pieces_.size(); }
    std::string_view piece(int32_t id) const;  // empty if no piece has the id
    // The id of a piece; none if there is no such piece.
    int32_t id_of(std::string_view piece) const { return ids_.find(pieces_, piece); }
    std::string bytes(int32_t id) const;  // that a piece stands for
    std::vector<int32_t> encode(std::string_view word) const;
    std::vector<std::pair<int32_t, int32_t>> merges() const;  // the ids of each, in order

  private:
    struct Merge {
        int32_t left, right, merged;
    };

    const Merge* merge(int32_t left, int32_t right) const;
    void add(const Merge& merge);

    bool whole_words_;
    Pieces pieces_;
    PieceIds ids_;
    std::vector<Merge> merges_;
    std::vector<int32_t> merge_table_;  // a hash table of indices of merges_; none: free
    std::array<int32_t, 256> byte_ids_{};
};

}  // namespace uwaga
