#include "checkpoints/model_files.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <set>

#include "checkpoints/sha256.h"
#include "files/safetensors.h"
#include "search/sentence_search.h"
#include "transformer/build.h"

namespace uwaga {

namespace {

constexpr std::size_t largest_config = std::size_t{1} << 20, largest_tokeniser = std::size_t{1} << 28;
constexpr int64_t largest_vocabulary = (int64_t{1} << 24) - 1, most_tokens = int64_t{1} << 20, most_banned = int64_t{1} << 16;
constexpr int64_t widest_beam = 1024;
constexpr const char* config_name = "config.json";

// Frees the file system's and the library's errors of their context.
template <class Work>
auto named(const std::string& file, const Work& work) {
    try {
        return work();
    } catch (const std::invalid_argument& error) {
        throw Failure(Fault::model, file + ": " + error.what());
    } catch (const std::length_error&) {
        throw std::bad_alloc();
    }
}

bool finite(const float* values, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        if (!std::isfinite(values[i])) return false;
    }
    return true;
}

float from_half(uint16_t half) {
    const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16, exponent = (half >> 10) & 31u, fraction = half & 0x3ffu;
    if (exponent == 0) {
        const float small = std::ldexp(static_cast<float>(fraction), -24);
        return sign ? -small : small;
    }
    const uint32_t bits = sign | (exponent == 31 ? 0x7f800000u : (exponent + 112) << 23) | fraction << 13;
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}

// Write a tensor's numbers as float32; the file is little-endian, and so is every processor that there are kernels for.
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

class Opener {
  public:
    Opener(std::string place, const ReadFile& read, const OpenOptions& options) : place_(std::move(place)), read_(read), options_(options), made_(std::make_unique<OpenedModel>()) {}

    std::unique_ptr<OpenedModel> open() {
        const std::string config_file = path(config_name);
        const Json config = named(config_file, [&] { return Json::read(file(config_name, largest_config)); });
        Fields fields(config, config_file + ": ", Fault::model);
        const std::string format = config.object() && config.find("format") && config.find("format")->string() ? *config.find("format")->string() : "";
        fields.pass({"format", "version", "usual_score", "normalisation"});
        if (format == "uwaga model") {
            fields.whole("version", 1, 3);
            open_float(fields);
        } else if (format == "uwaga int8 model") {
            fields.whole("version", 4, 4);
            open_int8(fields);
        } else {
            throw Failure(Fault::model, config_file + ": not the configuration of a model of uwaga; `uwaga train` and `uwaga convert --int8` write them");
        }
        return std::move(made_);
    }

  private:
    std::string path(const std::string& name) const { return place_.empty() ? name : place_ + "/" + name; }

    std::string_view file(const std::string& name, std::size_t most = std::numeric_limits<std::size_t>::max()) const {
        std::string_view content;
        if (!read_(name, most, content)) throw Failure(Fault::file, path(name) + ": no such file, so this is not a complete model");
        return content;
    }

