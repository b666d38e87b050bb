// Folders of `uwaga train`, `uwaga convert --int8` and `--int4` (src/uwaga/checkpoints/formats/uwaga).
#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <unordered_map>

#include "checkpoints/folders.h"
#include "checkpoints/packed_layout.h"
#include "checkpoints/packer.h"
#include "checkpoints/sha256.h"
#include "files/safetensors.h"

namespace uwaga {

namespace {

constexpr int64_t max_banned = int64_t{1} << 16;
constexpr const char* config_name = "config.json";

// Write a tensor's numbers as float32; the file is little-endian, and so is every processor that there are
// kernels for.
void copy_floats(const Tensor& tensor, float* to) {
    const std::size_t count = tensor.bytes.size() / dtype_bytes(tensor.dtype);
    if (tensor.dtype == Dtype::f32) {
        std::memcpy(to, tensor.bytes.data(), tensor.bytes.size());
        return;
    }
    for (std::size_t i = 0; i < count; ++i) {
        uint16_t raw;
        std::memcpy(&raw, tensor.bytes.data() + 2 * i, 2);
        if (tensor.dtype == Dtype::f16) {
            to[i] = from_half(raw);
        } else {
            const uint32_t bits = static_cast<uint32_t>(raw) << 16;
            std::memcpy(to + i, &bits, 4);
        }
    }
}

const Tensor& tensor(const Safetensors& tensors, const std::string& file, const std::string& name,
                     Dtype dtype, const std::vector<int64_t>& shape, std::set<std::string>& used) {
    const Tensor* const stored = tensors.find(name);
    if (!stored) throw Failure(Fault::model, file + ": '" + name + "' is missing");
    if (stored->dtype != dtype || stored->shape != shape) {
        std::string expected(dtype_name(dtype));
        for (const int64_t axis : shape) expected += " " + std::to_string(axis);
        throw Failure(Fault::model, file + ": '" + name + "' is not of the format and shape that " +
                                        config_name + " asks for: " + expected);
    }
    used.insert(name);
    return *stored;
}

void check_used(const Safetensors& tensors, const std::string& file, const std::set<std::string>& used) {
    for (const auto& name : tensors.tensors()) {
        if (!used.count(name.first))
            throw Failure(Fault::model,
                          file + ": '" + name.first.substr(0, 200) + "' is not part of the model");
    }
}

// The weights of a model that was trained. In int8, those with two axes are integers with a factor of each
// row.
class TrainedWeights final : public StoredWeights {
  public:
    TrainedWeights(std::string file, std::string_view content, Dtype stored)
        : file_(std::move(file)), tensors_(named(file_, [&] { return Safetensors(content); })),
          stored_(stored) {}

    const std::string& file() const override { return file_; }
    void check(const std::string& name, const std::vector<int64_t>& shape) override {
        if (stored_ != Dtype::i8) {
            tensor(tensors_, file_, name, stored_, shape, used_);
        } else if (shape.size() == 2) {
            tensor(tensors_, file_, name, Dtype::i8, shape, used_);
            const Tensor& factors = tensor(tensors_, file_, name + scales, Dtype::f32, {shape[0]}, used_);
            std::vector<float> values(static_cast<std::size_t>(shape[0]));
            copy_floats(factors, values.data());
            Packer::check_finite(file_, name + scales, values.data(), shape[0]);
        } else {
            tensor(tensors_, file_, name, Dtype::f32, shape, used_);
        }
    }
    void check_used() const override { uwaga::check_used(tensors_, file_, used_); }

    void read(const std::string& name, const std::vector<int64_t>& shape, float* to) const override {
        Int8Weights quantised;
        if (!integers(name, shape, quantised)) return copy_floats(*tensors_.find(name), to);
        const std::size_t width = quantised.values.size() / quantised.scales.size();
        for (std::size_t i = 0; i < quantised.values.size(); ++i)
            to[i] = static_cast<float>(quantised.values[i]) * quantised.scales[i / width];
    }

    bool integers(const std::string& name, const std::vector<int64_t>&,
                  Int8Weights& quantised) const override {
        const Tensor& stored = *tensors_.find(name);
        if (stored.dtype != Dtype::i8) return false;
        const auto* const source = reinterpret_cast<const int8_t*>(stored.bytes.data());
        quantised.values.insert(quantised.values.end(), source, source + stored.bytes.size());
        const std::size_t first = quantised.scales.size();
        quantised.scales.resize(first + static_cast<std::size_t>(stored.shape[0]));
        copy_floats(*tensors_.find(name + scales), quantised.scales.data() + first);
        return true;
    }

