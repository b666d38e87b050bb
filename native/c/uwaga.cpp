// The C interface: handles, options and error codes. No exception leaves this file.
#include "c/uwaga.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "c/edit_options.h"
#include "c/translate.h"

#ifndef UWAGA_NO_FILES  // a page has no file system
#include <cstdio>
#include <filesystem>
#endif

using namespace uwaga;

// The languages of a call: the tag of the target's, or the tokens of both; -1: none.
struct Direction {
    std::string tag;
    int32_t source = -1, target = -1;
};

struct uwaga_model {
    explicit uwaga_model(int64_t bound) : budget(bound) {}
    std::unique_ptr<OpenedModel> opened;
    std::string info;
    Direction direction;  // of calls that ask for no other
    mutable Budget budget;
};

struct uwaga_call {
    uwaga_on_token on_token;
    void* user;
    std::atomic<bool> cancelled{false};
};

struct uwaga_result {
    std::vector<TextResult> texts;
};

namespace {

constexpr int64_t max_bytes = int64_t{1} << 52;

int failed(uwaga_error* error, int code, const char* message) {
    if (error) {
        error->code = code;
        std::size_t size = std::min(std::strlen(message), sizeof error->message - 1);
        while (size && size == sizeof error->message - 1 &&
               (static_cast<unsigned char>(message[size]) & 0xc0) == 0x80)
            --size;  // whole characters
        std::memcpy(error->message, message, size);
        error->message[size] = 0;
    }
    return code;
}

// Run `work`, and turn its exceptions into codes.
template <class Work>
int guarded(uwaga_error* error, const Work& work) noexcept {
    try {
        if (error) *error = uwaga_error{};
        work();
        return UWAGA_OK;
    } catch (const Failure& failure) {
        return failed(error, static_cast<int>(failure.fault), failure.what());
    } catch (const std::bad_alloc&) {
        return failed(error, UWAGA_ERROR_MEMORY, "out of memory");
    } catch (const std::exception& exception) {
        return failed(error, UWAGA_ERROR_INTERNAL, exception.what());
    } catch (...) {
        return failed(error, UWAGA_ERROR_INTERNAL, "unknown error");
    }
}

Json options_of(const char* options) {
    try {
        return Json::read(options && *options ? options : "{}");
    } catch (const std::invalid_argument& error) {
        throw Failure(Fault::argument, std::string("options: ") + error.what());
    }
}

void require(bool present, const char* name) {
    if (!present) throw Failure(Fault::argument, std::string(name) + ": a null pointer");
}

Isa isa_of(Fields& fields) {
    if (!fields.has("isa")) return best_isa();
    const Isa isa = static_cast<Isa>(fields.choice("isa", {"portable", "neon", "avx2", "avxvnni",
                                                           "avx512vnni", "amx", "wasm"}));
    if (!supported(isa)) fields.refuse("isa", "is not supported by this processor");
    return isa;
}

[[noreturn]] void refuse_language(const char* option, const std::string& requested,
                                  const std::string& supported_languages) {
    throw Failure(Fault::language, std::string(option) + " is '" + requested.substr(0, 60) +
                                       "', and the model translates " + supported_languages);
}

// The token of a language by its code, or by the part before its script if that is unique (deu for deu_Latn).
int32_t language_token(const LanguageTokens& languages, const char* option, const std::string& language) {
    const auto exact = languages.tokens.find(language);
    if (exact != languages.tokens.end()) return exact->second;
    int32_t match = -1;
    std::string codes;
    for (const auto& [code, token] : languages.tokens) {
        if (code.substr(0, code.find('_')) == language) match = match < 0 ? token : -2;
        if (codes.size() < 300) codes += " " + code;
    }
    if (match < 0) refuse_language(option, language, "between" + codes);
    return match;
}

// The languages that the options ask for, `fallback`'s if they ask for none. Other languages than the model's
// are refused.
Direction direction_of(Fields& fields, const OpenedModel& opened, const Direction& fallback) {
    Direction direction = fallback;
    const LanguageTokens& tokens = opened.languages;
    if (!tokens.tokens.empty()) {
        if (fields.has("source_language"))
            direction.source = language_token(tokens, "source_language", fields.text("source_language"));
        if (fields.has("target_language"))
            direction.target = language_token(tokens, "target_language", fields.text("target_language"));
        return direction;
    }
    const std::string pair = "from " + opened.source_language + " to " + opened.target_language;
    if (fields.has("source_language")) {
        const std::string language = fields.text("source_language");
        if (language != opened.source_language) refuse_language("source_language", language, pair);
    }
    if (!fields.has("target_language")) return direction;
    const std::string language = fields.text("target_language");
    const std::map<std::string, std::string>& languages = opened.source->languages();
    std::string codes;
    for (const auto& [code, tag] : languages) {
        if (language == code || language == tag) {
            direction.tag = tag;
            return direction;
        }
        if (codes.size() < 200) codes += " " + code;
    }
    if (!languages.empty()) refuse_language("target_language", language, "into" + codes);
    if (language != opened.target_language) refuse_language("target_language", language, pair);
    return direction;
}

// Set the languages of a call; see uwaga.checkpoints.languages.Languages.direction.
void set_direction(TranslateRequest& request, const OpenedModel& opened, const Direction& direction) {
    request.tag = direction.tag;
    request.language = direction.source;
    const LanguageTokens& languages = opened.languages;
    if (languages.tokens.empty()) return;
    Decoding& decoding = request.decoding;
    int32_t target = direction.target;
    bool forces_language = false;
    for (const auto& language : languages.tokens)
        forces_language = forces_language || language.second == decoding.first;
    if (target < 0 && forces_language) target = decoding.first;
    if (direction.source < 0 || target < 0)
        throw Failure(Fault::language,
                      std::string(direction.source < 0 ? "source_language" : "target_language") +
                          " is missing, and the model has several languages; "
                          "\"languages\" of uwaga_model_info lists them");
    if (languages.target_starts) {
        decoding.start = target;
        if (forces_language) decoding.first = -1;
    } else {
        decoding.first = target;
    }
}

std::vector<std::string_view> texts_of(Fields& fields, const char* name) {
    const std::vector<Json>* const items = fields.value(name).array();
    std::vector<std::string_view> texts;
    for (std::size_t i = 0; items && i < items->size(); ++i) {
        const std::string* const text = (*items)[i].string();
        if (text) texts.push_back(*text);
    }
    if (!items || texts.size() != items->size()) fields.refuse(name, "must be an array of strings");
    return texts;
}

std::vector<Target> targets_of(Fields& fields) {
    const std::vector<Json>* const items = fields.value("targets").array();
    if (!items) fields.refuse("targets", "must be an array of strings or of arrays of tokens");
    std::vector<Target> targets;
    for (const Json& item : *items) {
        Target target;
        if (item.string()) {
            target.text = *item.string();
        } else if (item.array()) {
            target.tokens.emplace();
            for (const Json& token : *item.array()) {
                const int64_t* const number = token.integer();
                if (!number || *number < 0 || *number > 1 << 30)
                    fields.refuse("targets", "must be an array of strings or of arrays of tokens");
                target.tokens->push_back(static_cast<int32_t>(*number));
            }
        } else {
            fields.refuse("targets", "must be an array of strings or of arrays of tokens");
        }
        targets.push_back(std::move(target));
    }
    return targets;
}

std::string quoted(const std::string& text) {
    std::string literal = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') literal += '\\';
        if (static_cast<unsigned char>(c) < 0x20) {
            literal += c < 16 ? "\\u000" : "\\u001";
            literal += "0123456789abcdef"[c % 16];
        } else {
            literal += c;
        }
    }
    return literal + '"';
}