    void open_float(Fields& fields) {
        const Dtype stored = std::array<Dtype, 3>{Dtype::f32, Dtype::f16, Dtype::bf16}[static_cast<std::size_t>(fields.choice("weights", {"float32", "float16", "bfloat16"}))];
        const std::string hash = fields.has("sha256") ? fields.text("sha256") : "";
        read_common(fields);
        read_decoding(fields.value("decoding"), "decoding.");
        fields.check_all_used();
        const std::vector<Product> matrices = products(made_->settings, source_size_, target_size_);
        const auto shapes = vectors(made_->settings, target_size_);
        int64_t bytes = 0, largest = 0;
        for (const Product& one : matrices) {
            bytes += options_.int8 ? int8_bytes(one.outputs(), one.inputs) : float_panels_size(one.outputs(), one.inputs) * 4;
            largest = std::max(largest, one.outputs() * one.inputs * 4);
        }
        reserve(bytes, largest);
        const std::string name = path("model.safetensors");
        const std::string_view content = file("model.safetensors");
        check_hash(name, content, hash);
        const Safetensors tensors = named(name, [&] { return Safetensors(content); });
        std::set<std::string> used;
        for (const Product& one : matrices) {  // all shapes, before anything of their size is allocated
            for (const auto& [part, outputs] : one.parts) tensor(tensors, name, weight_name(part), stored, stored_shape(one, outputs), used);
        }
        for (const auto& [stored_name, shape] : shapes) tensor(tensors, name, stored_name, stored, shape, used);
        Parts parts;
        for (const Product& one : matrices) {
            Buffer<float> whole(one.outputs() * one.inputs);
            Buffer<float> bias(one.bias ? one.outputs() : 0);
            int64_t row = 0;
            for (const auto& [part, outputs] : one.parts) {
                const Tensor& weight = tensor(tensors, name, weight_name(part), stored, stored_shape(one, outputs), used);
                copy_block(weight, one.shape, one.first, one.column, outputs, one.inputs, whole.get() + row * one.inputs);
                if (one.bias) copy_block(tensor(tensors, name, bias_name(part), stored, {stored_shape(one, outputs)[0]}, used), one.shape, one.first, 0, outputs, 1, bias.get() + row);
                row += outputs;
            }
            check_finite(name, one.name, whole.get(), row * one.inputs);
            parts.matrices[one.name] = options_.int8 ? packed_int8(one, whole.get()) : packed_float(one, whole.get());
            if (one.bias) keep_vector(name, parts, one.name + ".bias", std::move(bias), row);
        }
        for (const auto& [stored_name, shape] : shapes) {
            const Tensor& found = tensor(tensors, name, stored_name, stored, shape, used);
            Buffer<float> values(size_of(shape));
            copy_floats(found, values.get());
            keep_vector(name, parts, stored_name, std::move(values), size_of(shape));
        }
        check_used(tensors, name, used);
        made_->precision = options_.int8 ? "int8" : "float32";
        build(name, parts);
    }

    void open_int8(Fields& fields) {
        if (fields.text("tokenisers") != "uwaga") fields.refuse("tokenisers", "must be uwaga; others run in the Python package");
        fields.pass({"frame", "text"});
        read_common(fields);
        if (fields.has("decoding")) {
            read_decoding(fields.value("decoding"), "decoding.");
        } else {
            read_decoding(fields.value("search"), "search.");
        }
        Fields weights(fields.value("weights"), path(config_name) + ": weights.", Fault::model);
        const int levels = static_cast<int>(weights.whole("levels", 1, 127));
        const int64_t size = weights.whole("bytes", 1, int64_t{1} << 48);
        const std::string hash = weights.text("sha256");
        std::set<std::string> kept;
        const std::vector<Json>* const listed = weights.value("kept").array();
        if (!listed) weights.refuse("kept", "must be a list of names");
        for (const Json& one : *listed) {
            if (!one.string()) weights.refuse("kept", "must be a list of names");
            kept.insert(*one.string());
        }
        weights.check_all_used();
        fields.check_all_used();
        const std::vector<Product> matrices = products(made_->settings, source_size_, target_size_);
        int64_t bytes = 0;
        for (const Product& one : matrices) bytes += kept.count(one.name) ? bfloat16_panels_size(one.outputs(), one.inputs) * 2 : int8_bytes(one.outputs(), one.inputs);
        reserve(bytes, 0);
        const std::string name = path("engine.safetensors");
        const std::string_view content = file("engine.safetensors");
        if (static_cast<int64_t>(content.size()) != size) throw Failure(Fault::model, name + ": has " + std::to_string(content.size()) + " bytes, " + config_name + " asks for " + std::to_string(size));
        check_hash(name, content, hash);
        const Safetensors tensors = named(name, [&] { return Safetensors(content); });
        std::set<std::string> used;
        Parts parts;
        for (const Product& one : matrices) {
            const int64_t outputs = padded_outputs(one.outputs());
            Matrix matrix;
            if (kept.count(one.name)) {
                matrix.kind = Matrix::Kind::bfloat16;
                const int64_t count = bfloat16_panels_size(one.outputs(), one.inputs);
                matrix.bfloat16 = {reinterpret_cast<const uint16_t*>(copied(tensor(tensors, name, one.name + ":panels", Dtype::u16, {count}, used))), one.outputs(), one.inputs};
            } else {
                matrix.kind = Matrix::Kind::int8;
                const int64_t count = int8_panels_size(one.outputs(), one.inputs);
                const auto* const panels = reinterpret_cast<const int8_t*>(copied(tensor(tensors, name, one.name + ":panels", Dtype::i8, {count}, used)));
                const auto* const scales = reinterpret_cast<const float*>(copied(tensor(tensors, name, one.name + ":scales", Dtype::f32, {outputs}, used)));
                const auto* const sums = reinterpret_cast<const int32_t*>(copied(tensor(tensors, name, one.name + ":sums", Dtype::i32, {outputs}, used)));
                check_finite(name, one.name + ":scales", scales, outputs);
                matrix.int8 = Int8Matrix{panels, scales, sums, one.outputs(), one.inputs, levels};
                named(name + ": " + one.name, [&] { check_int8(matrix.int8); });
            }
            parts.matrices[one.name] = matrix;
            if (one.bias) add_vector(tensors, name, one.name + ".bias", one.name + ".bias", {one.outputs()}, parts, used);
        }
        for (const auto& [stored_name, shape] : vectors(made_->settings, target_size_)) {
            add_vector(tensors, name, stored_name == "output_bias" ? "output.bias" : stored_name, stored_name, shape, parts, used);
        }
        check_used(tensors, name, used);
        made_->precision = "int8";
        build(name, parts);
    }

