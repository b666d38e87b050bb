// The files of a folder of Marian: those that its settings name, or the only candidates.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "files/json.h"

namespace uwaga {

bool is_marian_weights(std::string_view name);  // model*.bin

struct MarianFiles {
    std::string model, decoder, shortlist;  // names; without a file of decoding settings or a shortlist empty
    Json options;                           // of the decoder
};

// Reads a file of settings by name.
using ReadOptions = std::function<Json(const std::string& name)>;

// All functions throw Failure. `location` is the folder, for messages; `names` are those of its files,
// sorted. `model`: the file of the weights, empty for the only one; `arrays`: it may be of NumPy's (.npz).
MarianFiles find_marian_files(const std::string& location, const std::vector<std::string>& names,
                              const std::string& model, bool arrays, const ReadOptions& read);

// The vocabularies of source and target, which may be the same.
std::pair<std::string, std::string> find_marian_vocabularies(const std::string& location,
                                                             const std::vector<std::string>& names,
                                                             const std::string& decoder, const Json& options);

}  // namespace uwaga