  private:
    static constexpr const char* scales = ":scales";
    const std::string file_;
    const Safetensors tensors_;
    const Dtype stored_;
    std::set<std::string> used_;
};

class UwagaFolder {
  public:
    UwagaFolder(const Folder& folder, const OpenOptions& options)
        : folder_(folder), options_(options), opened_(std::make_unique<OpenedModel>()) {}

    std::unique_ptr<OpenedModel> open() {
        const std::string config_file = folder_.path(config_name);
        const Json config = named(config_file,
                                  [&] { return Json::read(folder_.file(config_name, max_config_bytes)); });
        Fields fields(config, config_file + ": ", Fault::model);
        const std::string format = config.object() && config.find("format") && config.find("format")->string()
                                       ? *config.find("format")->string()
                                       : "";
        fields.ignore({"format", "version", "usual_score", "normalisation"});
        if (format == "uwaga model") {
            fields.integer("version", 1, 3);
            open_float(fields);
        } else if (format == "uwaga int8 model") {
            fields.integer("version", 4, 4);
            open_quantised(fields, Matrix::Kind::int8);
        } else if (format == "uwaga int4 model") {
            fields.integer("version", 1, 1);
            open_quantised(fields, Matrix::Kind::int4);
        } else {
            throw Failure(
                Fault::model,
                config_file +
                    ": not the configuration of a model of uwaga; `uwaga train` and `uwaga convert --int8` write them");
        }
        return std::move(opened_);
    }

  private:
    void open_float(Fields& fields) {
        const Dtype stored = std::array<Dtype, 4>{Dtype::f32, Dtype::f16, Dtype::bf16,
                                                  Dtype::i8}[static_cast<std::size_t>(
            fields.choice("weights", {"float32", "float16", "bfloat16", "int8"}))];
        const std::string hash = fields.has("sha256") ? fields.text("sha256") : "";
        read_common(fields, "uwaga");
        read_decoding(fields.value("decoding"), "decoding.");
        fields.check_all_used();
        Packer packer(*opened_, folder_.location(), options_, source_size_, target_size_);
        const std::string name = folder_.path("model.safetensors");
        const std::string_view content = folder_.file("model.safetensors");
        check_hash(name, content, hash);
        TrainedWeights weights(name, content, stored);
        packer.pack(weights, options_.int8.value_or(false));
    }

