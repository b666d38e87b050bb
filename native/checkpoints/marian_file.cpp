#include "checkpoints/marian_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "checkpoints/folders.h"
#include "files/lexical_checksum.h"
#include "search/sentence_search.h"
#include "text/affixes.h"

namespace uwaga {

namespace {

constexpr std::string_view multiplier_ending = "_QuantMultA";  // of names of multipliers of activations
constexpr std::string_view embeddings = "Wemb";
constexpr uint64_t max_tensors = 1 << 16, max_name_bytes = 1 << 10, max_axes = 8, max_padding = 1 << 16;
constexpr uint64_t max_header_bytes = 1 << 20;
constexpr int64_t default_max_length = 1024;  // Marian has no limit
constexpr const char* epsilon = "1e-6";       // added to the variance by layerNorm of src/layers/generic.h
constexpr float absent_logit = -1e4f;         // the logit of tokens that Marian does not have

template <class Number>
Number read_number_at(const ReadBytes& read, uint64_t start) {
    char bytes[sizeof(Number)];
    read(start, sizeof bytes, bytes);
    return read_number<Number>(bytes);
}

std::string hexadecimal(uint64_t number) {
    std::string digits;
    for (; number || digits.empty(); number /= 16)
        digits.insert(digits.begin(), "0123456789abcdef"[number % 16]);
    return "0x" + digits;
}

std::string quoted(std::string_view text) { return "'" + std::string(text.substr(0, 200)) + "'"; }

std::string shape_text(const std::vector<int64_t>& shape) {
    std::string text;
    for (const int64_t axis : shape) text += (text.empty() ? "" : ", ") + std::to_string(axis);
    return "(" + text + ")";
}

// Two numbers, the version and the count of tensors; headers of four numbers each (length of the name, number
// format, axes, bytes); names, axes, a padding preceded by its length, and the data.
class HeaderReader {
  public:
    HeaderReader(const std::string& path, uint64_t size, const ReadBytes& read)
        : path_(path), size_(size), head_(static_cast<std::size_t>(std::min(size, max_header_bytes)), '\0') {
        read(0, head_.size(), head_.data());
    }

    std::map<std::string, MarianTensor, std::less<>> tensors(const ReadBytes& read) {
        const auto version = take<uint64_t>();
        if (version != 1)
            refuse("not a binary Marian model of version 1 (it begins with " + std::to_string(version) + ")");
        const auto count = take<uint64_t>();
        if (count < 1 || count > max_tensors)
            refuse("states " + std::to_string(count) + " tensors; the file is damaged");
        struct Header {
            uint64_t name, kind, axes, bytes;
        };
        if (count * sizeof(Header) > head_.size()) refuse("is cut short; fetch it again");
        std::vector<Header> headers(static_cast<std::size_t>(count));
        for (Header& header : headers) {
            header = {take<uint64_t>(), take<uint64_t>(), take<uint64_t>(), take<uint64_t>()};
            if (header.name < 1 || header.name > max_name_bytes || header.axes > max_axes)
                refuse("a header with impossible lengths; the file is damaged");
        }
        std::vector<std::string> names;
        for (const Header& header : headers) names.push_back(name(bytes(header.name)));
        std::vector<MarianTensor> tensors(headers.size());
        for (std::size_t i = 0; i < headers.size(); ++i) {
            for (uint64_t axis = 0; axis < headers[i].axes; ++axis)
                tensors[i].shape.push_back(take<int32_t>());
        }
        const auto padding = take<uint64_t>();
        if (padding > max_padding)
            refuse("states " + std::to_string(padding) + " bytes of padding; the file is damaged");
        uint64_t start = offset_ + padding;
        for (std::size_t i = 0; i < headers.size(); ++i) {
            const uint64_t stored = headers[i].bytes, remaining = start < size_ ? size_ - start : 0;
            tensors[i].start = start;
            set_kind(names[i], headers[i].kind, tensors[i]);
            check_size(names[i], tensors[i], stored);
            if (stored > remaining)
                refuse("its tensors end beyond its " + std::to_string(size_) +
                       " bytes: it is cut short or damaged; fetch it again");
            if (tensors[i].quantised()) set_multiplier(names[i], tensors[i], read);
            start += stored;
        }
        if (start != size_)
            refuse("its tensors end at byte " + std::to_string(start) + ", and the file has " +
                   std::to_string(size_) + ": it is damaged; fetch it again");
        std::map<std::string, MarianTensor, std::less<>> named_tensors;
        for (std::size_t i = 0; i < headers.size(); ++i) {
            if (!named_tensors.emplace(names[i], std::move(tensors[i])).second)
                refuse("two tensors of one name; the file is damaged");
        }
        return named_tensors;
    }

