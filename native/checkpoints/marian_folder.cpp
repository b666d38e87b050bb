// Marian's models (Junczys-Dowmunt et al. 2018), Firefox's among them: binary weights with their settings,
// SentencePiece vocabularies, a shortlist. The twin of src/uwaga/checkpoints/formats/marian.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "checkpoints/folders.h"
#include "checkpoints/packer.h"
#include "files/lexical_checksum.h"
#include "files/yaml.h"
#include "search/sentence_search.h"

namespace uwaga {

namespace {

constexpr const char* settings_name = "special:model.yml";
constexpr std::string_view multiplier_ending = "_QuantMultA";  // of names of multipliers of activations
constexpr std::size_t max_settings_bytes = std::size_t{1} << 20;
constexpr uint64_t max_tensors = 1 << 16, max_name_bytes = 1 << 10, max_axes = 8, max_padding = 1 << 16;
constexpr int64_t default_max_length = 1024, max_layers = 4096, max_size = int64_t{1} << 24;
constexpr double epsilon = 1e-6;       // added to the variance by Marian's layer norm
constexpr float absent_logit = -1e4f;  // the logit of tokens that Marian does not have

bool ends_with(std::string_view name, std::string_view suffix) {
    return name.size() >= suffix.size() && name.substr(name.size() - suffix.size()) == suffix;
}
bool starts_with(std::string_view name, std::string_view prefix) {
    return name.substr(0, prefix.size()) == prefix;
}

template <class Number>
Number read_number(std::string_view bytes, std::size_t offset) {
    Number value;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
}

// A tensor of the binary format.
struct Entry {
    enum class Kind { f32, f16, f64, i8, quantised8, quantised16 };
    Kind kind = Kind::f32;
    std::vector<int64_t> shape;
    std::string_view bytes;  // quantised: the integers, then the float32 that multiplied them
    bool quantised() const { return kind == Kind::quantised8 || kind == Kind::quantised16; }
    int64_t size() const { return size_of(shape); }
    float scale() const { return static_cast<float>(1.0 / static_cast<double>(multiplier())); }
    float multiplier() const {
        return read_number<float>(bytes,
                                  static_cast<std::size_t>(size()) * (kind == Kind::quantised8 ? 1 : 2));
    }
};

// A binary file: two numbers, the version and the count of tensors; their headers of four numbers each
// (length of the name, number format, axes, bytes); names, axes, a padding preceded by its length, and the
// data.
class MarianFile {
  public:
    MarianFile(std::string path, std::string_view content) : path_(std::move(path)), content_(content) {
        if (take<uint64_t>() != 1) refuse("not a binary Marian model of version 1");
        const uint64_t count = take<uint64_t>();
        if (count < 1 || count > max_tensors)
            refuse("states " + std::to_string(count) + " tensors; the file is damaged");
        struct Header {
            uint64_t name, kind, axes, bytes;
        };
        std::vector<Header> headers(count);
        for (Header& header : headers) {
            header = {take<uint64_t>(), take<uint64_t>(), take<uint64_t>(), take<uint64_t>()};
            if (header.name < 1 || header.name > max_name_bytes || header.axes > max_axes)
                refuse("a header with impossible lengths; the file is damaged");
        }
        std::vector<std::string> names;
        for (const Header& header : headers) {
            const std::string_view raw = bytes(header.name);
            names.emplace_back(raw.substr(0, raw.find('\0')));
        }
        std::vector<Entry> entries(count);
        for (std::size_t i = 0; i < count; ++i) {
            for (uint64_t axis = 0; axis < headers[i].axes; ++axis)
                entries[i].shape.push_back(take<int32_t>());
        }
        const uint64_t padding = take<uint64_t>();
        if (padding > max_padding)
            refuse("states " + std::to_string(padding) + " bytes of padding; the file is damaged");
        bytes(padding);
        for (std::size_t i = 0; i < count; ++i) {
            read_entry(names[i], headers[i].kind, entries[i], bytes(headers[i].bytes));
            if (!entries_.emplace(names[i], entries[i]).second)
                refuse("two tensors of one name; the file is damaged");
        }
        if (offset_ != content_.size())
            refuse("its tensors end at byte " + std::to_string(offset_) + ", and the file has " +
                   std::to_string(content_.size()) + "; it is damaged: fetch it again");
    }

