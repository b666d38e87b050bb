// Models of files, read without Python: uwaga's own folders and those of Marian, such as Firefox's.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/failure.h"
#include "checkpoints/settings.h"
#include "checkpoints/subwords.h"
#include "network/network.h"
#include "output/shortlist.h"

namespace uwaga {

// See uwaga.search.SearchOptions.
struct Decoding {
    int64_t beam = 5, nbest = 1, min_length = 0, max_extra = 20;
    int64_t max_length = 256;                  // 0: only the model's limit
    double length_penalty = 1, max_ratio = 3;  // max_ratio may be infinite
    int length_formula = 0;                    // average, gnmt, none
    int stopping = 0;                          // Stopping
    bool score_forced = true, force_end = false, unknown = true, renormalise = false;
    int32_t start = -1, first = -1;  // -1: none
    std::vector<int32_t> banned;
};

// Read the options that both a call and a folder can set. Throws Failure.
void read_options(Fields& fields, Decoding& decoding);

// The attention head that aligns; layers and heads count from 0. head -1: the mean of the layer's.
struct AlignmentHead {
    int64_t layer = 0, head = -1;
    bool reads_token = false;  // the step that reads a token aligns it, not the one that predicts it
};

// The tokens of a multilingual model's languages, which a translation is told by; -1: none is chosen.
struct LanguageTokens {
    std::map<std::string, int32_t> tokens;  // by code
    int32_t source = -1, target = -1;       // those of the folder
    bool target_starts = false;  // the decoder starts from the target's token, or else it is forced
};

struct OpenOptions {
    int64_t threads = 1;
    Isa isa = Isa::portable;
    std::optional<bool> int8;  // int8 or float32 matrices; none: int8 where the model is stored so
    int64_t memory = 0;        // bytes of the model; 0: no bound
    bool shortlist = true;     // use the model's, if it has one
};

struct OpenedModel {
    NetworkPtr model;
    Settings settings;
    SymbolIds symbols;
    std::shared_ptr<const Subwords> source, target;
    std::string source_language, target_language, precision;
    Decoding decoding;
    std::vector<std::string> ignored_options;  // of search, by the model, that are on and not applied here
    LanguageTokens languages;
    AlignmentHead head;
    int64_t bytes = 0;                                // of its weights
    std::vector<Buffer<uint8_t>> panels;              // memory of its matrices
    std::vector<int32_t> list_offsets, list_targets;  // memory of its shortlist
    std::unique_ptr<const Shortlist> shortlist;       // null: the whole vocabulary
};

// The files of a model: their names, and a function that returns the contents of one with at most `max_bytes`
// bytes; the view lives until the model is open. It returns false if there is no such file, and throws
// Failure if it cannot be read.
struct ModelFiles {
    std::vector<std::string> names;
    std::function<bool(const std::string& name, std::size_t max_bytes, std::string_view& content)> read;
};

// Throws Failure, whose message names `location`, the file and the key.
std::unique_ptr<OpenedModel> open_model(const std::string& location, const ModelFiles& files,
                                        const OpenOptions& options);

}  // namespace uwaga
