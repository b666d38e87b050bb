#include "binding/record.h"

#include <algorithm>
#include <string>

#include "transformer/record.h"

namespace uwaga {

namespace {

// (layers, heads, query, key) of zeros.
nb::object matrices(float*& at, std::size_t layers, int64_t heads, int64_t queries, int64_t keys) {
    const int64_t count = static_cast<int64_t>(layers) * heads * queries * keys;
    Buffer<float> made = allocate<float>(count);
    at = made.get();
    std::fill_n(at, count, 0.0f);
    return owned(std::move(made), {layers, static_cast<std::size_t>(heads), static_cast<std::size_t>(queries), static_cast<std::size_t>(keys)});
}

std::vector<int32_t> checked_target(const Model& model, const std::vector<int64_t>& tokens, std::size_t number) {
    const std::string place = "target " + std::to_string(number + 1) + ": ";
    if (tokens.empty()) refuse(place + "no tokens; it holds at least the one that decoding starts from");
    if (static_cast<int64_t>(tokens.size()) > model.shape.max_length) {
        throw TooLong(place + std::to_string(tokens.size()) + " tokens, and the model takes at most " + std::to_string(model.shape.max_length));
    }
    std::vector<int32_t> checked;
    for (const int64_t token : tokens) checked.push_back(checked_token(token, model.target_vocabulary));
    return checked;
}

}  // namespace

PyMemory encode_recorded_sources(const std::shared_ptr<Handle>& handle, const std::vector<std::vector<int64_t>>& sources, const PyShortlist* shortlist) {
    const Model& model = *handle->model;
    if (!model.has_source()) refuse("a decoder-only model has no encoder to record");
    check_shortlist(shortlist, handle);
    const std::vector<std::vector<int32_t>> checked = checked_sources(model, sources);
    std::vector<float*> to(checked.size());
    nb::list encoder;
    for (std::size_t s = 0; s < checked.size(); ++s) {
        const int64_t length = static_cast<int64_t>(checked[s].size());
        encoder.append(matrices(to[s], model.encoder.size(), model.shape.encoder.count, length, length));
    }
    Memory memory;
    {
        const nb::gil_scoped_release free;
        memory = encode_recorded(handle->model, checked, to);
        if (shortlist) restrict_to(shortlist->shortlist, checked, memory);
    }
    return {std::move(memory), handle, std::move(encoder)};
}

nb::list attentions_of(const std::shared_ptr<Handle>& handle, const std::vector<const PyMemory*>& memories, const std::vector<int64_t>& sentences, const std::vector<std::vector<int64_t>>& targets) {
    const Model& model = *handle->model;
    const Shape& shape = model.shape;
    const std::size_t wanted = model.has_source() ? targets.size() : 0;
    if (memories.size() != wanted || sentences.size() != wanted) refuse("attentions: one memory and sentence are wanted for each target");
    std::vector<Reading> readings(targets.size());
    std::vector<Matrices> to(targets.size());
    nb::list found;
    for (std::size_t t = 0; t < targets.size(); ++t) {
        readings[t] = {nullptr, checked_target(model, targets[t], t)};
        const int64_t target = static_cast<int64_t>(readings[t].target.size());
        nb::object decoder = nb::none(), cross = nb::none();
        if (!shape.recurrent) decoder = matrices(to[t].decoder, model.decoder.size(), shape.decoder.count, target, target);
        if (model.has_source()) {
            if (!memories[t] || memories[t]->handle->model != handle->model) refuse("attentions: a memory of another model");
            const std::vector<EncodedSentence>& encoded = memories[t]->memory.sentences;
            if (sentences[t] < 0 || sentences[t] >= static_cast<int64_t>(encoded.size())) refuse("attentions: there is no such sentence");
            readings[t].source = &encoded[static_cast<std::size_t>(sentences[t])];
            cross = matrices(to[t].cross, model.decoder.size(), shape.decoder.count, target, readings[t].source->length);
        }
        found.append(nb::make_tuple(decoder, cross));
    }
    const nb::gil_scoped_release free;
    record(model, readings, to);
    return found;
}

}  // namespace uwaga