    const std::string& path() const { return path_; }
    const std::map<std::string, Entry, std::less<>>& entries() const { return entries_; }
    const Entry* find(std::string_view name) const {
        const auto entry = entries_.find(name);
        return entry == entries_.end() ? nullptr : &entry->second;
    }
    [[noreturn]] void refuse(const std::string& message) const {
        throw Failure(Fault::model, path_ + ": " + message);
    }

  private:
    std::string_view bytes(uint64_t size) {
        if (size > content_.size() - offset_) refuse("is cut short; fetch it again");
        offset_ += static_cast<std::size_t>(size);
        return content_.substr(offset_ - static_cast<std::size_t>(size), static_cast<std::size_t>(size));
    }
    template <class Number>
    Number take() {
        return read_number<Number>(bytes(sizeof(Number)), 0);
    }

    void read_entry(const std::string& name, uint64_t kind, Entry& entry, std::string_view data) {
        static const std::map<uint64_t, std::pair<Entry::Kind, uint64_t>> kinds = {
            {0x0404, {Entry::Kind::f32, 4}},         {0x0402, {Entry::Kind::f16, 2}},
            {0x0408, {Entry::Kind::f64, 8}},         {0x0101, {Entry::Kind::i8, 1}},
            {0x4101, {Entry::Kind::quantised8, 1}},  {0x10001, {Entry::Kind::quantised8, 1}},
            {0x4102, {Entry::Kind::quantised16, 2}}, {0x10002, {Entry::Kind::quantised16, 2}}};
        const std::string quoted_name = "'" + name.substr(0, 200) + "'";
        const auto format = kinds.find(kind);
        if (format == kinds.end()) {
            constexpr uint64_t packed = 0x0800 | 0x1000 | 0x2000 | 0x8000;  // formats whose order of bytes is
                                                                            // one processor's
            refuse(
                quoted_name +
                ((kind & packed)
                     ? " is stored in the layout of one processor; convert the model anew with marian-conv --gemm-type intgemm8 or float32"
                     : " has an unknown number format"));
        }
        entry.kind = format->second.first;
        uint64_t required = format->second.second;
        for (const int64_t axis : entry.shape) {
            if (axis < 1 || (required *= static_cast<uint64_t>(axis)) > content_.size())
                refuse(quoted_name + " has a shape that its bytes do not have; the file is damaged");
        }
        if (entry.quantised()) {
            required += sizeof(float);
            if (entry.shape.size() != 2) refuse(quoted_name + " is not a matrix");
        }
        if (required > data.size())
            refuse(quoted_name + " needs " + std::to_string(required) + " bytes and has " +
                   std::to_string(data.size()) + "; the file is damaged");
        entry.bytes = data;
        if (entry.quantised() && !(std::isfinite(entry.multiplier()) && entry.multiplier() > 0))
            refuse(quoted_name + " was multiplied by what is no positive number; the file is damaged");
    }

    const std::string path_;
    const std::string_view content_;
    std::size_t offset_ = 0;
    std::map<std::string, Entry, std::less<>> entries_;
};

// The location of one of uwaga's weights: tensors whose rows follow each other.
struct TensorLocation {
    std::vector<std::string> names;
    bool transposed = false;  // stored (inputs, outputs)
    int64_t rows = 0;  // that are stored, if fewer than the weight has; the others have the value `fill`
    float fill = 0;
    bool optional = false;  // zero if it is not stored
};

class MarianWeights final : public StoredWeights {
  public:
    MarianWeights(const MarianFile& file, const Settings& settings, int64_t source, int64_t target)
        : file_(file), settings_(settings), source_(source), target_(target) {}

    const std::string& file() const override { return file_.path(); }

