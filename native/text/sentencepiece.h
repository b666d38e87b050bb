// SentencePiece tokenisers (Kudo and Richardson 2018): a model file read, texts segmented and joined.
//
// Unigram models take the most probable segmentation (Kudo 2018), BPE models merge by rank (Sennrich et al.
// 2016), others know whole words or single characters. The library `sentencepiece` is the law: the same ids
// and texts (tests/tokenizers/test_native_sentencepiece.py).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/normaliser.h"
#include "text/pieces.h"
#include "text/trie.h"

namespace uwaga {

// A piece of a text and its id. The piece of the unknown symbol is the part of the text.
struct Segment {
    std::string piece;
    int32_t id;
};

// The byte that a piece such as <0x0A> stands for, or -1.
int byte_of(std::string_view piece);

class SentencePiece {
  public:
    // Throws std::invalid_argument if the bytes are damaged.
    explicit SentencePiece(std::string_view model);
    SentencePiece(const SentencePiece&) = delete;
    SentencePiece& operator=(const SentencePiece&) = delete;

    int32_t size() const { return pieces_.size(); }
    // Ids of the special symbols, -1 for those that the model lacks.
    int32_t unknown() const { return unknown_; }
    int32_t start() const { return control_id(start_piece_); }
    int32_t end() const { return control_id(end_piece_); }
    int32_t pad() const { return control_id(pad_piece_); }

    std::string_view piece(int32_t id) const { return pieces_[id]; }  // a zero byte follows its data
    bool control(int32_t id) const { return kind(id) == Kind::control; }
    bool byte(int32_t id) const { return kind(id) == Kind::byte; }
    int32_t id_of(std::string_view piece) const;  // the unknown symbol's if there is no such piece
    int32_t checked(int32_t id) const;            // throws std::out_of_range if no piece has it

    // A text as the pieces spell it. Without `prefix` no space is added, here and below.
    std::string normalise(std::string_view text, bool prefix = true) const {
        return normaliser_->normalise(text, user_defined_, prefix);
    }
    // The segments of a text in UTF-8, in which malformed bytes become U+FFFD.
    std::vector<Segment> segment(std::string_view text, bool prefix = true) const;
    std::vector<int32_t> encode(std::string_view text, bool prefix = true) const;
    // The text of pieces, or of ids, which must be those of pieces.
    std::string join(const std::vector<std::string_view>& pieces) const;
    std::string decode(const std::vector<int32_t>& ids) const;

  private:
    enum class Algorithm : uint8_t { unigram = 1, bpe = 2, words = 3, characters = 4 };
    enum class Kind : uint8_t {
        normal = 1,
        unknown = 2,
        control = 3,
        user_defined = 4,
        unused = 5,
        byte = 6
    };
    struct Part {  // of a normalised text
        std::string_view text;
        int32_t id;
    };

    void read(std::string_view model);
    void read_piece(std::string_view message);
    void read_trainer(std::string_view message);
    static void read_normaliser(std::string_view message, NormaliserSpec& spec);
    void index_pieces();
    float score(int32_t id) const { return scores_[static_cast<std::size_t>(id)]; }
    Kind kind(int32_t id) const { return kinds_[static_cast<std::size_t>(id)]; }
    int32_t control_id(std::string_view piece) const;
    std::vector<Part> best_path(std::string_view text) const;
    std::vector<Part> merged(std::string_view text) const;
    std::vector<Part> words(std::string_view text) const;
    std::vector<Part> characters(std::string_view text) const;
    std::vector<Part> parts(std::string_view text) const;

    Pieces pieces_;
    std::vector<float> scores_;      // by id
    std::vector<Kind> kinds_;        // by id
    PieceIds normal_, special_;      // a special symbol may be spelt as a normal piece is
    std::vector<int32_t> byte_ids_;  // (256,), empty without byte fallback
    Trie trie_, user_defined_;
    float lowest_ = 0, highest_ = 0;  // score of a normal piece
    int32_t unknown_ = -1;
    Algorithm algorithm_ = Algorithm::unigram;
    bool byte_fallback_ = false;
    std::string unknown_text_ = " \xe2\x81\x87 ", start_piece_ = "<s>", end_piece_ = "</s>",
                pad_piece_ = "<pad>";
    NormaliserSpec spec_, reverse_spec_;  // as read; reverse: of decoded texts
    std::unique_ptr<Normaliser> normaliser_, reverse_;
};

}  // namespace uwaga
