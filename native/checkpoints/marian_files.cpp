#include "checkpoints/marian_files.h"

#include <algorithm>
#include <string_view>

#include "checkpoints/failure.h"
#include "text/affixes.h"

namespace uwaga {

namespace {

using Names = std::vector<std::string>;
using Matches = bool (*)(std::string_view name);

bool is_vocabulary(std::string_view name) { return ends_with(name, ".yml") || ends_with(name, ".spm"); }
// *.SIDE.vocab.yml, SIDEvocab*.yml, and the same with .spm
bool is_vocabulary_of(std::string_view name, std::string_view side) {
    const std::string end = "." + std::string(side) + ".vocab";
    return is_vocabulary(name) && (ends_with(name.substr(0, name.size() - 4), end) ||
                                   starts_with(name, std::string(side) + "vocab"));
}

class Finder {
  public:
    Finder(const std::string& location, const Names& names) : location_(location), names_(names) {}

    std::string path(const std::string& name) const {
        return location_.empty() ? name : location_ + "/" + name;
    }

    Names matching(const Matches matches) const {
        Names files;
        std::copy_if(names_.begin(), names_.end(), std::back_inserter(files), matches);
        return files;
    }

    // The names that a setting lists.
    Names listed_files(const std::string& decoder, const Json& options, std::string_view key) const {
        Names files;
        const Json* const value = options.find(key);
        if (!value || value->null()) return files;
        const auto add = [&](const Json& item) {
            if (!item.string())
                throw Failure(Fault::model,
                              path(decoder) + ": " + std::string(key) + " must be names of files");
            files.push_back(*item.string());
        };
        if (const auto* const list = value->array()) {
            for (const Json& item : *list) add(item);
        } else {
            add(*value);
        }
        return files;
    }

    // A file that a setting names, which must be in the folder.
    std::string existing_file(const std::string& decoder, const std::string& text) const {
        const std::string file = base(text);
        if (std::find(names_.begin(), names_.end(), file) == names_.end())
            throw Failure(Fault::file,
                          path(decoder) + ": names '" + text.substr(0, 60) + "', which is not in the folder");
        return file;
    }

    std::string single_file(const Names& files, const char* kind) const {
        if (files.size() == 1) return files[0];
        std::string found;
        for (const std::string& name : files) found += (found.empty() ? "" : ", ") + name;
        throw Failure(Fault::model, (location_.empty() ? "the files" : location_) + ": expected one " + kind +
                                        ", found " + (found.empty() ? "none" : found));
    }

    static std::string base(const std::string& text) { return text.substr(text.find_last_of('/') + 1); }

  private:
    const std::string& location_;
    const Names& names_;
};

// Whether settings are for a model: they name it, or none.
bool applies_to(const Finder& finder, const std::string& decoder, const Json& options,
                const std::string& model) {
    const Names models = finder.listed_files(decoder, options, "models");
    return model.empty() || models.empty() ||
           std::any_of(models.begin(), models.end(),
                       [&](const auto& name) { return Finder::base(name) == model; });
}

}  // namespace

MarianFiles find_marian_files(const std::string& location, const Names& names, const std::string& model,
                              bool arrays, const ReadOptions& read) {
    const Finder finder(location, names);
    MarianFiles files;
    files.model = model;
    files.options = Json::read("{}");
    Names decoders = finder.matching([](std::string_view name) { return name == "decoder.yml"; });
    if (decoders.empty())
        decoders = finder.matching([](std::string_view name) {
            return starts_with(name, "config") && ends_with(name, ".yml");
        });
    for (const std::string& decoder : decoders) {
        Json options = read(decoder);
        if (!options.object())
            throw Failure(Fault::model, finder.path(decoder) + ": not a mapping of settings");
        if (!applies_to(finder, decoder, options, model)) continue;
        files.decoder = decoder;
        files.options = std::move(options);
        break;
    }
    if (model.empty()) {
        Names candidates;
        for (const std::string& name : finder.listed_files(files.decoder, files.options, "models"))
            candidates.push_back(finder.existing_file(files.decoder, name));
        if (candidates.empty())
            candidates = finder.matching(
                arrays
                    ? [](std::string_view name) { return is_marian_weights(name) || ends_with(name, ".npz"); }
                    : is_marian_weights);
        files.model = finder.single_file(candidates,
                                         arrays ? "model (*.npz or model*.bin)" : "model (model*.bin)");
    }
    // The shortlist's file is named before its limits.
    const Json* const shortlist = files.options.find("shortlist");
    const Names lists = finder.matching([](std::string_view name) {
        return starts_with(name, "lex") && ends_with(name, ".bin");
    });
    if (shortlist && shortlist->array() && !shortlist->array()->empty() &&
        (*shortlist->array())[0].string()) {
        files.shortlist = finder.existing_file(files.decoder, *(*shortlist->array())[0].string());
    } else if (lists.size() == 1) {
        files.shortlist = lists[0];
    }
    return files;
}

std::pair<std::string, std::string> find_marian_vocabularies(const std::string& location, const Names& names,
                                                             const std::string& decoder,
                                                             const Json& options) {
    const Finder finder(location, names);
    const Names stated = finder.listed_files(decoder, options, "vocabs");
    if (stated.size() == 2)
        return {finder.existing_file(decoder, stated[0]), finder.existing_file(decoder, stated[1])};
    if (!stated.empty())
        throw Failure(Fault::model, finder.path(decoder) + ": names " + std::to_string(stated.size()) +
                                        " vocabularies, expected source and target");
    const Names source = finder.matching([](std::string_view name) { return is_vocabulary_of(name, "src"); });
    const Names target = finder.matching([](std::string_view name) { return is_vocabulary_of(name, "trg"); });
    if (source.size() == 1 && target.size() == 1) return {source[0], target[0]};
    const Names shared = finder.matching([](std::string_view name) {
        return is_vocabulary(name) && name.find("vocab") != std::string_view::npos;
    });
    const std::string vocabulary =
        finder.single_file(shared, "vocabulary for both sides (*vocab*.yml or *vocab*.spm)");
    return {vocabulary, vocabulary};
}

bool is_marian_weights(std::string_view name) {
    return starts_with(name, "model") && ends_with(name, ".bin");
}

}  // namespace uwaga
