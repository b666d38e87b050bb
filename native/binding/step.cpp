#include "binding/step.h"

#include <algorithm>
#include <limits>
#include <string>

namespace uwaga {

int32_t checked_token(int64_t token, int64_t vocabulary, const char* name) {
    if (token < 0 || token >= vocabulary) {
        refuse((name ? std::string(name) + ": token " : "token ") + std::to_string(token) +
               " is outside the vocabulary of " + std::to_string(vocabulary) + " tokens");
    }
    return static_cast<int32_t>(token);
}

void check_shortlist(const PyShortlist* shortlist, const std::shared_ptr<Handle>& handle) {
    if (shortlist && shortlist->handle->model != handle->model)
        refuse("the shortlist belongs to another model");
}

namespace {

// Tokens [first, last) must be in the vocabulary and ascending.
void check_rising(const int32_t* tokens, int64_t first, int64_t last, int64_t vocabulary, const char* name) {
    for (int64_t i = first; i < last; ++i) {
        checked_token(tokens[i], vocabulary);
        if (i > first && tokens[i] <= tokens[i - 1])
            refuse(std::string(name) + ": the tokens must be ascending");
    }
}

void add_bans(Request& request, const Shaped<int64_t, 2>& banned, int64_t rows, int64_t vocabulary) {
    if (banned.shape(1) != 2) refuse("banned: expected pairs of row and token");
    const int64_t count = static_cast<int64_t>(banned.shape(0));
    const int64_t* pairs = banned.data();
    request.banned_first.assign(static_cast<std::size_t>(rows + 1), 0);
    for (int64_t i = 0; i < count; ++i) {
        if (pairs[2 * i] < 0 || pairs[2 * i] >= rows) refuse("banned: no such row");
        checked_token(pairs[2 * i + 1], vocabulary);
        ++request.banned_first[static_cast<std::size_t>(pairs[2 * i] + 1)];
    }
    for (int64_t row = 0; row < rows; ++row)
        request.banned_first[static_cast<std::size_t>(row + 1)] +=
            request.banned_first[static_cast<std::size_t>(row)];
    request.banned.resize(static_cast<std::size_t>(count));
    std::vector<int32_t> next(request.banned_first.begin(), request.banned_first.end());
    for (int64_t i = 0; i < count; ++i)
        request.banned[static_cast<std::size_t>(next[static_cast<std::size_t>(pairs[2 * i])]++)] =
            static_cast<int32_t>(pairs[2 * i + 1]);
    int32_t unique_count = 0;  // sorted and without duplicates
    for (int64_t row = 0; row < rows; ++row) {
        auto row_begin = request.banned.begin() + request.banned_first[static_cast<std::size_t>(row)];
        auto row_end = request.banned.begin() + request.banned_first[static_cast<std::size_t>(row + 1)];
        std::sort(row_begin, row_end);
        row_end = std::unique(row_begin, row_end);
        request.banned_first[static_cast<std::size_t>(row)] = unique_count;
        unique_count = static_cast<int32_t>(std::copy(row_begin, row_end,
                                                      request.banned.begin() + unique_count) -
                                            request.banned.begin());
    }
    request.banned_first[static_cast<std::size_t>(rows)] = unique_count;
}

// The first row of each sentence, and the number of rows, where `counts` tokens are fed to each.
std::vector<int64_t> first_rows(const State& state, const Shaped<int64_t, 1>& counts) {
    if (state.beams != 1 || !state.network->can_verify())
        refuse("counts: the model takes one token at a time, and a state of several beams too");
    if (counts.size() != state.sentences.size()) refuse("counts: expected one number per sentence");
    std::vector<int64_t> first(1, 0);
    for (std::size_t s = 0; s < counts.size(); ++s) {
        if (counts.data()[s] < 1 || counts.data()[s] > 1 << 20)
            refuse("counts: at least one token per sentence");
        first.push_back(first.back() + counts.data()[s]);
    }
    return first;
}

Request checked_request(int64_t rows, int64_t vocabulary, int64_t count, bool full_vocabulary,
                        bool renormalise, const std::optional<Shaped<int64_t, 2>>& banned,
                        const std::optional<Shaped<int64_t, 1>>& forced,
                        const std::optional<Shaped<double, 1>>& uniform, double temperature, int64_t top_k,
                        double top_p) {
    Request request;
    request.count = count;
    request.full_vocabulary = full_vocabulary;
    request.renormalise = renormalise;
    request.temperature = temperature;
    request.top_k = top_k;
    request.top_p = top_p;
    if (count < 0 || !(temperature > 0) || top_k < 0) refuse("count, temperature or top_k: out of range");
    if (!full_vocabulary && banned) add_bans(request, *banned, rows, vocabulary);
    if (!full_vocabulary && forced) {
        if (static_cast<int64_t>(forced->shape(0)) != rows) refuse("forced: expected one token per row");
        for (int64_t row = 0; row < rows; ++row) {
            if (forced->data()[row] >= 0) checked_token(forced->data()[row], vocabulary);
        }
        request.forced = forced->data();
    }
    if (!full_vocabulary && uniform) {
        if (static_cast<int64_t>(uniform->shape(0)) != rows) refuse("uniform: expected one number per row");
        request.uniform = uniform->data();
    }
    return request;
}

void add_requested(Request& request, const Shaped<int64_t, 2>& requested, int64_t rows, int64_t vocabulary) {
    if (static_cast<int64_t>(requested.shape(0)) != rows)
        refuse("requested: expected one row per row of the state");
    for (std::size_t i = 0; i < requested.size(); ++i) {
        if (requested.data()[i] != -1) checked_token(requested.data()[i], vocabulary);
    }
    request.requested = requested.data();
    request.requested_count = static_cast<int64_t>(requested.shape(1));
}

}  // namespace

PyShortlist shortlist_of(const std::shared_ptr<Handle>& handle, Shaped<int32_t, 1> common,
                         Shaped<int32_t, 1> first, Shaped<int32_t, 1> targets, bool copy_source,
                         int64_t multiple) {
    const Network& model = *handle->model;
    const int64_t sources = model.source_vocabulary;
    const int32_t *starts = first.data(), *lists = targets.data();
    if (multiple < 1 || multiple > model.target_vocabulary) refuse("multiple: out of range");
    if (copy_source && sources != model.target_vocabulary)
        refuse("copy_source: source and target have different vocabularies");
    if (!common.size()) refuse("common: at least the end symbol is required");
    check_rising(common.data(), 0, static_cast<int64_t>(common.size()), model.target_vocabulary, "common");
    if (static_cast<int64_t>(first.size()) != sources + 1)
        refuse("first: expected one offset per source token, and the end");
    if (starts[0] != 0 || starts[sources] != static_cast<int64_t>(targets.size()))
        refuse("first: must start at 0 and end at the size of targets");
    for (int64_t s = 0; s < sources; ++s) {
        if (starts[s] > starts[s + 1]) refuse("first: the offsets must not decrease");
    }
    for (int64_t s = 0; s < sources; ++s)
        check_rising(lists, starts[s], starts[s + 1], model.target_vocabulary, "targets");
    return {Shortlist(model, Tokens(common.data(), common.data() + common.size()), starts, lists, copy_source,
                      multiple),
            handle, first, targets};
}

std::vector<std::vector<int32_t>> checked_sources(const Network& model,
                                                  const std::vector<std::vector<int64_t>>& sources) {
    const bool encoded = model.has_source();
    const std::string kind = encoded ? "sentence " : "prompt ",
                      vocabulary = encoded ? " is outside the source vocabulary of "
                                           : " is outside the vocabulary of ";
    const int64_t size = encoded ? model.source_vocabulary : model.target_vocabulary;
    std::vector<std::vector<int32_t>> checked;
    checked.reserve(sources.size());
    for (std::size_t s = 0; s < sources.size(); ++s) {
        const std::string prefix = kind + std::to_string(s + 1) + ": ";
        if (sources[s].empty())
            refuse(prefix + (encoded ? "no tokens; a source holds at least its end symbol"
                                     : "no tokens; a prompt holds at least one"));
        if (static_cast<int64_t>(sources[s].size()) > model.max_length) {
            throw TooLong(prefix + std::to_string(sources[s].size()) +
                          " tokens, but the model accepts at most " + std::to_string(model.max_length));
        }
        std::vector<int32_t> tokens;
        tokens.reserve(sources[s].size());
        for (const int64_t token : sources[s]) {
            if (token < 0 || token >= size)
                refuse(prefix + "token " + std::to_string(token) + vocabulary + std::to_string(size) +
                       " tokens");
            tokens.push_back(static_cast<int32_t>(token));
        }
        checked.push_back(std::move(tokens));
    }
    return checked;
}

PyMemory encode_sources(const std::shared_ptr<Handle>& handle,
                        const std::vector<std::vector<int64_t>>& sources, const PyShortlist* shortlist) {
    check_shortlist(shortlist, handle);
    const std::vector<std::vector<int32_t>> checked = checked_sources(*handle->model, sources);
    const nb::gil_scoped_release free;
    Memory memory = handle->model->encode(checked);
    if (shortlist) restrict_to(shortlist->shortlist, checked, memory);
    return {std::move(memory), handle};
}

PyMemory with_datastores(const PyMemory& self, const std::vector<const PyDatastore*>& datastores) {
    const Network& network = *self.memory.network;
    if (datastores.size() != self.memory.sentences.size()) refuse("datastores: expected one per sentence");
    PyMemory memory = self;
    for (std::size_t s = 0; s < datastores.size(); ++s)
        attach(network, checked_datastore(network, datastores[s]), memory.memory.sentences[s]);
    return memory;
}

DatastorePtr checked_datastore(const Network& network, const PyDatastore* self) {
    if (!self) return nullptr;
    const Datastore& datastore = *self->datastore;
    if (datastore.width != network.width)
        refuse("datastores: keys of width " + std::to_string(datastore.width) + ", but the model's have " +
               std::to_string(network.width));
    for (const int32_t token : datastore.tokens)
        checked_token(token, network.target_vocabulary, "datastores");
    return self->datastore;
}

void make_datastore(PyDatastore* self, Shaped<float, 2> keys, Shaped<int64_t, 1> tokens, double radius,
                    double temperature, int64_t neighbours) {
    auto datastore = std::make_shared<Datastore>();
    if (keys.shape(0) != tokens.shape(0)) refuse("datastore: expected one token per key");
    if (!(radius > 0) || !(temperature > 0)) refuse("datastore: radius and temperature must be positive");
    if (neighbours < 1 || neighbours > max_neighbours)
        refuse("datastore: neighbours: expected 1 to " + std::to_string(max_neighbours));
    datastore->width = static_cast<int64_t>(keys.shape(1));
    std::copy_n(keys.data(), keys.size(), datastore->keys.ensure(static_cast<int64_t>(keys.size())));
    for (std::size_t i = 0; i < tokens.size(); ++i)
        datastore->tokens.push_back(checked_token(tokens.data()[i], std::numeric_limits<int32_t>::max()));
    datastore->radius = radius;
    datastore->temperature = temperature;
    datastore->neighbours = neighbours;
    new (self) PyDatastore{std::move(datastore)};
}

nb::object lengths_of(const PyMemory& self) {
    Buffer<int64_t> buffer = allocate<int64_t>(static_cast<int64_t>(self.memory.sentences.size()));
    int64_t* lengths = buffer.get();
    for (const EncodedSentence& sentence : self.memory.sentences) *lengths++ = sentence.length;
    return owned(std::move(buffer), {self.memory.sentences.size()});
}

nb::tuple step_state(const PyState& self, Shaped<int64_t, 1> tokens, int64_t count, bool full_vocabulary,
                     bool attention, bool renormalise, std::optional<Shaped<int64_t, 2>> banned,
                     std::optional<Shaped<int64_t, 1>> forced, std::optional<Shaped<double, 1>> uniform,
                     double temperature, int64_t top_k, double top_p,
                     std::optional<Shaped<int64_t, 2>> requested, std::optional<Shaped<int64_t, 1>> counts,
                     bool logits, bool features) {
    const State& state = self.state;
    const Network& model = *state.network;
    const std::vector<int64_t> first = counts ? first_rows(state, *counts) : std::vector<int64_t>{};
    const int64_t rows = counts ? first.back() : state.rows(), vocabulary = model.target_vocabulary;
    if (static_cast<int64_t>(tokens.shape(0)) != rows)
        refuse("tokens: expected one per row of the state, or as many as `counts` sums to");
    std::vector<int32_t> checked(static_cast<std::size_t>(rows));
    for (int64_t row = 0; row < rows; ++row)
        checked[static_cast<std::size_t>(row)] = checked_token(tokens.data()[row], vocabulary);
    if (!model.has_source()) feed_last_prompt_tokens(state, checked.data(), counts ? first.data() : nullptr);
    Request request = checked_request(rows, vocabulary, count, full_vocabulary, renormalise, banned, forced,
                                      uniform, temperature, top_k, top_p);
    request.logits = logits;
    if (requested) add_requested(request, *requested, rows, vocabulary);
    Answer answer;
    answer.k = full_vocabulary ? vocabulary : request.uniform ? 1 : std::min(count, vocabulary);
    answer.requested = full_vocabulary ? 0 : request.requested_count;
    const auto array = [rows](auto*& to, int64_t width) {
        auto buffer = allocate<std::remove_reference_t<decltype(*to)>>(rows * width);
        to = buffer.get();
        return owned(std::move(buffer), {static_cast<std::size_t>(rows), static_cast<std::size_t>(width)});
    };
    nb::object tokens_array = nb::none(), weights = nb::none(), features_array = nb::none();
    if (!full_vocabulary) tokens_array = array(answer.tokens, answer.k + answer.requested);
    const nb::object log_probs = array(answer.log_probs, answer.k + answer.requested);
    if (attention && model.cross_attention.layers) {
        for (const State::Sentence& sentence : state.sentences)
            answer.attention_width = std::max(answer.attention_width, sentence.memory.length);
        weights = array(answer.attention, answer.attention_width);
    }
    if (features) features_array = array(answer.features, model.width);
    PyState next{{}, self.handle};
    {
        const nb::gil_scoped_release free;
        next.state = counts ? model.verify(state, first, checked.data(), request, answer)
                            : model.step(state, checked.data(), request, answer);
    }
    return nb::make_tuple(tokens_array, log_probs, nb::cast(std::move(next)), weights, features_array);
}

}  // namespace uwaga
