// Folders of Marian, Firefox's among them: which file is which, and the model of them.
#include <algorithm>
#include <cstring>
#include <set>

#include "checkpoints/folders.h"
#include "checkpoints/marian_file.h"
#include "checkpoints/packer.h"
#include "files/yaml.h"

namespace uwaga {

namespace {

constexpr std::size_t max_settings_bytes = std::size_t{1} << 20;

bool ends_with(std::string_view name, std::string_view suffix) {
    return name.size() >= suffix.size() && name.substr(name.size() - suffix.size()) == suffix;
}
bool starts_with(std::string_view name, std::string_view prefix) {
    return name.substr(0, prefix.size()) == prefix;
}

template <class Number>
Number read_number(const char* bytes) {
    Number value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
}

class MarianWeights final : public StoredWeights {
  public:
    MarianWeights(const MarianFile& file, std::string_view content, MarianNames names)
        : file_(file), content_(content), names_(std::move(names)) {}

    const std::string& file() const override { return file_.path(); }

    void check(const std::string& name, const std::vector<int64_t>& shape) override {
        const TensorLocation location = names_.location(name);
        const int64_t rows = location.rows ? location.rows : shape[0];
        for (const std::string& stored : location.names) {
            const MarianTensor* const tensor = file_.find(stored);
            used_.insert(stored);
            if (!tensor && location.optional) continue;
            if (!tensor)
                file_.refuse("'" + stored + "' is missing, which " + std::string(marian_settings_name) +
                             " asks for");
            if (!tensor->weight) file_.refuse("'" + stored + "' is not of a format that weights have");
            std::vector<int64_t> axes = tensor->shape;
            if (axes.size() == 2 && location.transposed) std::swap(axes[0], axes[1]);
            std::vector<int64_t> expected = shape;
            expected[0] = rows / static_cast<int64_t>(location.names.size());
            const bool vector = shape.size() == 1 && tensor->size() == expected[0] &&
                                *std::max_element(axes.begin(), axes.end()) == expected[0];
            if (axes != expected && !vector) {
                std::string text;
                for (const int64_t axis : expected) text += " " + std::to_string(axis);
                file_.refuse("'" + stored + "' does not have the shape that " +
                             std::string(marian_settings_name) + " and the vocabularies ask for:" + text +
                             "; the files belong to different models");
            }
        }
    }

    void check_used() const override {
        for (const auto& [name, tensor] : file_.tensors()) {
            if (tensor.weight && !used_.count(name))
                file_.refuse("'" + name.substr(0, 200) +
                             "' is unknown to this family, or of a feature that is not supported");
        }
    }

    void read(const std::string& name, const std::vector<int64_t>& shape, float* to) const override {
        const TensorLocation location = names_.location(name);
        const int64_t width = shape.size() > 1 ? size_of(shape) / shape[0] : 1;
        std::fill_n(to, size_of(shape), location.fill);
        for (const std::string& stored : location.names) {
            const MarianTensor* const tensor = file_.find(stored);
            if (!tensor) {
                std::fill_n(to, location.rows * width, 0.0f);
                continue;
            }
            const int64_t size = tensor->size(), rows = size / width;
            const bool transposed = is_transposed(location, *tensor);
            for (int64_t i = 0; i < size; ++i)
                to[transposed ? i % rows * width + i / rows : i] = read_value(*tensor, i);
            to += size;
        }
    }

    bool integers(const std::string& name, const std::vector<int64_t>& shape,
                  Int8Weights& integers) const override {
        const TensorLocation location = names_.location(name);
        for (const std::string& stored : location.names) {
            const MarianTensor* const tensor = file_.find(stored);
            if (!tensor || tensor->kind != MarianTensor::Kind::quantised8) return false;
            const int64_t width = shape[1], size = tensor->size(), rows = size / width;
            const std::size_t start = integers.values.size();
            const auto* const from = reinterpret_cast<const int8_t*>(content_.data() + tensor->start);
            integers.values.insert(integers.values.end(), from, from + size);
            if (is_transposed(location, *tensor)) {
                for (int64_t i = 0; i < size; ++i)
                    integers.values[start + static_cast<std::size_t>(i % rows * width + i / rows)] = from[i];
            }
            integers.scales.insert(integers.scales.end(), static_cast<std::size_t>(rows),
                                   static_cast<float>(tensor->scale()));
        }
        return true;
    }

  private:
    // Whether the numbers of a matrix lie in the file input by input.
    static bool is_transposed(const TensorLocation& location, const MarianTensor& tensor) {
        return location.transposed != tensor.transposed && tensor.shape.size() == 2;
    }

    float read_value(const MarianTensor& tensor, int64_t i) const {
        using Kind = MarianTensor::Kind;
        const char* const numbers = content_.data() + tensor.start;
        const auto number = static_cast<std::size_t>(i);
        const auto scale = static_cast<float>(tensor.scale());
        switch (tensor.kind) {
            case Kind::f32: return read_number<float>(numbers + 4 * number);
            case Kind::f16: return from_half(read_number<uint16_t>(numbers + 2 * number));
            case Kind::f64: return static_cast<float>(read_number<double>(numbers + 8 * number));
            case Kind::quantised16:
                return static_cast<float>(read_number<int16_t>(numbers + 2 * number)) * scale;
            default: return static_cast<float>(read_number<int8_t>(numbers + number)) * scale;
        }
    }