    void read_common(Fields& fields) {
        const std::vector<Json>* const languages = fields.value("languages").array();
        if (!languages || languages->size() != 2 || !(*languages)[0].string() || !(*languages)[1].string()) fields.refuse("languages", "must be two codes");
        made_->source_language = *(*languages)[0].string();
        made_->target_language = *(*languages)[1].string();
        Fields sizes(fields.value("vocabulary"), path(config_name) + ": vocabulary.", Fault::model);
        source_size_ = sizes.whole("source", 4, largest_vocabulary);
        target_size_ = sizes.whole("target", 4, largest_vocabulary);
        const bool joint = sizes.truth("joint");
        sizes.check_all_used();
        Fields symbols(fields.value("symbols"), path(config_name) + ": symbols.", Fault::model);
        const auto symbol = [&](std::string_view name) { return static_cast<int32_t>(symbols.whole(name, 0, target_size_ - 1)); };
        made_->symbols = {symbol("start"), symbol("end"), symbol("pad"), symbol("unknown")};
        symbols.check_all_used();
        made_->settings = read_settings(fields.value("model"), path(config_name));
        if (joint && source_size_ != target_size_) sizes.refuse("joint", "a joint vocabulary has one size");
        if (made_->settings.decoder_only) fields.refuse("model.family", "decoder-only models run in the Python package");
        if (made_->settings.tie == Tie::all && source_size_ != target_size_) fields.refuse("model.tie", "all needs vocabularies of one size");
        made_->source = tokeniser("source.spm", source_size_);
        made_->target = joint ? made_->source : tokeniser("target.spm", target_size_);
        read_head();
    }

    std::shared_ptr<const Subwords> tokeniser(const std::string& name, int64_t size) const {
        const std::string_view content = file(name, largest_tokeniser);
        const auto made = named(path(name), [&] { return std::make_shared<const Subwords>(content); });
        const SentencePiece& pieces = made->pieces();
        const SymbolIds& wanted = made_->symbols;
        const bool same = pieces.start() == wanted.start && pieces.end() == wanted.end && pieces.pad() == wanted.pad && pieces.unknown() == wanted.unknown;
        if (pieces.size() != size || !same) throw Failure(Fault::model, path(name) + ": its pieces and symbols are not those of " + config_name + "; the tokeniser belongs to another model");
        return made;
    }