std::string info_of(const OpenedModel& opened) {
    const Network& model = *opened.model;
    const Decoding& d = opened.decoding;
    const auto number = [](int64_t value) { return std::to_string(value); };
    std::string languages, ignored;
    for (const auto& language : opened.source->languages())
        languages += (languages.empty() ? "" : ", ") + quoted(language.first);
    std::string both_sides;
    for (const auto& language : opened.languages.tokens)
        both_sides += (both_sides.empty() ? "" : ", ") + quoted(language.first);
    for (const std::string& name : opened.ignored_options)
        ignored += (ignored.empty() ? "" : ", ") + quoted(name);
    return "{\"source_language\": " + quoted(opened.source_language) +
           ", \"target_language\": " + quoted(opened.target_language) + ", \"target_languages\": [" +
           (languages.empty() ? both_sides : languages) + "], \"languages\": [" + both_sides +
           "], \"shortlist\": " + (opened.shortlist ? "true" : "false") +
           ", \"precision\": " + quoted(opened.precision) + ", \"isa\": " + quoted(model.kernels->name) +
           ", \"bytes\": " + number(opened.bytes) +
           ", \"source_vocabulary\": " + number(opened.source->size()) +
           ", \"target_vocabulary\": " + number(opened.target->size()) +
           ", \"width\": " + number(model.width) +
           ", \"encoder_layers\": " + number(opened.settings.encoder_layers) +
           ", \"encoder_heads\": " + number(opened.settings.encoder_heads) +
           ", \"decoder_layers\": " + number(opened.settings.decoder_layers) +
           ", \"decoder_heads\": " + number(opened.settings.decoder_heads) + ", \"max_source\": " +
           (opened.settings.positions == PositionKind::relative ? "null" : number(model.max_length)) +
           ", \"beam\": " + number(d.beam) + ", \"nbest\": " + number(d.nbest) + ", \"ignored_options\": [" +
           ignored + "]}";
}