    void check(const std::string& name, const std::vector<int64_t>& shape) override {
        const TensorLocation location = location_of(name);
        const int64_t rows = location.rows ? location.rows : shape[0];
        for (const std::string& stored : location.names) {
            const Entry* const entry = file_.find(stored);
            used_.insert(stored);
            if (!entry && location.optional) continue;
            if (!entry) file_.refuse("'" + stored + "' is missing, which " + settings_name + " asks for");
            if (entry->kind == Entry::Kind::i8)
                file_.refuse("'" + stored + "' is not of a format that weights have");
            std::vector<int64_t> axes = entry->shape;
            if (axes.size() == 2 && location.transposed) std::swap(axes[0], axes[1]);
            std::vector<int64_t> expected = shape;
            expected[0] = rows / static_cast<int64_t>(location.names.size());
            const bool vector = shape.size() == 1 && entry->size() == expected[0] &&
                                *std::max_element(axes.begin(), axes.end()) == expected[0];
            if (axes != expected && !vector) {
                std::string text;
                for (const int64_t axis : expected) text += " " + std::to_string(axis);
                file_.refuse("'" + stored + "' does not have the shape that " + settings_name +
                             " and the vocabularies ask for:" + text +
                             "; the files belong to different models");
            }
        }
    }

    void check_used() const override {
        for (const auto& [name, entry] : file_.entries()) {
            const bool weight = entry.kind != Entry::Kind::i8 && !ends_with(name, multiplier_ending);
            if (weight && !used_.count(name))
                file_.refuse("'" + name.substr(0, 200) +
                             "' is unknown to this family, or of a feature that is not supported");
        }
    }

    void read(const std::string& name, const std::vector<int64_t>& shape, float* to) const override {
        const TensorLocation location = location_of(name);
        const int64_t width = shape.size() > 1 ? size_of(shape) / shape[0] : 1;
        std::fill_n(to, size_of(shape), location.fill);
        for (const std::string& stored : location.names) {
            const Entry* const entry = file_.find(stored);
            if (!entry) {
                std::fill_n(to, location.rows * width, 0.0f);
                continue;
            }
            const int64_t size = entry->size(), rows = size / width;
            const bool transposed = is_transposed(location, stored, *entry);
            for (int64_t i = 0; i < size; ++i)
                to[transposed ? i % rows * width + i / rows : i] = read_value(*entry, i);
            to += size;
        }
    }

    bool integers(const std::string& name, const std::vector<int64_t>& shape,
                  Int8Weights& integers) const override {
        const TensorLocation location = location_of(name);
        for (const std::string& stored : location.names) {
            const Entry* const entry = file_.find(stored);
            if (!entry || entry->kind != Entry::Kind::quantised8) return false;
            const int64_t width = shape[1], rows = entry->size() / width;
            const std::size_t start = integers.values.size();
            const auto* const from = reinterpret_cast<const int8_t*>(entry->bytes.data());
            integers.values.insert(integers.values.end(), from, from + entry->size());
            if (is_transposed(location, stored, *entry)) {
                for (int64_t i = 0; i < entry->size(); ++i)
                    integers.values[start + static_cast<std::size_t>(i % rows * width + i / rows)] = from[i];
            }
            integers.scales.insert(integers.scales.end(), static_cast<std::size_t>(rows), entry->scale());
        }
        return true;
    }

  private:
    // Whether the numbers of a matrix lie in the file input by input. Quantised ones but embeddings are
    // stored transposed.
    static bool is_transposed(const TensorLocation& location, const std::string& stored, const Entry& entry) {
        const bool transposed = entry.quantised() && stored.find("Wemb") == std::string::npos;
        return location.transposed != transposed && entry.shape.size() == 2;
    }