    void open_quantised(Fields& fields, Matrix::Kind kind) {
        const bool int8 = kind == Matrix::Kind::int8;
        if (int8 && options_.int8 == false)
            fields.refuse("format", "is that of an int8 model; float32 needs the model that it was made of");
        if (!int8 && options_.int8)
            fields.refuse("format", "is that of an int4 model; a dtype needs the model that it was made of");
        const std::string tokenisers = fields.text("tokenisers");
        if (tokenisers != "uwaga" && tokenisers != "marian" && tokenisers != "numbered")
            fields.refuse("tokenisers",
                          "must be uwaga, marian or numbered; others run in the Python package");
        fields.ignore({"frame", "text"});
        read_common(fields, tokenisers);
        if (fields.has("decoding")) {
            read_decoding(fields.value("decoding"), "decoding.");
        } else {
            read_decoding(fields.value("search"), "search.");
        }
        Fields weights(fields.value("weights"), folder_.path(config_name) + ": weights.", Fault::model);
        const int levels = static_cast<int>(weights.integer("levels", 1, 127));
        const int64_t size = weights.integer("bytes", 1, int64_t{1} << 48);
        const std::string hash = weights.text("sha256");
        std::set<std::string> kept;
        const std::vector<Json>* const names = weights.value("kept").array();
        if (!names) weights.refuse("kept", "must be a list of names");
        for (const Json& item : *names) {
            if (!item.string()) weights.refuse("kept", "must be a list of names");
            kept.insert(*item.string());
        }
        weights.check_all_used();
        fields.check_all_used();
        const PackedLayout layout = packed_layout(opened_->settings, source_size_, target_size_, kind, kept);
        int64_t bytes = 0;
        for (const PackedMatrix& matrix : layout.matrices)
            bytes += Packer::matrix_bytes(matrix.kind, matrix.outputs, matrix.inputs);
        Packer packer(*opened_, folder_.location(), options_, source_size_, target_size_);
        packer.reserve(bytes, 0);
        const std::string name = folder_.path("engine.safetensors");
        const std::string_view content = folder_.file("engine.safetensors");
        if (static_cast<int64_t>(content.size()) != size)
            throw Failure(Fault::model, name + ": has " + std::to_string(content.size()) + " bytes, " +
                                            config_name + " asks for " + std::to_string(size));
        check_hash(name, content, hash);
        const Safetensors tensors = named(name, [&] { return Safetensors(content); });
        std::set<std::string> used;
        Parts& parts = packer.parts;
        const auto copied = [&](const PackedTensor& array) {
            const Tensor& source = tensor(tensors, name, array.name, array.dtype, array.shape, used);
            uint8_t* const panels = packer.allocate(static_cast<int64_t>(source.bytes.size()));
            std::memcpy(panels, source.bytes.data(), source.bytes.size());
            return panels;
        };
        for (const PackedMatrix& packed : layout.matrices) {
            Matrix matrix;
            matrix.kind = packed.kind;
            const uint8_t* const panels = copied(packed.arrays[0]);
            if (matrix.kind == Matrix::Kind::bfloat16) {
                matrix.bfloat16 = {reinterpret_cast<const uint16_t*>(panels), packed.outputs, packed.inputs};
            } else {
                const auto* const scales = reinterpret_cast<const float*>(copied(packed.arrays[1]));
                const auto* const sums = reinterpret_cast<const int32_t*>(copied(packed.arrays[2]));
                Packer::check_finite(name, packed.arrays[1].name, scales, packed.arrays[1].shape[0]);
                named(name + ": " + packed.name, [&] {
                    check_int8_inputs(packed.inputs);
                    if (matrix.kind == Matrix::Kind::int8) {
                        matrix.int8 = Int8Matrix{reinterpret_cast<const int8_t*>(panels),
                                                 scales,
                                                 sums,
                                                 packed.outputs,
                                                 packed.inputs,
                                                 levels};
                        check_int8(matrix.int8);
                    } else {
                        matrix.int4 = Int4Matrix{panels, scales, sums, packed.outputs, packed.inputs};
                        check_int4(matrix.int4);
                    }
                });
            }
            parts.matrices[packed.name] = matrix;
        }
        for (const auto* const group : {&layout.biases, &layout.vectors}) {
            for (const PackedTensor& vector : *group) {
                Buffer<float> values(size_of(vector.shape));
                copy_floats(tensor(tensors, name, vector.name, vector.dtype, vector.shape, used),
                            values.get());
                packer.add_vector(name, vector.name, std::move(values), size_of(vector.shape));
            }
        }
        check_used(tensors, name, used);
        opened_->precision = int8 ? "int8" : "int4";
        packer.build(name);
    }

    void read_common(Fields& fields, const std::string& tokenisers) {
        const std::vector<Json>* const languages = fields.value("languages").array();
        if (!languages || languages->size() != 2 || !(*languages)[0].string() || !(*languages)[1].string())
            fields.refuse("languages", "must be two codes");
        opened_->source_language = *(*languages)[0].string();
        opened_->target_language = *(*languages)[1].string();
        Fields sizes(fields.value("vocabulary"), folder_.path(config_name) + ": vocabulary.", Fault::model);
        source_size_ = sizes.integer("source", 4, max_vocabulary);
        target_size_ = sizes.integer("target", 4, max_vocabulary);
        const bool joint = sizes.boolean("joint");
        sizes.check_all_used();
        Fields symbols(fields.value("symbols"), folder_.path(config_name) + ": symbols.", Fault::model);
        const auto symbol = [&](std::string_view name) {
            return static_cast<int32_t>(symbols.integer(name, 0, target_size_ - 1));
        };
        opened_->symbols = {symbol("start"), symbol("end"), symbol("pad"), symbol("unknown")};
        symbols.check_all_used();
        opened_->settings = read_settings(fields.value("model"), folder_.path(config_name));
        if (opened_->settings.decoder_only)
            fields.refuse("model.family", "decoder-only models run in the Python package");
        if (opened_->settings.average)
            fields.refuse("model.self_attention", "aan runs in the Python package");
        if (joint && source_size_ != target_size_) sizes.refuse("joint", "a joint vocabulary has one size");
        if (opened_->settings.tie == Tie::all && source_size_ != target_size_)
            fields.refuse("model.tie", "all needs vocabularies of one size");
        if (tokenisers == "numbered" && !joint) sizes.refuse("joint", "must be true with a frame");
        const bool marian = tokenisers == "marian";
        opened_->source = tokenisers == "numbered" ? numbered_tokeniser(fields.value("frame"))
                          : marian                 ? marian_tokeniser("source", source_size_)
                                                   : tokeniser("source.spm", source_size_);
        opened_->target = joint    ? opened_->source
                          : marian ? marian_tokeniser("target", target_size_)
                                   : tokeniser("target.spm", target_size_);
        opened_->head.layer = std::max<int64_t>(opened_->settings.decoder_layers - 2, 0);
        read_alignment_head(folder_, *opened_);
    }

