// The formats of models, each in a file of its own.
#pragma once

#include <memory>
#include <string>

#include "checkpoints/model_files.h"

namespace uwaga {

// The files of a model by name, and their paths for messages.
class Folder {
  public:
    Folder(std::string place, const ModelFiles& files) : place_(std::move(place)), files_(files) {}

    const std::string& place() const { return place_; }
    const std::vector<std::string>& names() const { return files_.names; }
    std::string path(const std::string& name) const { return place_.empty() ? name : place_ + "/" + name; }
    bool has(const std::string& name, std::size_t most, std::string_view& content) const { return files_.read(name, most, content); }
    // Throws Failure if there is no such file.
    std::string_view file(const std::string& name, std::size_t most = std::numeric_limits<std::size_t>::max()) const {
        std::string_view content;
        if (!has(name, most, content)) throw Failure(Fault::file, path(name) + ": no such file, so this is not a complete model");
        return content;
    }

  private:
    const std::string place_;
    const ModelFiles& files_;
};

constexpr std::size_t largest_config = std::size_t{1} << 20, largest_tokeniser = std::size_t{1} << 28;
constexpr int64_t largest_vocabulary = (int64_t{1} << 24) - 1, most_tokens = int64_t{1} << 20, widest_beam = 1024;

// Read alignment_head.json, if there is one, after `made` has its settings.
void read_alignment_head(const Folder& folder, OpenedModel& made);

bool is_marian_weights(const std::string& name);  // model*.bin

// Both throw Failure.
std::unique_ptr<OpenedModel> open_uwaga(const Folder& folder, const OpenOptions& options);    // of uwaga, float and int8
std::unique_ptr<OpenedModel> open_marian(const Folder& folder, const OpenOptions& options);  // of Marian and Firefox

}  // namespace uwaga