    static float read_value(const Entry& entry, int64_t i) {
        const auto offset = static_cast<std::size_t>(i);
        switch (entry.kind) {
            case Entry::Kind::f32: return read_number<float>(entry.bytes, 4 * offset);
            case Entry::Kind::f16: return from_half(read_number<uint16_t>(entry.bytes, 2 * offset));
            case Entry::Kind::f64: return static_cast<float>(read_number<double>(entry.bytes, 8 * offset));
            case Entry::Kind::quantised16:
                return static_cast<float>(read_number<int16_t>(entry.bytes, 2 * offset)) * entry.scale();
            default: return static_cast<float>(read_number<int8_t>(entry.bytes, offset)) * entry.scale();
        }
    }

    static std::string joined(std::string_view a, std::string_view b, std::string_view c = "") {
        return std::string(a) + std::string(b) + std::string(c);
    }

    TensorLocation location_of(const std::string& name) const {
        const bool tied = settings_.tie == Tie::all || settings_.tie == Tie::embeddings;
        const std::string target = tied ? "Wemb" : "decoder_Wemb";
        if (name == "source_embedding.weight") return {{tied ? "Wemb" : "encoder_Wemb"}, false, source_};
        if (name == "target_embedding.weight") return {{target}, false, target_};
        if (name == "output_bias") return {{"decoder_ff_logit_out_b"}, false, target_, absent_logit, true};
        if (name == "output_weight") {
            if (settings_.tie == Tie::all || settings_.tie == Tie::decoder) return {{target}, false, target_};
            const bool rows = file_.find("decoder_ff_logit_out_Wt");
            return {{rows ? "decoder_ff_logit_out_Wt" : "decoder_ff_logit_out_W"}, !rows, target_};
        }
        if (ends_with(name, "_positions.weight")) return {{"Wpos"}};
        const std::size_t dot = name.rfind('.');
        const bool bias = name.substr(dot) == ".bias";
        std::string_view block = std::string_view(name).substr(0, dot);
        for (const auto& [block_name, stored] :
             {std::pair<std::string_view, std::string_view>("encoder_norm", "encoder_top"),
              {"decoder_norm", "decoder_top"}}) {
            if (block == block_name) return norm(stored, bias, false);
        }
        for (const auto& [block_name, stored] :
             {std::pair<std::string_view, std::string_view>("source_norm", "encoder_emb"),
              {"target_norm", "decoder_emb"}}) {
            if (block == block_name) return norm(stored, bias, true);
        }
        const std::string stack(block.substr(0, 7));  // encoder or decoder
        block.remove_prefix(8);
        const std::size_t end = block.find('.');
        const std::string layer = stack + "_l" +
                                  std::to_string(std::stoi(std::string(block.substr(0, end))) + 1);
        block.remove_prefix(end + 1);
        return layer_location(layer, block, bias);
    }

    TensorLocation layer_location(const std::string& layer, std::string_view block, bool bias) const {
        const bool pre = settings_.pre_norm;
        if (block == "feed_forward_norm") return norm(layer + "_ffn_ffn", bias, pre);
        if (block == "feed_forward.inner") return linear(layer + "_ffn_", {"1"}, bias);
        if (block == "feed_forward.outer") return linear(layer + "_ffn_", {"2"}, bias);
        if (block == "ssru.input") return {{layer + "_rnn_W"}, true};
        if (block == "ssru.forget") return linear(layer + "_rnn_", {"f"}, bias);
        if (block == "self_attention_norm" && settings_.ssru)
            return norm(layer + (pre ? "_rnn" : "_rnn_ffn"), bias, pre);
        const bool cross = starts_with(block, "cross_");
        const std::string attention = layer + (cross ? "_context" : "_self");
        if (ends_with(block, "_norm")) return norm(attention + "_Wo", bias, pre);
        if (ends_with(block, ".query")) return linear(attention + "_", {"q"}, bias);
        if (ends_with(block, ".key_value")) return linear(attention + "_", {"k", "v"}, bias);
        return linear(attention + "_", {"o"}, bias);
    }

    static TensorLocation linear(const std::string& name, std::initializer_list<const char*> parts,
                                 bool bias) {
        TensorLocation location;
        location.transposed = !bias;
        for (const char* part : parts) location.names.push_back(joined(name, bias ? "b" : "W", part));
        return location;
    }
    static TensorLocation norm(std::string_view name, bool bias, bool pre) {
        return {{joined(name, bias ? "_ln_bias" : "_ln_scale", pre ? "_pre" : "")}};
    }