  private:
    [[noreturn]] void refuse(const std::string& message) const {
        throw Failure(Fault::model, path_ + ": " + message);
    }

    const char* bytes(uint64_t count) {
        if (count > head_.size() - offset_) refuse("is cut short; fetch it again");
        offset_ += static_cast<std::size_t>(count);
        length_ = static_cast<std::size_t>(count);
        return head_.data() + offset_ - length_;
    }
    template <class Number>
    Number take() {
        return read_number<Number>(bytes(sizeof(Number)));
    }

    std::string name(const char* raw) const {
        const std::string_view name(raw, length_ - (raw[length_ - 1] == '\0'));
        const auto printable = [](char c) { return c >= ' ' && c <= '~'; };
        if (name.empty() || !std::all_of(name.begin(), name.end(), printable))
            refuse("a tensor has no name of printable characters; the file is damaged");
        return std::string(name);
    }

    void set_kind(const std::string& name, uint64_t number, MarianTensor& tensor) const {
        using Kind = MarianTensor::Kind;
        // Integers with a multiplier have the numbers of browsermt's Marian and of marian-nmt's.
        static const std::map<uint64_t, Kind> kinds = {
            {0x0404, Kind::f32},         {0x0402, Kind::f16},         {0x0408, Kind::f64},
            {0x0101, Kind::i8},          {0x4101, Kind::quantised8},  {0x10001, Kind::quantised8},
            {0x4102, Kind::quantised16}, {0x10002, Kind::quantised16}};
        constexpr uint64_t processor_layouts = 0x0800 | 0x1000 | 0x2000 | 0x8000;
        const auto kind = kinds.find(number);
        if (kind == kinds.end() && number & processor_layouts)
            refuse(quoted(name) + " is stored in the layout of one processor (" + hexadecimal(number) +
                   "); convert the model anew with marian-conv --gemm-type intgemm8 or float32");
        if (kind == kinds.end())
            refuse(quoted(name) + " has the unknown number format " + hexadecimal(number));
        tensor.kind = kind->second;
        tensor.weight = tensor.kind != Kind::i8 && !ends_with(name, multiplier_ending);
        tensor.transposed = tensor.quantised() && name.find(embeddings) == std::string::npos;
    }

    void check_size(const std::string& name, const MarianTensor& tensor, uint64_t stored) const {
        constexpr uint64_t max_bytes = uint64_t{1} << 62;
        constexpr uint64_t widths[] = {4, 2, 8, 1, 1, 2};  // by kind
        uint64_t required = widths[static_cast<int>(tensor.kind)];
        for (const int64_t axis : tensor.shape) {
            if (axis < 1)
                refuse(quoted(name) + " has the shape " + shape_text(tensor.shape) + "; the file is damaged");
            const auto count = static_cast<uint64_t>(axis);
            required = required > max_bytes / count ? max_bytes : required * count;
        }
        if (tensor.quantised() && tensor.shape.size() != 2)
            refuse(quoted(name) + " is not a matrix: " + shape_text(tensor.shape));
        if (tensor.quantised()) required += sizeof(float);
        if (required > stored)
            refuse(quoted(name) + " of shape " + shape_text(tensor.shape) + " needs " +
                   std::to_string(required) + " bytes and has " + std::to_string(stored) +
                   "; the file is damaged");
    }

    void set_multiplier(const std::string& name, MarianTensor& tensor, const ReadBytes& read) const {
        const auto count = static_cast<uint64_t>(tensor.size());
        tensor.multiplier = read_number_at<float>(
            read, tensor.start + count * (tensor.kind == MarianTensor::Kind::quantised8 ? 1 : 2));
        if (!(std::isfinite(tensor.multiplier) && tensor.multiplier > 0))
            refuse(quoted(name) + " was multiplied by " + std::to_string(tensor.multiplier) +
                   "; the file is damaged");
    }

