// The formats of models, each in a file of its own.
#pragma once

#include <memory>
#include <string>

#include "checkpoints/model_files.h"

namespace uwaga {

// The files of a model by name, and their paths for messages.
class Folder {
  public:
    Folder(std::string location, const ModelFiles& files) : location_(std::move(location)), files_(files) {}

    const std::string& location() const { return location_; }
    const std::vector<std::string>& names() const { return files_.names; }
    std::string path(const std::string& name) const {
        return location_.empty() ? name : location_ + "/" + name;
    }
    bool has(const std::string& name, std::size_t max_bytes, std::string_view& content) const {
        return files_.read(name, max_bytes, content);
    }
    // Throws Failure if there is no such file.
    std::string_view file(const std::string& name,
                          std::size_t max_bytes = std::numeric_limits<std::size_t>::max()) const {
        std::string_view content;
        if (!has(name, max_bytes, content))
            throw Failure(Fault::file, path(name) + ": no such file, so this is not a complete model");
        return content;
    }

  private:
    const std::string location_;
    const ModelFiles& files_;
};

constexpr std::size_t max_config_bytes = std::size_t{1} << 20, max_tokeniser_bytes = std::size_t{1} << 28;
constexpr int64_t max_vocabulary = (int64_t{1} << 24) - 1, max_tokens = int64_t{1} << 20, max_beam = 1024;

// Read alignment_head.json, if there is one, after `opened` has its settings.
void read_alignment_head(const Folder& folder, OpenedModel& opened);

// Both throw Failure.
std::unique_ptr<OpenedModel> open_uwaga(const Folder& folder, const OpenOptions& options);  // of uwaga, float
                                                                                            // and int8
std::unique_ptr<OpenedModel> open_marian(const Folder& folder, const OpenOptions& options);  // of Marian and
                                                                                             // Firefox

}  // namespace uwaga