    const MarianFile& file_;
    const Settings& settings_;
    const int64_t source_, target_;  // pieces as Marian counts them
    std::set<std::string> used_;
};

// Whether a setting is absent, or has one of the values that switch its feature off.
bool is_neutral(const Json& settings, const char* name, std::initializer_list<std::string_view> texts,
                std::initializer_list<int64_t> numbers = {}) {
    const Json* const value = settings.find(name);
    if (!value || value->null()) return true;
    if (const auto* const list = value->array()) return list->empty();
    if (const bool* const boolean = value->boolean()) return !*boolean && !texts.size() && !numbers.size();
    if (const int64_t* const number = value->integer())
        return std::find(numbers.begin(), numbers.end(), *number) != numbers.end();
    return value->string() && std::find(texts.begin(), texts.end(), *value->string()) != texts.end();
}

class MarianFolder {
  public:
    MarianFolder(const Folder& folder, const OpenOptions& options)
        : folder_(folder), options_(options), opened_(std::make_unique<OpenedModel>()) {}

    std::unique_ptr<OpenedModel> open() {
        read_decoder();
        const std::string name = only(
            "models", [](const std::string& candidate) { return is_marian_weights(candidate); }, "model");
        const MarianFile file(folder_.path(name), folder_.file(name));
        const Json settings = embedded(file);
        read_vocabularies();
        read_model(file.path(), settings);
        check_layers(file);
        read_decoding();
        read_languages(name);
        opened_->head.layer = guided_layer(file.path(), settings);
        opened_->head.head = 0;
        read_alignment_head(folder_, *opened_);
        bool integers = false;
        for (const auto& [stored, entry] : file.entries())
            integers = integers || (entry.quantised() && !ends_with(stored, multiplier_ending));
        check_multipliers(file);
        Packer packer(*opened_, folder_.location(), options_, size_, size_);
        MarianWeights weights(file, opened_->settings, source_, target_);
        packer.pack(weights, options_.int8.value_or(integers));
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

    Json embedded(const MarianFile& file) const {
        const Entry* const settings = file.find(settings_name);
        if (!settings || settings->kind != Entry::Kind::i8 || settings->bytes.size() > max_settings_bytes)
            file.refuse(std::string("has no '") + settings_name + "', so it was not saved by Marian");
        const std::string_view text = settings->bytes.substr(0, static_cast<std::size_t>(settings->size()));
        return named(file.path() + " (" + settings_name + ")",
                     [&] { return read_flat_yaml(text.substr(0, text.find('\0'))); });
    }

    void read_model(const std::string& file, const Json& settings) {
        const std::string location = file + " (" + settings_name + "): ";
        Fields fields(settings, location, Fault::model);
        const auto neutral = [&](const char* name, std::initializer_list<std::string_view> texts,
                                 std::initializer_list<int64_t> numbers = {}) {
            if (!is_neutral(settings, name, texts, numbers))
                fields.refuse(name, "has a value that is not supported");
        };
        neutral("type", {"transformer"});
        for (const char* const name : {"transformer-no-projection", "transformer-tied-layers",
                                       "transformer-pool", "right-left", "ulr"})
            neutral(name, {});
        neutral("transformer-ffn-depth", {}, {2});
        neutral("transformer-decoder-ffn-depth", {}, {0, 2});
        neutral("lemma-dim-emb", {}, {0});
        if (const Json* const types = settings.find("input-types"); types && types->array()) {
            for (const Json& type : *types->array()) {
                if (!type.string() || *type.string() != "sequence" || types->array()->size() != 2)
                    fields.refuse("input-types", "has a value that is not supported");
            }
        }
        Settings& s = opened_->settings;
        const auto text = [&](const char* name, const char* fallback) {
            return fields.has(name) ? fields.text(name) : std::string(fallback);
        };
        const auto operations = [&](const char* name, const char* fallback) {
            std::string steps = text(name, fallback);
            steps.erase(std::remove(steps.begin(), steps.end(), 'd'), steps.end());  // dropout
            return steps;
        };
        const std::string before = operations("transformer-preprocess", ""),
                          after = operations("transformer-postprocess", ""),
                          top = operations("transformer-postprocess-top", "");
        const std::string embedding = operations("transformer-postprocess-emb", "d");
        s.pre_norm = before == "n" && after == "a" && top == "n";
        const bool post = before.empty() && after == "an" && top.empty();
        if (!(post || s.pre_norm) || !(embedding.empty() || embedding == "n"))
            fields.refuse("transformer-preprocess, transformer-postprocess",
                          "put norms where uwaga has none");
        const std::string activation = text("transformer-ffn-activation", "swish");
        if (activation != "relu" && activation != "swish")
            fields.refuse("transformer-ffn-activation", "must be relu or swish");
        const auto flag = [&](const char* name) { return fields.has(name) && fields.boolean(name); };
        const bool learned = fields.has("transformer-train-positions")
                                 ? flag("transformer-train-positions")
                                 : flag("transformer-train-position-embeddings");
        s.encoder_layers = fields.integer("enc-depth", 1, max_layers);
        s.decoder_layers = fields.integer("dec-depth", 1, max_layers);
        s.width = fields.integer("dim-emb", 1, max_size);
        s.encoder_heads = s.decoder_heads = fields.integer("transformer-heads", 1, max_size);
        s.feed_forward = fields.integer("transformer-dim-ffn", 1, max_size);
        s.decoder_feed_forward = fields.has("transformer-decoder-dim-ffn")
                                     ? fields.integer("transformer-decoder-dim-ffn", 0, max_size)
                                     : 0;
        if (!s.decoder_feed_forward) s.decoder_feed_forward = s.feed_forward;
        if (s.width % s.encoder_heads || (!learned && s.width % 2))
            fields.refuse("dim-emb",
                          "must be a multiple of transformer-heads, and even with sinusoidal positions");
        s.encoder_head_width = s.decoder_head_width = s.width / s.encoder_heads;
        s.activation = activation == "relu" ? 1 : 4;
        s.norm_epsilon = epsilon;
        s.positions = learned ? PositionKind::learned : PositionKind::sinusoidal;
        s.sinusoids = Sinusoids::tensor2tensor;
        s.max_length = learned && fields.has("max-length")
                           ? fields.integer("max-length", 1, max_size / s.width)
                           : default_max_length;
        s.embedding_scale = !learned;
        s.embedding_norm = embedding == "n";
        s.output_bias = true;
        const bool tied_source = flag("tied-embeddings-src"), tied_output = flag("tied-embeddings"),
                   tied_all = flag("tied-embeddings-all");
        s.tie = tied_all || (tied_source && tied_output) ? Tie::all
                : tied_source                            ? Tie::embeddings
                : tied_output                            ? Tie::decoder
                                                         : Tie::none;
        if ((s.tie == Tie::all || s.tie == Tie::embeddings) && source_ != target_)
            fields.refuse("tied-embeddings", "share one embedding between vocabularies of " +
                                                 std::to_string(source_) + " and " + std::to_string(target_) +
                                                 " tokens");
        const std::string decoder = text("transformer-decoder-autoreg", "self-attention");
        s.ssru = decoder == "rnn";
        if (!s.ssru && decoder != "self-attention")
            fields.refuse("transformer-decoder-autoreg", "must be self-attention or rnn");
        if (s.ssru && (text("dec-cell", "gru") != "ssru" || flag("transformer-rnn-projection") ||
                       flag("layer-normalization")))
            fields.refuse("dec-cell", "must be ssru, without a projection or a norm of its own");
    }

    void check_layers(const MarianFile& file) const {
        const Settings& s = opened_->settings;
        if (s.encoder_layers + s.decoder_layers > static_cast<int64_t>(file.entries().size()))
            file.refuse("states more layers than it has tensors");
    }

    void read_decoding() {
        Fields fields(decoder_, folder_.path(decoder_name_.empty() ? "decoder.yml" : decoder_name_) + ": ",
                      Fault::model);
        const auto neutral = [&](const char* name, int64_t value) {
            double number = 0;
            const Json* setting = fields.find(name);
            if (setting && setting->array() && setting->array()->size() == 1)
                setting = &(*setting->array())[0];
            if (!setting || setting->null() || (setting->boolean() && !*setting->boolean()) ||
                (setting->number(number) && (number == 0 || number == static_cast<double>(value))))
                return;
            fields.refuse(name, "is not supported by uwaga");
        };
        neutral("word-penalty", 0);
        neutral("n-best", 0);
        neutral("weights", 1);
        const bool student = decoder_name_.empty() && !shortlist_.empty();  // Firefox's come without settings
        Decoding& d = opened_->decoding;
        d.beam = fields.has("beam-size") ? fields.integer("beam-size", 1, max_beam) : student ? 1 : 12;
        const Json* const normalise = fields.find("normalize");
        if (!normalise || normalise->null() || normalise->boolean()) {
            d.length_penalty = normalise && normalise->boolean() ? *normalise->boolean() : student;
        } else {
            d.length_penalty = fields.number("normalize", -10, 10);
        }
        d.max_length = 0;
        const double factor = fields.has("max-length-factor") ? fields.number("max-length-factor", 0, 1e6)
                              : student                       ? 2
                                                              : 3;
        d.max_ratio = std::nextafter(factor, 0.0);  // the limit of steps is the factor times the source's
                                                    // tokens, rounded up
        d.max_extra = 1;
        d.stopping = static_cast<int>(Stopping::exact);
        d.unknown = fields.has("allow-unk") && fields.boolean("allow-unk");
    }

    // Languages are those of a name such as model.enpt.intgemm.alphas.bin.
    void read_languages(const std::string& name) {
        const auto letter = [&](std::size_t offset) {
            return offset < name.size() && name[offset] >= 'a' && name[offset] <= 'z';
        };
        opened_->source_language = "src";
        opened_->target_language = "tgt";
        for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
            const std::size_t second = dot + 3 + (dot + 3 < name.size() && name[dot + 3] == '-');
            if (!letter(dot + 1) || !letter(dot + 2) || !letter(second) || !letter(second + 1) ||
                name.substr(second + 2, 1) != ".")
                continue;
            const std::string source = name.substr(dot + 1, 2), target = name.substr(second, 2);
            if (source != target) {
                opened_->source_language = source;
                opened_->target_language = target;
            }
            return;
        }
    }