    const std::string& path_;
    const uint64_t size_;
    std::string head_;
    std::size_t offset_ = 0, length_ = 0;  // length_: of the last bytes
};

// A JSON object as text, of values that need no escapes.
class ObjectText {
  public:
    void add_raw(std::string_view name, const std::string& value) {
        text_ += (text_.empty() ? "{\"" : ", \"") + std::string(name) + "\": " + value;
    }
    void add(std::string_view name, int64_t value) { add_raw(name, std::to_string(value)); }
    void add(std::string_view name, bool value) { add_raw(name, value ? "true" : "false"); }
    void add(std::string_view name, const char* value) { add_raw(name, "\"" + std::string(value) + "\""); }
    std::string text() const { return text_ + "}"; }

  private:
    std::string text_;
};

// A value as messages show it.
std::string described(const Json& value) {
    double number = 0;
    if (value.null()) return "null";
    if (value.boolean()) return *value.boolean() ? "true" : "false";
    if (value.integer()) return std::to_string(*value.integer());
    if (value.number(number)) {
        std::string text = std::to_string(number);
        text.erase(text.find_last_not_of('0') + 1);
        return text;
    }
    if (value.string()) return "'" + value.string()->substr(0, 60) + "'";
    return value.array() ? "a list of " + std::to_string(value.array()->size()) : "a group";
}

// The settings of a model.
class SettingsReader {
  public:
    SettingsReader(const std::string& location, const Json& options)
        : options_(options), fields_(options, location + ": ", Fault::model), location_(location) {}

    MarianSettings read() {
        check_features();
        read_sizes();
        read_blocks();
        read_self_attention();
        model_.add("tie", tie());
        model_.add_raw("dropout", "0.0");
        return {model_.text(), guided_layer()};
    }

  private:
    // Features that uwaga lacks, with the values that disable them; absent features are disabled.
    void check_features() {
        neutral("type", {"transformer"});
        for (const char* const name : {"transformer-no-projection", "transformer-tied-layers",
                                       "transformer-pool", "right-left", "ulr"})
            neutral(name, {});
        neutral("transformer-ffn-depth", {}, {2});
        neutral("transformer-decoder-ffn-depth", {}, {0, 2});
        neutral("lemma-dim-emb", {}, {0});
        if (const Json* const types = options_.find("input-types"); types && types->array()) {
            for (const Json& type : *types->array()) {
                if (!type.string() || *type.string() != "sequence" || types->array()->size() != 2)
                    refuse_value("input-types", *types);
            }
        }
    }

    [[noreturn]] void refuse_value(const char* name, const Json& value) const {
        fields_.refuse(name, "= " + described(value) + " is not supported by uwaga");
    }

    void neutral(const char* name, std::initializer_list<std::string_view> texts,
                 std::initializer_list<int64_t> numbers = {}) const {
        const Json* const value = options_.find(name);
        if (!value || value->null()) return;
        const auto* const list = value->array();
        const auto* const boolean = value->boolean();
        const auto* const number = value->integer();
        const auto* const text = value->string();
        const bool off = (list && list->empty()) ||
                         (boolean && !*boolean && !texts.size() && !numbers.size()) ||
                         (number && std::find(numbers.begin(), numbers.end(), *number) != numbers.end()) ||
                         (text && std::find(texts.begin(), texts.end(), *text) != texts.end());
        if (!off) refuse_value(name, *value);
    }

    std::string text(const char* name, const char* fallback) {
        return fields_.has(name) ? fields_.text(name) : std::string(fallback);
    }
    bool flag(const char* name) { return fields_.has(name) && fields_.boolean(name); }
    // Operations before or after a block, without dropout (a: add, n: norm).
    std::string operations(const char* name, const char* fallback) {
        std::string steps = text(name, fallback);
        steps.erase(std::remove(steps.begin(), steps.end(), 'd'), steps.end());
        return steps;
    }
    const char* activation(const char* name) {
        const std::string activation = text(name, "swish");
        if (activation != "relu" && activation != "swish")
            fields_.refuse(name, quoted(activation) + " is not supported by uwaga; supported: relu, swish");
        return activation == "relu" ? "relu" : "silu";
    }