void open_into(const std::string& location, const ModelFiles& files, const char* options,
               uwaga_model** model) {
    require(model, "model");
    *model = nullptr;
    const Json options_json = options_of(options);
    Fields fields(options_json, "", Fault::argument);
    OpenOptions open_options;
    open_options.threads = fields.integer("threads", 1, 256, 1);
    open_options.isa = isa_of(fields);
    if (fields.has("dtype")) open_options.int8 = fields.choice("dtype", {"float32", "int8"}) == 1;
    open_options.shortlist = fields.boolean("shortlist", true);
    open_options.memory = fields.integer("memory", 0, max_bytes, 0);
    fields.ignore({"source_language", "target_language"});
    fields.check_all_used();
    auto opened = std::make_unique<uwaga_model>(open_options.memory);
    opened->opened = open_model(location, files, open_options);
    const LanguageTokens& languages = opened->opened->languages;
    opened->direction = direction_of(fields, *opened->opened, {"", languages.source, languages.target});
    opened->budget.take(opened->opened->bytes);
    opened->info = info_of(*opened->opened);
    *model = opened.release();
}

#ifndef UWAGA_NO_FILES
constexpr std::size_t max_files = 10'000;  // of a folder

// The content of a file of a folder. A weight file is read once, and kept only until the model is open.
bool read_file(const std::filesystem::path& path, std::size_t max_file_bytes, int64_t bound,
               std::deque<std::string>& contents, std::string_view& content) {
    std::error_code error;
    if (!std::filesystem::exists(path, error)) return false;
    if (!std::filesystem::is_regular_file(path, error))
        throw Failure(Fault::file, path.string() + ": is not a file");
    const std::uintmax_t size = std::filesystem::file_size(path, error);
    if (error) throw Failure(Fault::file, path.string() + ": cannot be read: " + error.message());
    if (size > max_file_bytes) throw Failure(Fault::model, path.string() + ": is too large");
    if (bound && size > static_cast<std::uintmax_t>(bound))
        throw Failure(Fault::memory, path.string() + ": has " + std::to_string(size) +
                                         " bytes, and the bound is " + std::to_string(bound));
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.string().c_str(), "rb"),
                                                               &std::fclose);
    if (!file) throw Failure(Fault::file, path.string() + ": cannot be read");
    contents.emplace_back(static_cast<std::size_t>(size), '\0');
    if (std::fread(&contents.back()[0], 1, contents.back().size(), file.get()) != contents.back().size())
        throw Failure(Fault::file, path.string() + ": cannot be read");
    content = contents.back();
    return true;
}
#endif

const TextResult* text_of(const uwaga_result* result, std::size_t text) {
    return result && text < result->texts.size() ? &result->texts[text] : nullptr;
}

const TextTranslation* translation_of(const uwaga_result* result, std::size_t text, std::size_t rank) {
    const TextResult* const text_result = text_of(result, text);
    return text_result && rank < text_result->translations.size() ? &text_result->translations[rank]
                                                                  : nullptr;
}