    // The layer that guided alignment trained.
    int64_t guided_layer(const std::string& file, const Json& settings) const {
        Fields fields(settings, file + " (" + settings_name + "): ", Fault::model);
        const char* const name = "transformer-guided-alignment-layer";
        const Json* const value = fields.find(name);
        const std::string text = value && value->string() ? *value->string() : "";
        if (!value || value->null() || text == "last") return opened_->settings.decoder_layers - 1;
        const bool digits = !text.empty() && text.size() < 5 &&
                            text.find_first_not_of("0123456789") == std::string::npos;
        if (digits && std::stoi(text) >= 1 && std::stoi(text) <= opened_->settings.decoder_layers)
            return std::stoi(text) - 1;
        return fields.integer(name, 1, opened_->settings.decoder_layers) - 1;
    }

    // Multipliers of activations are not used: a scale for each row is closer to float32
    // (docs/guides/marian.md).
    static void check_multipliers(const MarianFile& file) {
        std::string missing;
        bool any_multiplier = false;
        for (const auto& [name, entry] : file.entries()) {
            if (ends_with(name, multiplier_ending)) {
                any_multiplier = true;
                const bool number = entry.size() == 1 &&
                                    (entry.quantised() || entry.kind == Entry::Kind::f32);
                const float value = !number             ? 0.0f
                                    : entry.quantised() ? 1.0f
                                                        : read_number<float>(entry.bytes, 0);
                if (!(std::isfinite(value) && value > 0))
                    file.refuse("'" + name + "' multiplies nothing; the file is damaged");
            } else if (entry.kind == Entry::Kind::quantised8 && name.find("Wemb") == std::string::npos &&
                       !file.find(name + std::string(multiplier_ending))) {
                missing = name + std::string(multiplier_ending);
            }
        }
        if (any_multiplier && !missing.empty())
            file.refuse("'" + missing + "' is missing, and other matrices have theirs");
    }