    void read_head() {
        const int64_t layers = made_->settings.decoder_layers;
        made_->head.layer = std::max<int64_t>(layers - 2, 0);
        std::string_view content;
        const std::string name = "alignment_head.json";
        if (!read_(name, largest_config, content)) return;
        const Json head = named(path(name), [&] { return Json::read(content); });
        Fields fields(head, path(name) + ": ", Fault::model);
        made_->head.layer = fields.whole("layer", 1, layers) - 1;
        made_->head.head = fields.has("head") ? fields.whole("head", 1, made_->settings.decoder_heads) - 1 : -1;
        made_->head.reading = fields.choice("step", {"predicting", "reading"}) == 1;
        fields.pass({"links"});
        fields.check_all_used();
    }

    void read_decoding(const Json& given, const std::string& group) {
        Fields fields(given, path(config_name) + ": " + group, Fault::model);
        Decoding& d = made_->decoding;
        read_options(fields, d);
        fields.pass({"split_above", "lower_capitals", "temperature", "top_k", "top_p", "utility", "entropy", "alignment", "coverage", "mbr"});
        if (fields.whole("no_repeat_ngram", 0, most_tokens, 0)) fields.refuse("no_repeat_ngram", "is supported by the Python package alone");
        if (fields.truth("sample", false)) fields.refuse("sample", "is supported by the Python package alone");
        d.score_forced = fields.truth("score_forced", true);
        d.force_end = fields.truth("force_end", false);
        d.unknown = fields.truth("unknown", true);
        d.renormalise = fields.truth("renormalise", false);
        const auto token = [&](std::string_view name) { return fields.has(name) ? static_cast<int32_t>(fields.whole(name, 0, target_size_ - 1)) : -1; };
        d.start = token("start");
        d.first = token("first");
        if (const Json* const banned = fields.find("banned")) {
            if (!banned->array() || static_cast<int64_t>(banned->array()->size()) > most_banned) fields.refuse("banned", "must be a list of tokens");
            for (const Json& one : *banned->array()) {
                if (!one.integer() || *one.integer() < 0 || *one.integer() >= target_size_) fields.refuse("banned", "holds what is no token");
                d.banned.push_back(static_cast<int32_t>(*one.integer()));
            }
        }
        fields.check_all_used();
    }

    static std::vector<int64_t> stored_shape(const Product& one, int64_t outputs) { return one.shape.empty() ? std::vector<int64_t>{outputs, one.inputs} : one.shape; }

    // Copy a tensor, or, if `shape` is that of a weight, the block of (outputs, inputs) from output `first` and input
    // `column`; of a bias, with one input, its outputs.
    static void copy_block(const Tensor& from, const std::vector<int64_t>& shape, int64_t first, int64_t column, int64_t outputs, int64_t inputs, float* to) {
        if (shape.empty()) return copy_floats(from, to);
        const int64_t stride = size_of(from.shape) / shape[0];
        Buffer<float> all(size_of(from.shape));
        copy_floats(from, all.get());
        for (int64_t row = 0; row < outputs; ++row) std::copy_n(all.get() + (first + row) * stride + column, inputs, to + row * inputs);
    }

    static int64_t int8_bytes(int64_t outputs, int64_t inputs) { return int8_panels_size(outputs, inputs) + 8 * padded_outputs(outputs); }

    // Refuse a model that needs more than the bound, before anything is allocated.
    void reserve(int64_t bytes, int64_t besides) {
        int64_t positions = 2 * made_->settings.max_length * made_->settings.width * 4;
        if (made_->settings.positions == Places::relative) positions = 0;
        made_->bytes = bytes + positions;
        if (options_.memory && made_->bytes + besides > options_.memory) {
            throw Failure(Fault::memory, (place_.empty() ? std::string("the model") : place_) + ": needs " + std::to_string(made_->bytes + besides) + " bytes to open, and the bound is " + std::to_string(options_.memory));
        }
    }