    std::shared_ptr<const Subwords> tokeniser(const std::string& name, int64_t size) const {
        const std::string_view content = folder_.file(name, max_tokeniser_bytes);
        const auto result = named(folder_.path(name), [&] { return uwaga_subwords(content); });
        if (result->size() != size || !(result->symbols() == opened_->symbols))
            throw Failure(Fault::model, folder_.path(name) + ": its pieces and symbols are not those of " +
                                            config_name + "; the tokeniser belongs to another model");
        return result;
    }

    // The ids of pieces, some of `size` of which may be missing.
    std::unordered_map<std::string, int32_t> piece_ids(const std::string& name, int64_t size) const {
        const std::string path = folder_.path(name);
        const Json names = named(path, [&] { return Json::read(folder_.file(name, max_tokeniser_bytes)); });
        const auto refuse = [&](const std::string& message) -> void {
            throw Failure(Fault::model, path + ": " + message);
        };
        if (!names.object()) refuse("not a mapping from pieces to numbers");
        std::unordered_map<std::string, int32_t> ids;
        std::vector<bool> used_ids(static_cast<std::size_t>(size));
        for (const Json::Member& member : *names.object()) {
            const int64_t* const id = member.value.integer();
            if (!id || *id < 0 || *id >= size || used_ids[static_cast<std::size_t>(*id)])
                refuse("'" + member.key.substr(0, 60) + "' has no number of its own below " +
                       std::to_string(size));
            used_ids[static_cast<std::size_t>(*id)] = true;
            ids.emplace(member.key, static_cast<int32_t>(*id));
        }
        return ids;
    }

    std::shared_ptr<const Subwords> marian_tokeniser(const std::string& side, int64_t size) const {
        const std::string name = side + ".vocab.json";
        std::unordered_map<std::string, int32_t> ids = piece_ids(name, size);
        if (static_cast<int64_t>(ids.size()) != size)
            throw Failure(Fault::model, folder_.path(name) + ": has " + std::to_string(ids.size()) +
                                            " pieces, " + config_name + " asks for " + std::to_string(size));
        const std::string model = side + ".spm";
        const std::string_view content = folder_.file(model, max_tokeniser_bytes);
        return named(folder_.path(model), [&] {
            return marian_subwords(std::make_shared<const SentencePiece>(content), std::move(ids),
                                   opened_->symbols);
        });
    }

    std::shared_ptr<const Subwords> numbered_tokeniser(const Json& value) {
        const std::string location = folder_.path(config_name) + ": frame.";
        Fields fields(value, location, Fault::model);
        if (fields.has("tasks") && !(fields.value("tasks").array() && fields.value("tasks").array()->empty()))
            fields.refuse("tasks", "are supported by the Python package alone");
        Frame frame;
        frame.prefix = token_list(fields, "prefix");
        frame.suffix = token_list(fields, "suffix");
        frame.clean = fields.boolean("clean");
        frame.strip = fields.boolean("strip", false);
        const std::vector<Json>* const special = fields.value("special").array();
        if (!special) fields.refuse("special", "must be a list of tokens");
        for (const Json& item : *special) {
            Fields token(item, location + "special.", Fault::model);
            frame.special.push_back({static_cast<int32_t>(token.integer("id", 0, source_size_ - 1)),
                                     token.text("text"), token.boolean("lstrip"), token.boolean("rstrip"),
                                     token.boolean("special")});
            if (frame.special.back().text.empty()) token.refuse("text", "is empty");
            token.check_all_used();
        }
        if (fields.has("languages")) {
            Fields languages(fields.value("languages"), location + "languages.", Fault::model);
            frame.language_behind = read_languages(languages);
        }
        fields.check_all_used();
        const auto ids = piece_ids("source.vocab.json", source_size_);
        const std::string_view content = folder_.file("source.spm", max_tokeniser_bytes);
        return named(folder_.path("source.spm"), [&] {
            return numbered_subwords(content, ids, static_cast<int32_t>(source_size_), opened_->symbols,
                                     std::move(frame));
        });
    }