// The array of a translation with this number; those of its text come first.
const NamedArray* array_of(const uwaga_result* result, std::size_t text, std::size_t rank,
                           std::size_t index) {
    const TextTranslation* const translation = translation_of(result, text, rank);
    if (!translation) return nullptr;
    const std::vector<NamedArray>& shared = result->texts[text].arrays;
    if (index < shared.size()) return &shared[index];
    return index - shared.size() < translation->arrays.size() ? &translation->arrays[index - shared.size()]
                                                              : nullptr;
}

}  // namespace

extern "C" {

const char* uwaga_version(void) { return UWAGA_VERSION; }

#ifndef UWAGA_NO_FILES
int uwaga_open_folder(const char* folder, const char* options, uwaga_model** model, uwaga_error* error) {
    return guarded(error, [&] {
        require(folder, "folder");
        const std::filesystem::path location = std::filesystem::u8path(folder);
        const Json options_json = options_of(options);
        const Json* const bound_option = options_json.find("memory");
        const int64_t bound = bound_option && bound_option->integer() ? *bound_option->integer() : 0;
        std::deque<std::string> contents;  // views of its strings stay valid
        ModelFiles files;
        std::error_code iteration_error;  // a folder without a file that can be opened is refused below
        for (std::filesystem::directory_iterator entry(location, iteration_error), end;
             !iteration_error && entry != end && files.names.size() < max_files;
             entry.increment(iteration_error)) {
            files.names.push_back(entry->path().filename().u8string());
        }
        std::sort(files.names.begin(), files.names.end());
        files.read = [&](const std::string& name, std::size_t max_file_bytes, std::string_view& content) {
            return read_file(location / std::filesystem::u8path(name), max_file_bytes, bound, contents,
                             content);
        };
        open_into(folder, files, options, model);
    });
}
#endif

int uwaga_open_files(const char* const* names, const void* const* contents, const size_t* sizes, size_t count,
                     const char* options, uwaga_model** model, uwaga_error* error) {
    return guarded(error, [&] {
        require(names && contents && sizes, "names, contents, sizes");
        for (std::size_t i = 0; i < count; ++i)
            require(names[i] && (contents[i] || !sizes[i]), "names, contents");
        ModelFiles files;
        files.names.assign(names, names + count);
        files.read = [&](const std::string& name, std::size_t max_file_bytes, std::string_view& content) {
            const std::size_t i = static_cast<std::size_t>(std::find(files.names.begin(), files.names.end(),
                                                                     name) -
                                                           files.names.begin());
            if (i == count) return false;
            if (sizes[i] > max_file_bytes) throw Failure(Fault::model, name + ": is too large");
            content = sizes[i] ? std::string_view(static_cast<const char*>(contents[i]), sizes[i])
                               : std::string_view();
            return true;
        };
        open_into("", files, options, model);
    });
}

void uwaga_close(uwaga_model* model) { delete model; }

const char* uwaga_model_info(const uwaga_model* model) { return model ? model->info.c_str() : nullptr; }

const char* uwaga_model_piece(const uwaga_model* model, int side, int32_t token) {
    if (!model || side < 0 || side > 1) return nullptr;
    const Subwords& words = side ? *model->opened->target : *model->opened->source;
    return token >= 0 && token < words.size() ? words.piece(token).data() : nullptr;
}

uwaga_call* uwaga_call_new(uwaga_on_token on_token, void* user) {
    return new (std::nothrow) uwaga_call{on_token, user};
}

void uwaga_cancel(uwaga_call* call) {
    if (call) call->cancelled = true;
}

void uwaga_call_free(uwaga_call* call) { delete call; }

int uwaga_translate(const uwaga_model* model, const char* const* texts, const size_t* lengths, size_t count,
                    const char* options, uwaga_call* call, uwaga_result** result, uwaga_error* error) {
    const int code = guarded(error, [&] {
        require(model && result && (texts || !count), "model, texts or result");
        *result = nullptr;
        const Json options_json = options_of(options);
        Fields fields(options_json, "", Fault::argument);
        TranslateRequest request;
        request.decoding = model->opened->decoding;
        request.streams = call && call->on_token;
        if (fields.has("targets")) request.targets = targets_of(fields);
        if (request.streams || request.targets) request.decoding.beam = request.decoding.nbest = 1;
        read_options(fields, request.decoding);
        request.alignment = fields.boolean("alignment", false);
        request.attention = fields.boolean("attention", false);
        request.tree = fields.boolean("tree", false);
        if (fields.has("edits")) request.edits = read_edits(fields.value("edits"), *model->opened->model);
        if (fields.has("insight")) {
            const std::vector<std::string_view> names = texts_of(fields, "insight");
            request.insight.emplace(names.begin(), names.end());
        }
        const int64_t bound = fields.integer("memory", 0, max_bytes, 0);
        set_direction(request, *model->opened, direction_of(fields, *model->opened, model->direction));
        fields.check_all_used();
        if (request.streams && request.decoding.beam != 1)
            fields.refuse("beam", "must be 1 in a stream: a larger beam decides its tokens at the end");
        if (request.targets && request.decoding.beam != 1)
            fields.refuse("beam", "must be 1 with targets, which leave nothing to search");
        std::vector<std::string_view> views;
        for (std::size_t i = 0; i < count; ++i) {
            require(texts[i], "texts");
            views.emplace_back(texts[i], lengths ? lengths[i] : std::strlen(texts[i]));
        }
        Hooks hooks;
        if (call) hooks.cancelled = [&] { return call->cancelled.load(); };
        if (request.streams) {
            hooks.on_token = [&](std::size_t text, int32_t token, double log_prob,
                                 const std::string& translation) {
                return call->on_token(call->user, text, token, log_prob, translation.c_str()) == 0;
            };
        }
        auto translated = std::make_unique<uwaga_result>();
        translated->texts = translate(*model->opened, views, request, model->budget, bound, hooks);
        *result = translated.release();
    });
    if (call) call->cancelled = false;  // for the next call
    return code;
}

size_t uwaga_result_count(const uwaga_result* result, size_t text) {
    const TextResult* const text_result = text_of(result, text);
    return text_result ? text_result->translations.size() : 0;
}

const char* uwaga_result_text(const uwaga_result* result, size_t text, size_t rank, size_t* length) {
    const TextTranslation* const translation = translation_of(result, text, rank);
    if (length) *length = translation ? translation->text.size() : 0;
    return translation ? translation->text.c_str() : nullptr;
}

double uwaga_result_score(const uwaga_result* result, size_t text, size_t rank) {
    const TextTranslation* const translation = translation_of(result, text, rank);
    return translation ? translation->score : std::numeric_limits<double>::quiet_NaN();
}

int uwaga_result_truncated(const uwaga_result* result, size_t text, size_t rank) {
    const TextTranslation* const translation = translation_of(result, text, rank);
    return translation && translation->truncated;
}

size_t uwaga_result_tokens(const uwaga_result* result, size_t text, size_t rank, int side,
                           const int32_t** tokens) {
    const TextResult* const text_result = text_of(result, text);
    const TextTranslation* const translation = translation_of(result, text, rank);
    const std::vector<int32_t>* const row = side == 0 ? (text_result ? &text_result->source : nullptr)
                                            : side == 1 && translation ? &translation->tokens
                                                                       : nullptr;
    if (tokens) *tokens = row ? row->data() : nullptr;
    return row ? row->size() : 0;
}

size_t uwaga_result_log_probs(const uwaga_result* result, size_t text, size_t rank,
                              const double** log_probs) {
    const TextTranslation* const translation = translation_of(result, text, rank);
    if (log_probs) *log_probs = translation ? translation->log_probs.data() : nullptr;
    return translation ? translation->log_probs.size() : 0;
}

const char* uwaga_result_array_name(const uwaga_result* result, size_t text, size_t rank, size_t index) {
    const NamedArray* const array = array_of(result, text, rank, index);
    return array ? array->name.c_str() : nullptr;
}

const float* uwaga_result_array(const uwaga_result* result, size_t text, size_t rank, const char* name,
                                size_t shape[4], size_t* axes) {
    if (axes) *axes = 0;
    for (std::size_t index = 0; name; ++index) {
        const NamedArray* const array = array_of(result, text, rank, index);
        if (!array) return nullptr;
        if (array->name != name) continue;
        if (axes) *axes = array->shape.size();
        if (shape) std::copy(array->shape.begin(), array->shape.end(), shape);
        static constexpr float empty = 0;  // an alignment of no tokens is empty, not missing
        return array->values.empty() ? &empty : array->values.data();
    }
    return nullptr;
}

void uwaga_result_free(uwaga_result* result) { delete result; }

}  // extern "C"