    static void check_hash(const std::string& name, std::string_view content, const std::string& wanted) {
        if (!wanted.empty() && Sha256::of(content) != wanted) throw Failure(Fault::model, name + ": damaged, its checksum is not the one that " + config_name + " states; fetch or save the model again");
    }

    static const Tensor& tensor(const Safetensors& tensors, const std::string& file, const std::string& name, Dtype dtype, const std::vector<int64_t>& shape, std::set<std::string>& used) {
        const Tensor* const found = tensors.find(name);
        if (!found) throw Failure(Fault::model, file + ": '" + name + "' is missing");
        if (found->dtype != dtype || found->shape != shape) {
            std::string wanted(dtype_name(dtype));
            for (const int64_t axis : shape) wanted += " " + std::to_string(axis);
            throw Failure(Fault::model, file + ": '" + name + "' is not of the format and shape that " + config_name + " asks for: " + wanted);
        }
        used.insert(name);
        return *found;
    }
    static void check_used(const Safetensors& tensors, const std::string& file, const std::set<std::string>& used) {
        for (const auto& one : tensors.tensors()) {
            if (!used.count(one.first)) throw Failure(Fault::model, file + ": '" + one.first.substr(0, 200) + "' is not part of the model");
        }
    }
    static void check_finite(const std::string& file, const std::string& name, const float* values, int64_t count) {
        if (!finite(values, count)) throw Failure(Fault::model, file + ": '" + name + "' holds numbers that are not finite; the file is damaged");
    }
    static int64_t size_of(const std::vector<int64_t>& shape) {
        int64_t size = 1;
        for (const int64_t axis : shape) size *= axis;
        return size;
    }

    uint8_t* room(int64_t bytes) {
        made_->panels.emplace_back(std::max<int64_t>(bytes, 1));
        return made_->panels.back().get();
    }
    const uint8_t* copied(const Tensor& tensor) {
        uint8_t* const made = room(static_cast<int64_t>(tensor.bytes.size()));
        std::memcpy(made, tensor.bytes.data(), tensor.bytes.size());
        return made;
    }
    Matrix packed_float(const Product& one, const float* whole) {
        auto* const panels = reinterpret_cast<float*>(room(float_panels_size(one.outputs(), one.inputs) * 4));
        pack_float(whole, one.outputs(), one.inputs, panels);
        Matrix matrix;
        matrix.kind = Matrix::Kind::float32;
        matrix.float32 = {panels, one.outputs(), one.inputs};
        return matrix;
    }
    Matrix packed_int8(const Product& one, const float* whole) {
        check_int8_inputs(one.inputs);
        auto* const panels = reinterpret_cast<int8_t*>(room(int8_panels_size(one.outputs(), one.inputs)));
        auto* const scales = reinterpret_cast<float*>(room(padded_outputs(one.outputs()) * 4));
        auto* const sums = reinterpret_cast<int32_t*>(room(padded_outputs(one.outputs()) * 4));
        pack_int8(whole, one.outputs(), one.inputs, 127, panels, scales, sums);
        Matrix matrix;
        matrix.kind = Matrix::Kind::int8;
        matrix.int8 = Int8Matrix{panels, scales, sums, one.outputs(), one.inputs, 127};
        return matrix;
    }
    void keep_vector(const std::string& file, Parts& parts, const std::string& name, Buffer<float> values, int64_t size) {
        check_finite(file, name, values.get(), size);
        parts.vectors[name == "output_bias" ? "output.bias" : name] = {values.get(), size};
        values_.push_back(std::move(values));
    }
    void add_vector(const Safetensors& tensors, const std::string& file, const std::string& stored, const std::string& name, const std::vector<int64_t>& shape, Parts& parts, std::set<std::string>& used) {
        Buffer<float> values(size_of(shape));
        copy_floats(tensor(tensors, file, stored, Dtype::f32, shape, used), values.get());
        keep_vector(file, parts, name, std::move(values), size_of(shape));
    }

