// Models of Marian's files, Firefox's among them.
#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "checkpoints/folders.h"
#include "checkpoints/marian_file.h"
#include "checkpoints/marian_files.h"
#include "checkpoints/packer.h"
#include "files/yaml.h"
#include "text/affixes.h"

namespace uwaga {

namespace {

constexpr std::size_t max_settings_bytes = std::size_t{1} << 20;

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
        std::vector<std::string> names = folder_.names();
        std::sort(names.begin(), names.end());
        files_ = find_marian_files(folder_.location(), names, "", false, [&](const std::string& file) {
            return named(folder_.path(file),
                         [&] { return read_flat_yaml(folder_.file(file, max_settings_bytes)); });
        });
        const std::string& name = files_.model;
        const std::string_view content = folder_.file(name);
        const MarianFile file(folder_.path(name), content.size(),
                              [&](uint64_t start, uint64_t count, char* to) {
                                  std::memcpy(to, content.data() + start, static_cast<std::size_t>(count));
                              });
        const MarianSettings settings = embedded(file, content);
        read_vocabularies(names);
        const std::string location = settings_location(file);
        opened_->settings = read_settings(Json::read(settings.model), location);
        if (opened_->settings.average)
            throw Failure(Fault::model, location + ": average attention runs in the Python package");
        if (opened_->settings.encoder_layers + opened_->settings.decoder_layers >
            static_cast<int64_t>(file.tensors().size()))
            file.refuse("states more layers than it has tensors");
        opened_->decoding = read_marian_decoding(folder_.location(), files_);
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
        if (options_.shortlist && !files_.shortlist.empty()) read_shortlist();
        return std::move(opened_);
    }

  private:
    void read_vocabularies(const std::vector<std::string>& names) {
        const auto files = find_marian_vocabularies(folder_.location(), names, files_.decoder,
                                                    files_.options);
        const std::array<std::string, 2> vocabularies{files.first, files.second};
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
        LexicalLists lists = read_lexical_lists(folder_.path(files_.shortlist),
                                                folder_.file(files_.shortlist), source_, target_);
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
    MarianFiles files_;
    int64_t source_ = 0, target_ = 0, size_ = 0;  // pieces as Marian counts them; rows of both embeddings
                                                  // here
};

}  // namespace

std::unique_ptr<OpenedModel> open_marian(const Folder& folder, const OpenOptions& options) {
    return MarianFolder(folder, options).open();
}

}  // namespace uwaga