    std::vector<int32_t> token_list(Fields& fields, std::string_view name) const {
        std::vector<int32_t> tokens;
        const std::vector<Json>* const items = fields.value(name).array();
        for (std::size_t i = 0; items && i < items->size(); ++i) {
            const int64_t* const token = (*items)[i].integer();
            if (token && *token >= 0 && *token < target_size_) tokens.push_back(static_cast<int32_t>(*token));
        }
        if (!items || tokens.size() != items->size()) fields.refuse(name, "must be a list of tokens");
        return tokens;
    }

    // Returns whether the token of the source's language comes last.
    bool read_languages(Fields& fields) {
        LanguageTokens& languages = opened_->languages;
        const Json& tokens = fields.value("tokens");
        if (!tokens.object() || tokens.object()->empty()) fields.refuse("tokens", "must be tokens by code");
        for (const Json::Member& member : *tokens.object()) {
            const int64_t* const token = member.value.integer();
            if (!token || *token < 0 || *token >= target_size_)
                fields.refuse("tokens", "holds what is no token");
            languages.tokens[member.key] = static_cast<int32_t>(*token);
        }
        const std::vector<Json>* const positions = fields.value("positions").array();
        const std::vector<Json>* const selected = fields.value("selected").array();
        const auto is = [&](std::size_t side, std::string_view position) {
            return *(*positions)[side].string() == position;
        };
        if (!positions || positions->size() != 2 || !(*positions)[0].string() || !(*positions)[1].string() ||
            !(is(0, "before") || is(0, "behind")) || !(is(1, "before") || is(1, "start")))
            fields.refuse("positions", "must be before or behind, and before or start");
        languages.target_starts = is(1, "start");
        if (!selected || selected->size() != 2) fields.refuse("selected", "must be two codes or null");
        for (std::size_t side = 0; side < 2; ++side) {
            if ((*selected)[side].null()) continue;
            const std::string* const code = (*selected)[side].string();
            const auto token = code ? languages.tokens.find(*code) : languages.tokens.end();
            if (token == languages.tokens.end()) fields.refuse("selected", "must be codes of the tokens");
            (side ? languages.target : languages.source) = token->second;
        }
        fields.check_all_used();
        return is(0, "behind");
    }

    void read_decoding(const Json& value, const std::string& group) {
        Fields fields(value, folder_.path(config_name) + ": " + group, Fault::model);
        Decoding& d = opened_->decoding;
        read_options(fields, d);
        fields.ignore({"split_above", "lower_capitals", "temperature", "top_p", "utility"});
        if (fields.integer("no_repeat_ngram", 0, max_tokens, 0))
            fields.refuse("no_repeat_ngram", "is supported by the Python package alone");
        if (fields.boolean("sample", false))
            fields.refuse("sample", "is supported by the Python package alone");
        const Json* const score_forced = fields.find("score_forced");
        const bool length_alone = score_forced && score_forced->string() &&
                                  *score_forced->string() == "length";
        d.score_forced = !length_alone && fields.boolean("score_forced", true);  // equal without a prefix
        d.force_end = fields.boolean("force_end", false);
        d.unknown = fields.boolean("unknown", true);
        d.renormalise = fields.boolean("renormalise", false);
        const auto token = [&](std::string_view name) {
            return fields.has(name) ? static_cast<int32_t>(fields.integer(name, 0, target_size_ - 1)) : -1;
        };
        d.start = token("start");
        d.first = token("first");
        if (const Json* const banned = fields.find("banned")) {
            if (!banned->array() || static_cast<int64_t>(banned->array()->size()) > max_banned)
                fields.refuse("banned", "must be a list of tokens");
            for (const Json& item : *banned->array()) {
                if (!item.integer() || *item.integer() < 0 || *item.integer() >= target_size_)
                    fields.refuse("banned", "holds what is no token");
                d.banned.push_back(static_cast<int32_t>(*item.integer()));
            }
        }
        opened_->ignored_options = fields.unused();
    }

    static void check_hash(const std::string& name, std::string_view content, const std::string& expected) {
        if (!expected.empty() && Sha256::of(content) != expected)
            throw Failure(Fault::model, name + ": damaged, its checksum is not the one that " + config_name +
                                            " states; fetch or save the model again");
    }

    const Folder& folder_;
    const OpenOptions& options_;
    std::unique_ptr<OpenedModel> opened_;
    int64_t source_size_ = 0, target_size_ = 0;
};

}  // namespace

std::unique_ptr<OpenedModel> open_uwaga(const Folder& folder, const OpenOptions& options) {
    return UwagaFolder(folder, options).open();
}

}  // namespace uwaga