    void read_sizes() {
        const bool learned = flag(fields_.has("transformer-train-positions")
                                      ? "transformer-train-positions"
                                      : "transformer-train-position-embeddings");
        const int64_t width = fields_.integer("dim-emb", 1, max_size);
        const int64_t heads = fields_.integer("transformer-heads", 1, max_size);
        if (width % heads)
            fields_.refuse("dim-emb", std::to_string(width) + " is not a multiple of transformer-heads " +
                                          std::to_string(heads));
        if (!learned && width % 2)
            fields_.refuse("dim-emb",
                           std::to_string(width) + " is odd, and sinusoidal positions need an even one");
        model_.add("family", "transformer");
        model_.add("encoder_layers", fields_.integer("enc-depth", 1, max_layers));
        model_.add("decoder_layers", decoder_layers_ = fields_.integer("dec-depth", 1, max_layers));
        model_.add("width", width);
        model_.add("heads", heads);
        model_.add("feed_forward", fields_.integer("transformer-dim-ffn", 1, max_size));
        const char* const decoder = "transformer-decoder-dim-ffn";
        if (const int64_t inner = fields_.has(decoder) ? fields_.integer(decoder, 0, max_size) : 0)
            model_.add("decoder_feed_forward", inner);
        model_.add("positions", learned ? "learned" : "sinusoidal");
        model_.add("sinusoids", "tensor2tensor");
        model_.add("max_length", learned && fields_.has("max-length")
                                     ? fields_.integer("max-length", 1, max_size / width)
                                     : default_max_length);
        model_.add("embedding_scale", !learned);
    }

    void read_blocks() {
        const std::string before = operations("transformer-preprocess", ""),
                          after = operations("transformer-postprocess", ""),
                          top = operations("transformer-postprocess-top", ""),
                          embedding = operations("transformer-postprocess-emb", "d");
        const bool pre = before == "n" && after == "a" && top == "n",
                   post = before.empty() && after == "an" && top.empty();
        if (!(post || pre) || !(embedding.empty() || embedding == "n"))
            fields_.refuse(
                "transformer-preprocess",
                quoted(text("transformer-preprocess", "")) + ", transformer-postprocess " +
                    quoted(text("transformer-postprocess", "")) + ", transformer-postprocess-top " +
                    quoted(text("transformer-postprocess-top", "")) + ", transformer-postprocess-emb " +
                    quoted(embedding) +
                    ": uwaga has norms behind the blocks ('', 'dan', '') or before them ('n', 'da', 'n')");
        model_.add("norm", pre ? "pre" : "post");
        model_.add("embedding_norm", embedding == "n");
        model_.add_raw("norm_epsilon", epsilon);
        model_.add("activation", activation("transformer-ffn-activation"));
        model_.add("output_bias", true);
    }

    void read_self_attention() {
        const char* const name = "transformer-decoder-autoreg";
        const std::string kind = text(name, "self-attention");
        if (kind == "rnn") {
            model_.add("self_attention", "ssru");
            if (const std::string cell = text("dec-cell", "gru"); cell != "ssru")
                fields_.refuse("dec-cell", "= " + quoted(cell) + " is not supported; supported: 'ssru'");
            for (const char* const feature : {"transformer-rnn-projection", "layer-normalization"})
                neutral(feature, {});
        } else if (kind == "average-attention") {
            model_.add("self_attention", "aan");
            const auto integer = [&](const char* key, int64_t max, int64_t fallback) {
                return fields_.has(key) ? fields_.integer(key, 1, max) : fallback;
            };
            model_.add("aan_layers", integer("transformer-aan-depth", max_layers, 2));
            model_.add("aan_feed_forward", integer("transformer-dim-aan", max_size, 2048));
            model_.add("aan_activation", activation("transformer-aan-activation"));
            model_.add("aan_gate", !flag("transformer-aan-nogate"));
        } else if (kind != "self-attention") {
            fields_.refuse(name, "= " + quoted(kind) +
                                     " is not supported; supported: self-attention, rnn, average-attention");
        }
    }