    const MarianFile& file_;
    const std::string_view content_;
    const MarianNames names_;
    std::set<std::string> used_;
};

class MarianFolder {
  public:
    MarianFolder(const Folder& folder, const OpenOptions& options)
        : folder_(folder), options_(options), opened_(std::make_unique<OpenedModel>()) {}

    std::unique_ptr<OpenedModel> open() {
        read_decoder();
        const std::string name = only(
            "models", [](const std::string& candidate) { return is_marian_weights(candidate); }, "model");
        const std::string_view content = folder_.file(name);
        const MarianFile file(folder_.path(name), content.size(),
                              [&](uint64_t start, uint64_t count, char* to) {
                                  std::memcpy(to, content.data() + start, static_cast<std::size_t>(count));
                              });
        const MarianSettings settings = embedded(file, content);
        read_vocabularies();
        const std::string location = settings_location(file);
        opened_->settings = read_settings(Json::read(settings.model), location);
        if (opened_->settings.average)
            throw Failure(Fault::model, location + ": average attention runs in the Python package");
        if (opened_->settings.encoder_layers + opened_->settings.decoder_layers >
            static_cast<int64_t>(file.tensors().size()))
            file.refuse("states more layers than it has tensors");
        const bool student = decoder_name_.empty() && !shortlist_.empty();  // Firefox's come without settings
        opened_->decoding = read_marian_decoding(folder_.path(decoder_name_.empty() ? "decoder.yml"
                                                                                    : decoder_name_),
                                                 decoder_, student);
        const auto languages = marian_languages(name);
        opened_->source_language = languages.first.empty() ? "src" : languages.first;
        opened_->target_language = languages.second.empty() ? "tgt" : languages.second;
        opened_->head.layer = settings.guided_layer;
        opened_->head.head = 0;
        read_alignment_head(folder_, *opened_);
        Packer packer(*opened_, folder_.location(), options_, size_, size_);
        MarianWeights weights(file, content,
                              MarianNames(location, opened_->settings, source_, target_,
                                          file.find(marian_output_rows)));
        packer.pack(weights, options_.int8.value_or(file.quantised()));
        if (options_.shortlist && !shortlist_.empty()) read_shortlist();
        return std::move(opened_);
    }

  private:
    using Matches = bool (*)(const std::string& name);

    // The settings beside a model: decoder.yml, or the first config*.yml.
    void read_decoder() {
        decoder_ = Json::read("{}");
        for (const std::string& name : folder_.names()) {
            const bool config = starts_with(name, "config") && ends_with(name, ".yml");
            if (name == "decoder.yml" || (config && decoder_name_.empty())) decoder_name_ = name;
            if (name == "decoder.yml") break;
        }
        if (decoder_name_.empty()) return;
        decoder_ = named(folder_.path(decoder_name_),
                         [&] { return read_flat_yaml(folder_.file(decoder_name_, max_settings_bytes)); });
    }

    // The files that a setting names, which must be in the same folder.
    std::vector<std::string> listed(std::string_view key) const {
        std::vector<std::string> files;
        const Json* const value = decoder_.find(key);
        if (!value) return files;
        const auto add = [&](const Json& item) {
            if (!item.string()) return;
            const std::string& text = *item.string();
            files.push_back(text.substr(text.find_last_of('/') + 1));
            const std::vector<std::string>& names = folder_.names();
            if (std::find(names.begin(), names.end(), files.back()) == names.end())
                throw Failure(Fault::file, folder_.path(decoder_name_) + ": names '" + text.substr(0, 200) +
                                               "', which is not in the folder");
        };
        if (const auto* const list = value->array()) {
            for (const Json& item : *list) add(item);
        } else {
            add(*value);
        }
        return files;
    }

    std::vector<std::string> matching(const Matches matches) const {
        std::vector<std::string> names;
        std::copy_if(folder_.names().begin(), folder_.names().end(), std::back_inserter(names), matches);
        std::sort(names.begin(), names.end());
        return names;
    }

    std::string only(std::string_view key, const Matches matches, const char* kind) const {
        std::vector<std::string> files = key.empty() ? std::vector<std::string>() : listed(key);
        if (files.empty()) files = matching(matches);
        if (files.size() == 1) return files[0];
        std::string names;
        for (const std::string& name : files) names += (names.empty() ? "" : ", ") + name;
        throw Failure(Fault::model, (folder_.location().empty() ? "the files" : folder_.location()) +
                                        ": expected one " + kind + ", found " +
                                        (names.empty() ? "none" : names));
    }

