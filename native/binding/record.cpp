#include "binding/record.h"

#include <algorithm>
#include <string>

namespace uwaga {

namespace {

// Zeroed (layers, heads, query, key); None without layers.
nb::object matrices(float*& data, const AttentionLayers& attention, int64_t queries, int64_t keys) {
    if (!attention.layers) return nb::none();
    const int64_t count = attention.layers * attention.heads * queries * keys;
    Buffer<float> buffer = allocate<float>(count);
    data = buffer.get();
    std::fill_n(data, count, 0.0f);
    return owned(std::move(buffer),
                 {static_cast<std::size_t>(attention.layers), static_cast<std::size_t>(attention.heads),
                  static_cast<std::size_t>(queries), static_cast<std::size_t>(keys)});
}

std::vector<int32_t> checked_target(const Network& model, const std::vector<int64_t>& tokens,
                                    std::size_t number) {
    const std::string prefix = "target " + std::to_string(number + 1) + ": ";
    if (tokens.empty())
        refuse(prefix + "no tokens; a target holds at least the token that decoding starts from");
    if (static_cast<int64_t>(tokens.size()) > model.max_length) {
        throw TooLong(prefix + std::to_string(tokens.size()) + " tokens, but the model accepts at most " +
                      std::to_string(model.max_length));
    }
    std::vector<int32_t> checked;
    for (const int64_t token : tokens) checked.push_back(checked_token(token, model.target_vocabulary));
    return checked;
}

}  // namespace

PyMemory encode_recorded_sources(const std::shared_ptr<Handle>& handle,
                                 const std::vector<std::vector<int64_t>>& sources,
                                 const PyShortlist* shortlist) {
    const Network& model = *handle->model;
    if (!model.has_source()) refuse("a decoder-only model has no encoder to record");
    check_shortlist(shortlist, handle);
    const std::vector<std::vector<int32_t>> checked = checked_sources(model, sources);
    std::vector<float*> to(checked.size());
    nb::list encoder;
    for (std::size_t s = 0; s < checked.size(); ++s) {
        const int64_t length = static_cast<int64_t>(checked[s].size());
        encoder.append(matrices(to[s], model.encoder_attention, length, length));
    }
    Memory memory;
    {
        const nb::gil_scoped_release free;
        memory = model.encode(checked, to);
        if (shortlist) restrict_to(shortlist->shortlist, checked, memory);
    }
    return {std::move(memory), handle, std::move(encoder)};
}

const EncodedSentence& source_of(const Network& model, const PyMemory* memory, int64_t sentence) {
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
    const Network& model = *handle->model;
    const std::size_t expected = model.has_source() ? targets.size() : 0;
    if (memories.size() != expected || sentences.size() != expected)
        refuse("attentions: expected one memory and sentence per target");
    std::vector<DecoderInput> readings(targets.size());
    std::vector<AttentionMatrices> to(targets.size());
    nb::list result;
    for (std::size_t t = 0; t < targets.size(); ++t) {
        readings[t] = {nullptr, checked_target(model, targets[t], t)};
        const int64_t target = static_cast<int64_t>(readings[t].target.size());
        const nb::object decoder = matrices(to[t].decoder, model.decoder_attention, target, target);
        nb::object cross = nb::none();
        if (model.has_source()) {
            readings[t].source = &source_of(model, memories[t], sentences[t]);
            cross = matrices(to[t].cross, model.cross_attention, target, readings[t].source->length);
        }
        result.append(nb::make_tuple(decoder, cross));
    }
    const nb::gil_scoped_release free;
    model.record(readings, to);
    return result;
}

nb::dict insight_of(const std::shared_ptr<Handle>& handle, const std::vector<int64_t>& source,
                    const std::vector<int64_t>& target, const std::vector<std::string>& names,
                    int64_t bound) {
    const Network& model = *handle->model;
    std::vector<int32_t> source_tokens;
    if (model.has_source()) source_tokens = checked_sources(model, {source})[0];
    else if (!source.empty()) refuse("a decoder-only model has no source: its prompt begins the target");
    const std::vector<int32_t> target_tokens = checked_target(model, target, 0);
    std::vector<NamedArray> arrays;
    {
        const nb::gil_scoped_release free;
        arrays = model.insight(source_tokens, target_tokens, names, bound);
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
    const Network& model = *handle->model;
    const auto [layers, heads] = model.cross_attention;
    if (!model.has_source()) refuse("a decoder-only model has no cross-attention");
    if (memories.size() != targets.size() || sentences.size() != targets.size())
        refuse("attentions: expected one memory and sentence per target");
    if (layer < 0 || layer >= layers || head < -1 || head >= heads)
        refuse("attentions: no such layer or head");
    std::vector<DecoderInput> readings(targets.size());
    std::vector<AttentionMatrices> to(targets.size());
    nb::list result;
    for (std::size_t t = 0; t < targets.size(); ++t) {
        readings[t] = {&source_of(model, memories[t], sentences[t]), checked_target(model, targets[t], t)};
        const std::size_t head_count = head < 0 ? static_cast<std::size_t>(heads) : 1,
                          queries = readings[t].target.size(),
                          keys = static_cast<std::size_t>(readings[t].source->length);
        Buffer<float> buffer = allocate<float>(static_cast<int64_t>(head_count * queries * keys));
        to[t].cross = buffer.get();
        result.append(owned(std::move(buffer), {head_count, queries, keys}));
    }
    const nb::gil_scoped_release free;
    model.record(readings, to, CrossHead{layer, head});
    return result;
}

}  // namespace uwaga
