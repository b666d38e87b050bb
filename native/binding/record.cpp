#include "binding/record.h"

#include <algorithm>
#include <string>

#include "transformer/record.h"

namespace uwaga {

namespace {

// Zeroed (layers, heads, query, key).
nb::object matrices(float*& data, std::size_t layers, int64_t heads, int64_t queries, int64_t keys) {
    const int64_t count = static_cast<int64_t>(layers) * heads * queries * keys;
    Buffer<float> buffer = allocate<float>(count);
    data = buffer.get();
    std::fill_n(data, count, 0.0f);
    return owned(std::move(buffer), {layers, static_cast<std::size_t>(heads),
                                     static_cast<std::size_t>(queries), static_cast<std::size_t>(keys)});
}

std::vector<int32_t> checked_target(const Model& model, const std::vector<int64_t>& tokens,
                                    std::size_t number) {
    const std::string prefix = "target " + std::to_string(number + 1) + ": ";
    if (tokens.empty())
        refuse(prefix + "no tokens; a target holds at least the token that decoding starts from");
    if (static_cast<int64_t>(tokens.size()) > model.shape.max_length) {
        throw TooLong(prefix + std::to_string(tokens.size()) + " tokens, but the model accepts at most " +
                      std::to_string(model.shape.max_length));
    }
    std::vector<int32_t> checked;
    for (const int64_t token : tokens) checked.push_back(checked_token(token, model.target_vocabulary));
    return checked;
}

}  // namespace

PyMemory encode_recorded_sources(const std::shared_ptr<Handle>& handle,
                                 const std::vector<std::vector<int64_t>>& sources,
                                 const PyShortlist* shortlist) {
    const Model& model = *handle->model;
    if (!model.has_source()) refuse("a decoder-only model has no encoder to record");
    check_shortlist(shortlist, handle);
    const std::vector<std::vector<int32_t>> checked = checked_sources(model, sources);
    std::vector<float*> to(checked.size());
    nb::list encoder;
    for (std::size_t s = 0; s < checked.size(); ++s) {
        const int64_t length = static_cast<int64_t>(checked[s].size());
        if (model.network) encoder.append(nb::none());
        else encoder.append(matrices(to[s], model.encoder.size(), model.shape.encoder.count, length, length));
    }
    Memory memory;
    {
        const nb::gil_scoped_release free;
        memory = encode_recorded(handle->model, checked, to);
        if (shortlist) restrict_to(shortlist->shortlist, checked, memory);
    }
    return {std::move(memory), handle, std::move(encoder)};
}

const EncodedSentence& source_of(const Model& model, const PyMemory* memory, int64_t sentence) {
    if (!memory || memory->handle->model.get() != &model)
        refuse("attentions: the memory belongs to another model");
    const std::vector<EncodedSentence>& encoded = memory->memory.sentences;
    if (sentence < 0 || sentence >= static_cast<int64_t>(encoded.size()))
        refuse("attentions: no such sentence");
    return encoded[static_cast<std::size_t>(sentence)];
}

nb::list attentions_of(const std::shared_ptr<Handle>& handle, const std::vector<const PyMemory*>& memories,
                       const std::vector<int64_t>& sentences,
                       const std::vector<std::vector<int64_t>>& targets) {
    const Model& model = *handle->model;
    const Shape& shape = model.shape;
    const std::size_t expected = model.has_source() ? targets.size() : 0;
    if (memories.size() != expected || sentences.size() != expected)
        refuse("attentions: expected one memory and sentence per target");
    std::vector<DecoderInput> readings(targets.size());
    std::vector<Matrices> to(targets.size());
    nb::list result;
    for (std::size_t t = 0; t < targets.size(); ++t) {
        readings[t] = {nullptr, checked_target(model, targets[t], t)};
        const int64_t target = static_cast<int64_t>(readings[t].target.size());
        nb::object decoder = nb::none(), cross = nb::none();
        if (!shape.recurrent)
            decoder = matrices(to[t].decoder, model.decoder.size(), shape.decoder.count, target, target);
        if (model.has_source()) {
            readings[t].source = &source_of(model, memories[t], sentences[t]);
            if (model.cross_layers())
                cross = matrices(to[t].cross, static_cast<std::size_t>(model.cross_layers()),
                                 shape.decoder.count, target, readings[t].source->length);
        }
        result.append(nb::make_tuple(decoder, cross));
    }
    const nb::gil_scoped_release free;
    record(model, readings, to);
    return result;
}

nb::dict insight_of(const std::shared_ptr<Handle>& handle, const std::vector<int64_t>& source,
                    const std::vector<int64_t>& target, const std::vector<std::string>& names,
                    int64_t bound) {
    const Model& model = *handle->model;
    std::vector<int32_t> source_tokens;
    if (model.has_source()) source_tokens = checked_sources(model, {source})[0];
    else if (!source.empty()) refuse("a decoder-only model has no source: its prompt begins the target");
    const std::vector<int32_t> target_tokens = checked_target(model, target, 0);
    std::vector<NamedArray> arrays;
    {
        const nb::gil_scoped_release free;
        arrays = compute_insight(handle->model, source_tokens, target_tokens, names, bound);
    }
    nb::dict result;
    for (const NamedArray& array : arrays) {
        Buffer<float> copy = allocate<float>(static_cast<int64_t>(array.values.size()));
        std::copy(array.values.begin(), array.values.end(), copy.get());
        std::vector<std::size_t> shape(array.shape.begin(), array.shape.end());
        float* const data = copy.get();
        nb::capsule owner(new Buffer<float>(std::move(copy)),
                          [](void* p) noexcept { delete static_cast<Buffer<float>*>(p); });
        result[array.name.c_str()] = nb::cast(nb::ndarray<nb::numpy, float>(data, shape.size(), shape.data(),
                                                                            owner));
    }
    return result;
}

nb::list cross_attention_of(const std::shared_ptr<Handle>& handle,
                            const std::vector<const PyMemory*>& memories,
                            const std::vector<int64_t>& sentences,
                            const std::vector<std::vector<int64_t>>& targets, int64_t layer, int64_t head) {
    const Model& model = *handle->model;
    const int64_t heads = model.shape.decoder.count;
    if (!model.has_source()) refuse("a decoder-only model has no cross-attention");
    if (memories.size() != targets.size() || sentences.size() != targets.size())
        refuse("attentions: expected one memory and sentence per target");
    if (layer < 0 || layer >= model.cross_layers() || head < -1 || head >= heads)
        refuse("attentions: no such layer or head");
    std::vector<DecoderInput> readings(targets.size());
    std::vector<float*> to(targets.size());
    nb::list result;
    for (std::size_t t = 0; t < targets.size(); ++t) {
        readings[t] = {&source_of(model, memories[t], sentences[t]), checked_target(model, targets[t], t)};
        const std::size_t head_count = head < 0 ? static_cast<std::size_t>(heads) : 1,
                          queries = readings[t].target.size(),
                          keys = static_cast<std::size_t>(readings[t].source->length);
        Buffer<float> buffer = allocate<float>(static_cast<int64_t>(head_count * queries * keys));
        to[t] = buffer.get();
        result.append(owned(std::move(buffer), {head_count, queries, keys}));
    }
    const nb::gil_scoped_release free;
    record_cross(model, readings, to, {layer, head});
    return result;
}

}  // namespace uwaga
