#include "binding/record.h"

#include <algorithm>
#include <string>

#include "binding/step.h"
#include "transformer/record.h"

namespace uwaga {

namespace {

std::vector<int32_t> checked_side(const Model& model, const std::vector<int64_t>& tokens, int64_t vocabulary, const std::string& what) {
    if (tokens.empty()) refuse(what + ": no tokens");
    if (static_cast<int64_t>(tokens.size()) > model.shape.max_length) {
        throw TooLong(what + ": " + std::to_string(tokens.size()) + " tokens, and the model takes at most " + std::to_string(model.shape.max_length));
    }
    std::vector<int32_t> checked;
    checked.reserve(tokens.size());
    for (const int64_t token : tokens) {
        if (token < 0 || token >= vocabulary) {
            refuse(what + ": token " + std::to_string(token) + " is outside the vocabulary of " + std::to_string(vocabulary));
        }
        checked.push_back(static_cast<int32_t>(token));
    }
    return checked;
}

// (layers, heads, query, key) of zeros.
nb::object matrices(float*& at, std::size_t layers, int64_t heads, std::size_t queries, std::size_t keys) {
    const std::size_t count = layers * static_cast<std::size_t>(heads) * queries * keys;
    Buffer<float> made = allocate<float>(static_cast<int64_t>(count));
    at = made.get();
    std::fill_n(at, count, 0.0f);
    return owned(std::move(made), {layers, static_cast<std::size_t>(heads), queries, keys});
}

}  // namespace

nb::list attentions_of(const std::shared_ptr<Handle>& handle, const std::vector<std::vector<int64_t>>& sources, const std::vector<std::vector<int64_t>>& targets) {
    const Model& model = *handle->model;
    const Shape& shape = model.shape;
    if (sources.size() != targets.size()) refuse("attentions: one target is wanted for each source");
    std::vector<Reading> readings(sources.size());
    std::vector<Matrices> to(sources.size());
    nb::list found;
    for (std::size_t s = 0; s < sources.size(); ++s) {
        const std::string place = "sentence " + std::to_string(s + 1) + ", ";
        Reading& reading = readings[s];
        if (model.has_source()) reading.source = checked_side(model, sources[s], model.source_vocabulary, place + "source");
        reading.target = checked_side(model, targets[s], model.target_vocabulary, place + "target");
        const std::size_t source = reading.source.size(), target = reading.target.size();
        nb::object encoder = nb::none(), decoder = nb::none(), cross = nb::none();
        if (model.has_source()) {
            encoder = matrices(to[s].encoder, model.encoder.size(), shape.encoder.count, source, source);
            cross = matrices(to[s].cross, model.decoder.size(), shape.decoder.count, target, source);
        }
        if (!shape.recurrent) decoder = matrices(to[s].decoder, model.decoder.size(), shape.decoder.count, target, target);
        found.append(nb::make_tuple(encoder, decoder, cross));
    }
    const nb::gil_scoped_release free;
    record(model, readings, to);
    return found;
}

}  // namespace uwaga