    void read_vocabularies() {
        std::vector<std::string> vocabularies = listed("vocabs");
        if (vocabularies.empty()) {
            const std::vector<std::string> source = matching([](const std::string& name) {
                return starts_with(name, "srcvocab") || name.find(".src.vocab.") != std::string::npos;
            });
            const std::vector<std::string> target = matching([](const std::string& name) {
                return starts_with(name, "trgvocab") || name.find(".trg.vocab.") != std::string::npos;
            });
            if (source.size() == 1 && target.size() == 1) {
                vocabularies = {source[0], target[0]};
            } else {
                const std::string vocabulary = only(
                    "",
                    [](const std::string& name) {
                        return name.find("vocab") != std::string::npos &&
                               (ends_with(name, ".spm") || ends_with(name, ".yml"));
                    },
                    "vocabulary for both sides");
                vocabularies = {vocabulary, vocabulary};
            }
        }
        if (vocabularies.size() != 2)
            throw Failure(Fault::model, folder_.path(decoder_name_) + ": names " +
                                            std::to_string(vocabularies.size()) +
                                            " vocabularies, expected source and target");
        std::shared_ptr<const SentencePiece> pieces[2];
        for (std::size_t side = 0; side < 2; ++side) {
            if (side && vocabularies[0] == vocabularies[1]) {
                pieces[1] = pieces[0];
                continue;
            }
            const std::string path = folder_.path(vocabularies[side]);
            if (!ends_with(path, ".spm"))
                throw Failure(
                    Fault::model,
                    path +
                        ": a vocabulary that is no SentencePiece model; convert the model with `uwaga convert --int8`");
            pieces[side] = named(path, [&] {
                return std::make_shared<const SentencePiece>(folder_.file(vocabularies[side],
                                                                          max_tokeniser_bytes));
            });
        }
        source_ = pieces[0]->size();
        target_ = pieces[1]->size();
        const auto pad = static_cast<int32_t>(std::max(source_, target_));
        size_ = pad + 1;
        opened_->source = named(folder_.path(vocabularies[0]),
                                [&] { return marian_subwords(pieces[0], pad); });
        opened_->target = pieces[0] == pieces[1] ? opened_->source
                                                 : named(folder_.path(vocabularies[1]),
                                                         [&] { return marian_subwords(pieces[1], pad); });
        opened_->symbols = opened_->target->symbols();
        const std::vector<std::string> lists = matching([](const std::string& name) {
            return starts_with(name, "lex") && ends_with(name, ".bin");
        });
        const Json* const stated = decoder_.find("shortlist");
        const bool stated_name = stated && stated->array() && !stated->array()->empty() &&
                                 (*stated->array())[0].string();
        if (stated_name) {
            shortlist_ = listed("shortlist")[0];
        } else if (lists.size() == 1) {
            shortlist_ = lists[0];
        }
    }

    static std::string settings_location(const MarianFile& file) {
        return file.path() + " (" + std::string(marian_settings_name) + ")";
    }

    static MarianSettings embedded(const MarianFile& file, std::string_view content) {
        const MarianTensor* const settings = file.find(marian_settings_name);
        if (!settings || settings->kind != MarianTensor::Kind::i8 ||
            settings->size() > static_cast<int64_t>(max_settings_bytes))
            file.refuse("has no '" + std::string(marian_settings_name) + "', so it was not saved by Marian");
        const std::string_view text = content.substr(static_cast<std::size_t>(settings->start),
                                                     static_cast<std::size_t>(settings->size()));
        const std::string location = settings_location(file);
        return read_marian_settings(location, named(location, [&] {
                                        return read_flat_yaml(text.substr(0, text.find('\0')));
                                    }));
    }

    void read_shortlist() {
        LexicalLists lists = read_lexical_lists(folder_.path(shortlist_), folder_.file(shortlist_), source_,
                                                target_);
        std::vector<int32_t>& first = opened_->list_offsets = std::move(lists.offsets);
        std::vector<int32_t>& targets = opened_->list_targets = std::move(lists.targets);
        first.resize(static_cast<std::size_t>(size_) + 1, static_cast<int32_t>(targets.size()));
        std::set<int32_t> common_tokens = {opened_->symbols.end, opened_->symbols.unknown};
        for (int32_t token = 0; token < lists.common; ++token) common_tokens.insert(token);
        opened_->bytes += 4 * static_cast<int64_t>(first.size() + targets.size());
        opened_->shortlist = std::make_unique<const Shortlist>(*opened_->model,
                                                               Tokens(common_tokens.begin(),
                                                                      common_tokens.end()),
                                                               first.data(), targets.data(),
                                                               opened_->source == opened_->target,
                                                               lexical_multiple);
    }

    const Folder& folder_;
    const OpenOptions& options_;
    std::unique_ptr<OpenedModel> opened_;
    std::string decoder_name_, shortlist_;  // files, empty if there is none
    Json decoder_;
    int64_t source_ = 0, target_ = 0, size_ = 0;  // pieces as Marian counts them; rows of both embeddings
                                                  // here
};

}  // namespace

bool is_marian_weights(const std::string& name) {
    return starts_with(name, "model") && ends_with(name, ".bin");
}

std::unique_ptr<OpenedModel> open_marian(const Folder& folder, const OpenOptions& options) {
    return MarianFolder(folder, options).open();
}

}  // namespace uwaga