    const char* tie() {
        const bool source = flag("tied-embeddings-src"), output = flag("tied-embeddings");
        if (flag("tied-embeddings-all") || (source && output)) return "all";
        return source ? "embeddings" : output ? "decoder" : "none";
    }

    int64_t guided_layer() {
        const char* const name = "transformer-guided-alignment-layer";
        const Json* const value = fields_.find(name);
        const std::string text = value && value->string() ? *value->string() : "";
        if (!value || value->null() || text == "last") return decoder_layers_ - 1;
        const bool digits = !text.empty() && text.size() < 5 &&
                            text.find_first_not_of("0123456789") == std::string::npos;
        const int64_t layer = digits ? std::stoi(text) : value->integer() ? *value->integer() : 0;
        if (layer < 1 || layer > decoder_layers_)
            fields_.refuse(name, described(*value) + " is not one of the decoder's " +
                                     std::to_string(decoder_layers_) + " layers");
        return layer - 1;
    }

    const Json& options_;
    Fields fields_;
    const std::string& location_;
    ObjectText model_;
    int64_t decoder_layers_ = 0;
};

TensorLocation linear(const std::string& name, std::initializer_list<const char*> parts, bool bias) {
    TensorLocation location;
    location.transposed = !bias;
    for (const char* const part : parts) location.names.push_back(name + (bias ? "b" : "W") + part);
    return location;
}

TensorLocation norm(const std::string& name, bool bias, bool pre) {
    return {{name + (bias ? "_ln_bias" : "_ln_scale") + (pre ? "_pre" : "")}};
}

}  // namespace

MarianFile::MarianFile(std::string path, uint64_t size, const ReadBytes& read) : path_(std::move(path)) {
    tensors_ = HeaderReader(path_, size, read).tensors(read);
    check_multipliers(read);
}

bool MarianFile::quantised() const {
    return std::any_of(tensors_.begin(), tensors_.end(),
                       [](const auto& tensor) { return tensor.second.weight && tensor.second.quantised(); });
}

// A file with multipliers of activations has one for each quantised matrix. They are not used: a scale for
// each row is closer to float32 (docs/guides/marian.md).
void MarianFile::check_multipliers(const ReadBytes& read) const {
    using Kind = MarianTensor::Kind;
    std::string missing;
    bool any_multiplier = false;
    for (const auto& [name, tensor] : tensors_) {
        if (ends_with(name, multiplier_ending)) {
            any_multiplier = true;
            if (tensor.size() != 1)
                refuse(quoted(name) + " has the shape " + shape_text(tensor.shape) +
                       ", not that of one number");
            // That of the embeddings is stored quantised, as 127.
            const double value = tensor.kind == Kind::quantised8
                                     ? read_number_at<int8_t>(read, tensor.start) * tensor.scale()
                                 : tensor.kind == Kind::quantised16
                                     ? read_number_at<int16_t>(read, tensor.start) * tensor.scale()
                                 : tensor.kind == Kind::f32 ? read_number_at<float>(read, tensor.start)
                                                            : 0.0;
            if (!(std::isfinite(value) && value > 0))
                refuse(quoted(name) + " holds " + std::to_string(value) + ", which multiplies nothing");
        } else if (tensor.kind == Kind::quantised8 && tensor.transposed &&
                   !find(name + std::string(multiplier_ending))) {
            missing = missing.empty() ? name + std::string(multiplier_ending) : missing;
        }
    }
    if (any_multiplier && !missing.empty())
        refuse(quoted(missing) + " is missing, and other matrices have theirs");
}

MarianSettings read_marian_settings(const std::string& location, const Json& options) {
    return SettingsReader(location, options).read();
}

MarianNames::MarianNames(const std::string& location, const Settings& settings, int64_t source,
                         int64_t target, bool output_rows)
    : tied_embeddings_(settings.tie == Tie::all || settings.tie == Tie::embeddings),
      tied_output_(settings.tie == Tie::all || settings.tie == Tie::decoder), pre_norm_(settings.pre_norm),
      ssru_(settings.ssru), average_(settings.average), output_rows_(output_rows), source_(source),
      target_(target) {
    if (tied_embeddings_ && source != target)
        throw Failure(Fault::model, location + ": one embedding for vocabularies of " +
                                        std::to_string(source) + " and " + std::to_string(target) +
                                        " tokens");
}

TensorLocation MarianNames::location(const std::string& name) const {
    const std::string target = tied_embeddings_ ? "Wemb" : "decoder_Wemb";
    if (name == "source_embedding.weight")
        return {{tied_embeddings_ ? "Wemb" : "encoder_Wemb"}, false, source_};
    if (name == "target_embedding.weight") return {{target}, false, target_};
    if (name == "output_bias")  // absent with --output-omit-bias
        return {{"decoder_ff_logit_out_b"}, false, target_, absent_logit, true};
    if (name == "output_weight") {
        if (tied_output_) return {{target}, false, target_};
        return {{output_rows_ ? std::string(marian_output_rows) : "decoder_ff_logit_out_W"},
                !output_rows_,
                target_};
    }
    if (ends_with(name, "_positions.weight")) return {{"Wpos"}};
    const std::size_t dot = name.rfind('.');
    const bool bias = name.substr(dot) == ".bias";
    std::string_view block = std::string_view(name).substr(0, dot);
    const std::string stack(block.substr(0, 7));  // encoder or decoder, unless it is a norm of a side
    if (block == "encoder_norm" || block == "decoder_norm") return norm(stack + "_top", bias, false);
    if (block == "source_norm") return norm("encoder_emb", bias, true);
    if (block == "target_norm") return norm("decoder_emb", bias, true);
    block.remove_prefix(8);
    const std::size_t end = block.find('.');
    const std::string layer = stack + "_l" + std::to_string(std::stoi(std::string(block.substr(0, end))) + 1);
    block.remove_prefix(end + 1);
    return layer_location(layer, block, bias);
}

TensorLocation MarianNames::layer_location(const std::string& layer, std::string_view block,
                                           bool bias) const {
    const bool pre = pre_norm_;
    if (block == "feed_forward_norm") return norm(layer + "_ffn_ffn", bias, pre);
    if (block == "feed_forward.inner") return linear(layer + "_ffn_", {"1"}, bias);
    if (block == "feed_forward.outer") return linear(layer + "_ffn_", {"2"}, bias);
    if (block == "ssru.input") return {{layer + "_rnn_W"}, true};
    if (block == "ssru.forget") return linear(layer + "_rnn_", {"f"}, bias);
    if (block == "aan.input_gate") return linear(layer + "_aan_", {"i"}, bias);
    if (block == "aan.forget_gate") return linear(layer + "_aan_", {"f"}, bias);
    if (const std::string_view layers = "aan.layers."; starts_with(block, layers)) {
        const int number = std::stoi(std::string(block.substr(layers.size()))) + 1;
        return linear(layer + "_aan_", {std::to_string(number).c_str()}, bias);
    }
    if (block == "self_attention_norm" && (ssru_ || average_))
        return norm(layer + (ssru_ ? "_rnn" : "_aan") + (pre ? "" : "_ffn"), bias, pre);
    const std::string attention = layer + (starts_with(block, "cross_") ? "_context" : "_self");
    if (ends_with(block, "_norm")) return norm(attention + "_Wo", bias, pre);
    if (ends_with(block, ".query")) return linear(attention + "_", {"q"}, bias);
    if (ends_with(block, ".key_value")) return linear(attention + "_", {"k", "v"}, bias);
    return linear(attention + "_", {"o"}, bias);
}

Decoding read_marian_decoding(const std::string& location, const MarianFiles& files) {
    const std::string name = files.decoder.empty() ? "decoder.yml" : files.decoder;
    Fields fields(files.options, (location.empty() ? "" : location + "/") + name + ": ", Fault::model);
    const bool student = files.decoder.empty() && !files.shortlist.empty();
    const auto neutral = [&](const char* name, int64_t value) {
        double number = 0;
        const Json* setting = fields.find(name);
        if (setting && setting->array() && setting->array()->size() == 1) setting = &(*setting->array())[0];
        if (!setting || setting->null() || (setting->boolean() && !*setting->boolean()) ||
            (setting->array() && setting->array()->empty()) ||
            (setting->number(number) && (number == 0 || number == static_cast<double>(value))))
            return;
        fields.refuse(name, "= " + described(*setting) + " is not supported by uwaga");
    };
    neutral("word-penalty", 0);
    neutral("n-best", 0);
    neutral("weights", 1);
    Decoding d;
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
    // The limit of steps is the factor times the source's tokens, rounded up.
    d.max_ratio = std::nextafter(factor, 0.0);
    d.max_extra = 1;
    d.stopping = static_cast<int>(Stopping::exact);
    d.unknown = fields.has("allow-unk") && fields.boolean("allow-unk");
    return d;
}

std::pair<std::string, std::string> marian_languages(const std::string& name) {
    const auto letter = [&](std::size_t offset) {
        return offset < name.size() && name[offset] >= 'a' && name[offset] <= 'z';
    };
    for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
        const std::size_t second = dot + 3 + (dot + 3 < name.size() && name[dot + 3] == '-');
        if (!letter(dot + 1) || !letter(dot + 2) || !letter(second) || !letter(second + 1) ||
            name.substr(second + 2, 1) != ".")
            continue;
        const std::string source = name.substr(dot + 1, 2), target = name.substr(second, 2);
        return source == target ? std::pair<std::string, std::string>() : std::pair(source, target);
    }
    return {};
}