    // A binary shortlist: six numbers, offsets of each source token, target tokens.
    void read_shortlist() {
        const std::string path = folder_.path(shortlist_);
        const std::string_view content = folder_.file(shortlist_);
        const auto refuse = [&](const std::string& message) -> void {
            throw Failure(Fault::model, path + ": " + message);
        };
        constexpr std::size_t header_bytes = 48;
        constexpr uint64_t magic = 0xF11A48D5013417F5;
        if (content.size() < header_bytes || read_number<uint64_t>(content, 0) != magic)
            refuse("not a binary Marian shortlist; fetch it again");
        const uint64_t common = read_number<uint64_t>(content, 16),
                       offsets = read_number<uint64_t>(content, 32),
                       entries = read_number<uint64_t>(content, 40);
        if (offsets > content.size() || entries > content.size() ||
            header_bytes + 8 * offsets + 4 * entries != content.size())
            refuse("its sizes are not those of its bytes: it is cut short or damaged; fetch it again");
        if (lexical_checksum(content.substr(16)) != read_number<uint64_t>(content, 8))
            refuse("the checksum is not that of the file; it is damaged: fetch it again");
        if (static_cast<int64_t>(offsets) != source_ + 1)
            refuse("is for " + std::to_string(offsets - 1) + " source tokens, and the model has " +
                   std::to_string(source_) + "; the files are of different models");
        if (common < 1 || static_cast<int64_t>(common) > target_)
            refuse("states common tokens beyond the " + std::to_string(target_) + " of the model");
        std::vector<int32_t>& first = opened_->list_offsets;
        std::vector<int32_t>& targets = opened_->list_targets;
        uint64_t previous = 0;
        for (std::size_t i = 0; i < offsets; ++i) {
            const uint64_t offset = read_number<uint64_t>(content, header_bytes + 8 * i);
            if (offset < previous || offset > entries || (i == 0 && offset) ||
                (i + 1 == offsets && offset != entries))
                refuse("its offsets do not rise from 0 to its " + std::to_string(entries) + " entries");
            previous = offset;
            first.push_back(static_cast<int32_t>(offset));
        }
        first.resize(static_cast<std::size_t>(size_) + 1, static_cast<int32_t>(entries));
        targets.resize(static_cast<std::size_t>(entries));
        std::memcpy(targets.data(), content.data() + header_bytes + 8 * offsets, 4 * targets.size());
        for (std::size_t token = 0; token + 1 < offsets; ++token) {
            for (int32_t i = first[token]; i < first[token + 1]; ++i) {
                const int32_t target = targets[static_cast<std::size_t>(i)];
                if (target < 0 || target >= target_ ||
                    (i > first[token] && target <= targets[static_cast<std::size_t>(i) - 1]))
                    refuse("the target tokens of source token " + std::to_string(token) +
                           " do not ascend within the vocabulary");
            }
        }
        constexpr int64_t multiple = 8;  // Marian fills lists up to this, as its products need it
        std::set<int32_t> common_tokens = {opened_->symbols.end, opened_->symbols.unknown};
        for (uint64_t token = 0; token < common; ++token) common_tokens.insert(static_cast<int32_t>(token));
        opened_->bytes += 4 * static_cast<int64_t>(first.size() + targets.size());
        opened_->shortlist = std::make_unique<const Shortlist>(*opened_->model,
                                                               Tokens(common_tokens.begin(),
                                                                      common_tokens.end()),
                                                               first.data(), targets.data(),
                                                               opened_->source == opened_->target, multiple);
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