    // Replace the stored positions by a table for each side, as src/uwaga/engine/model.py does.
    void put_positions(Parts& parts) {
        const Settings& s = made_->settings;
        if (s.recurrent) return;
        for (const bool source : {true, false}) {
            const std::string side = source ? "source" : "target";
            if (s.positions == Places::sinusoidal) {
                if (source) tables_.push_back(sinusoids(s.sinusoids, s.width, s.position_offset, s.max_length));
                parts.vectors[side + "_positions"] = {tables_.back().data(), static_cast<int64_t>(tables_.back().size())};
                continue;
            }
            const auto found = parts.vectors.find(side + "_positions.weight");
            const Vector stored = found->second;
            parts.vectors.erase(found);
            if (s.positions == Places::learned) {
                parts.vectors[side + "_positions"] = {stored.data + s.position_offset * s.width, s.max_length * s.width};
            } else {
                const int64_t heads = source ? s.encoder_heads : s.decoder_heads;
                tables_.push_back(distances(stored.data, s.relative_buckets, heads, s.relative_distance, source));
                parts.vectors[side + "_relative_bias"] = {tables_.back().data(), static_cast<int64_t>(tables_.back().size())};
            }
        }
    }

    void build(const std::string& file, Parts& parts) {
        put_positions(parts);
        if (made_->settings.tie == Tie::embeddings) parts.matrices["target_embedding"] = parts.matrices["source_embedding"];
        parts.settings = model_settings(made_->settings, made_->precision != "float32");
        parts.settings["source_vocabulary"] = static_cast<double>(source_size_);
        parts.settings["target_vocabulary"] = static_cast<double>(target_size_);
        parts.settings["threads"] = static_cast<double>(options_.threads);
        parts.settings["shared_width"] = 384;
        made_->model = named(file, [&] { return build_model(parts, options_.isa, nullptr); });
    }

    const std::string place_;
    const ReadFile& read_;
    const OpenOptions& options_;
    std::unique_ptr<OpenedModel> made_;
    int64_t source_size_ = 0, target_size_ = 0;
    std::vector<Buffer<float>> values_;        // of vectors, until build_model() has copied them
    std::vector<std::vector<float>> tables_;   // of positions, the same
};

}  // namespace

void read_options(Fields& fields, Decoding& d) {
    d.beam = fields.whole("beam", 1, widest_beam, d.beam);
    d.nbest = fields.whole("nbest", 1, widest_beam, d.nbest);
    d.length_penalty = fields.number("length_penalty", -10, 10, d.length_penalty);
    if (fields.has("length_formula")) d.length_formula = fields.choice("length_formula", {"average", "gnmt", "none"});
    if (const Json* const stopping = fields.find("early_stopping")) {
        if (const bool* const full = stopping->boolean()) {
            d.stopping = static_cast<int>(*full ? Stopping::full : Stopping::exact);
        } else {
            fields.choice("early_stopping", {"estimate"});
            d.stopping = static_cast<int>(Stopping::estimate);
        }
    }
    d.min_length = fields.whole("min_length", 0, most_tokens, d.min_length);
    if (const Json* const longest = fields.find("max_length")) d.max_length = longest->null() ? 0 : fields.whole("max_length", 1, most_tokens);
    if (const Json* const ratio = fields.find("max_ratio")) d.max_ratio = ratio->null() ? std::numeric_limits<double>::infinity() : fields.number("max_ratio", 0, 1e300);
    d.max_extra = fields.whole("max_extra", 0, most_tokens, d.max_extra);
    if (d.nbest > d.beam) fields.refuse("nbest", "is more than beam");
    if (d.max_length && d.min_length > d.max_length) fields.refuse("min_length", "is more than max_length");
}

std::unique_ptr<OpenedModel> open_model(const std::string& place, const ReadFile& read, const OpenOptions& options) { return Opener(place, read, options).open(); }

}  // namespace uwaga