LexicalLists read_lexical_lists(const std::string& path, std::string_view content, int64_t source,
                                int64_t target) {
    const auto refuse = [&](const std::string& message) -> void {
        throw Failure(Fault::model, path + ": " + message);
    };
    const auto number = [&](std::size_t start) { return read_number<uint64_t>(content.data() + start); };
    constexpr std::size_t header_bytes = 48;
    constexpr uint64_t magic = 0xF11A48D5013417F5;
    if (content.size() < header_bytes)
        refuse("not a shortlist (" + std::to_string(content.size()) + " bytes); fetch it again");
    if (number(0) != magic)
        refuse("not a binary Marian shortlist (it begins with " + hexadecimal(number(0)) + ")");
    const uint64_t common = number(16), offsets = number(32), entries = number(40);
    if (offsets > content.size() || entries > content.size() ||
        header_bytes + 8 * offsets + 4 * entries != content.size())
        refuse("states " + std::to_string(offsets) + " offsets and " + std::to_string(entries) +
               " entries, which are not its " + std::to_string(content.size()) +
               " bytes: it is cut short or damaged; fetch it again");
    if (lexical_checksum(content.substr(16)) != number(8))
        refuse("the checksum is not that of the file; it is damaged: fetch it again");
    if (static_cast<int64_t>(offsets) != source + 1)
        refuse("is for " + std::to_string(offsets - 1) + " source tokens, and the model has " +
               std::to_string(source) + "; the files are of different models");
    const std::string beyond = "holds target tokens beyond the " + std::to_string(target) +
                               " of the model; the files are of different models";
    if (common < 1 || common > static_cast<uint64_t>(target)) refuse(beyond);
    LexicalLists lists;
    lists.common = static_cast<int32_t>(common);
    uint64_t previous = 0;
    for (std::size_t i = 0; i < offsets; ++i) {
        const uint64_t offset = number(header_bytes + 8 * i);
        if (offset < previous || offset > entries || (i == 0 && offset) ||
            (i + 1 == offsets && offset != entries))
            refuse("its offsets do not go from 0 to its " + std::to_string(entries) + " entries");
        previous = offset;
        lists.offsets.push_back(static_cast<int32_t>(offset));
    }
    lists.targets.resize(static_cast<std::size_t>(entries));
    if (entries)
        std::memcpy(lists.targets.data(), content.data() + header_bytes + 8 * offsets,
                    4 * lists.targets.size());
    for (std::size_t token = 0; token + 1 < offsets; ++token) {
        int32_t last = -1;
        for (int32_t i = lists.offsets[token]; i < lists.offsets[token + 1]; ++i) {
            const int32_t listed = lists.targets[static_cast<std::size_t>(i)];
            if (listed < 0 || listed >= target) refuse(beyond);
            if (listed <= last)
                refuse("the target tokens of source token " + std::to_string(token) +
                       " are not in ascending order");
            last = listed;
        }
    }
    return lists;
}

}  // namespace uwaga
