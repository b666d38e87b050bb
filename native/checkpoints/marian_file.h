// The contents of Marian's files (Junczys-Dowmunt et al. 2018): tensors, settings, names of weights,
// shortlists. Python reads them through the binding, and marian_folder for hosts without Python.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/marian_files.h"
#include "checkpoints/model_files.h"

namespace uwaga {

// The number at any address.
template <class Number>
Number read_number(const char* bytes) {
    Number value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
}

constexpr std::string_view marian_settings_name = "special:model.yml";

// A tensor of a binary file. Quantised matrices (Kim et al. 2019, section 4) hold integers followed by the
// float32 that multiplied them.
struct MarianTensor {
    enum class Kind { f32, f16, f64, i8, quantised8, quantised16 };
    Kind kind = Kind::f32;
    std::vector<int64_t> shape;
    uint64_t start = 0;       // of its numbers in the file
    float multiplier = 0;     // of a quantised matrix
    bool weight = true;       // rather than settings, or a multiplier of activations
    bool transposed = false;  // the rows of the file are the last axis: of all quantised ones but embeddings

    bool quantised() const { return kind == Kind::quantised8 || kind == Kind::quantised16; }
    int64_t size() const {
        int64_t size = 1;
        for (const int64_t axis : shape) size *= axis;
        return size;
    }
    double scale() const { return 1.0 / static_cast<double>(multiplier); }
};

// Copies bytes of a file to memory.
using ReadBytes = std::function<void(uint64_t start, uint64_t count, char* to)>;

// The headers of a binary file, all of which are checked: sizes, multipliers, numbers of the processor's
// order.
class MarianFile {
  public:
    // Throws Failure, as the other functions.
    MarianFile(std::string path, uint64_t size, const ReadBytes& read);

    const std::string& path() const { return path_; }
    const std::map<std::string, MarianTensor, std::less<>>& tensors() const { return tensors_; }
    const MarianTensor* find(std::string_view name) const {
        const auto tensor = tensors_.find(name);
        return tensor == tensors_.end() ? nullptr : &tensor->second;
    }
    // Whether there are quantised weights.
    bool quantised() const;
    [[noreturn]] void refuse(const std::string& message) const {
        throw Failure(Fault::model, path_ + ": " + message);
    }

  private:
    void check_multipliers(const ReadBytes& read) const;

    const std::string path_;
    std::map<std::string, MarianTensor, std::less<>> tensors_;
};

struct MarianSettings {
    std::string model;         // the object "model" of uwaga's config.json
    int64_t guided_layer = 0;  // of the decoder, from 0, whose first head guided alignment trained
};
// `location`: of the settings, for messages.
MarianSettings read_marian_settings(const std::string& location, const Json& options);

// The location of one of uwaga's weights: tensors whose rows follow each other.
struct TensorLocation {
    std::vector<std::string> names;
    bool transposed = false;  // stored (inputs, outputs)
    int64_t rows = 0;  // that are stored, if fewer than the weight has; the others have the value `fill`
    float fill = 0;
    bool optional = false;  // zero if it is not stored
};

class MarianNames {
  public:
    // `source` and `target`: pieces as Marian counts them. `output_rows`: there is a tensor
    // marian_output_rows.
    MarianNames(const std::string& location, const Settings& settings, int64_t source, int64_t target,
                bool output_rows);
    TensorLocation location(const std::string& name) const;

  private:
    TensorLocation layer_location(const std::string& layer, std::string_view block, bool bias) const;

    const bool tied_embeddings_, tied_output_, pre_norm_, ssru_, average_, output_rows_;
    const int64_t source_, target_;
};
// The output matrix, if it is stored (outputs, inputs).
constexpr std::string_view marian_output_rows = "decoder_ff_logit_out_Wt";

// The options of Marian's decoder, or those of Firefox's models, which have a shortlist and no file of
// options. `location`: the folder, for messages.
Decoding read_marian_decoding(const std::string& location, const MarianFiles& files);

// The languages in the name of a model's file, such as model.enpt.intgemm.alphas.bin; empty if it has none.
std::pair<std::string, std::string> marian_languages(const std::string& name);

// A binary shortlist: common target tokens, the first so many, and those of each source token.
struct LexicalLists {
    int32_t common = 0;
    std::vector<int32_t> offsets, targets;  // offsets (source + 1)
};
LexicalLists read_lexical_lists(const std::string& path, std::string_view content, int64_t source,
                                int64_t target);
constexpr int64_t lexical_multiple = 8;  // Marian fills lists up to this, as its products need it

}  // namespace uwaga
