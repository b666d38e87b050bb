#include "transformer/edits.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <string>

#include "transformer/blocks.h"

namespace uwaga {

namespace {

constexpr int64_t queries_between_checks = 64;  // attention over a long sentence may take seconds

// `length` weights of the keys from `first`.
void change(const AttentionEdit& edit, int64_t row, int64_t head, int64_t first, int64_t length,
            float* weights) {
    if (edit.weights == AttentionEdit::Weights::alone && head != edit.head) {
        std::fill_n(weights, length, 0.0f);
        return;
    }
    switch (edit.weights) {
        case AttentionEdit::Weights::unchanged:
        case AttentionEdit::Weights::alone: break;
        case AttentionEdit::Weights::silent: std::fill_n(weights, length, 0.0f); break;
        case AttentionEdit::Weights::uniform:
            std::fill_n(weights, length, 1.0f / static_cast<float>(length));
            break;
        case AttentionEdit::Weights::diagonal:
            std::fill_n(weights, length, 0.0f);
            weights[std::min(row - first, length - 1)] = 1;
            break;
        case AttentionEdit::Weights::table:
            std::copy_n(edit.table.row(head, row) + first, length, weights);
            break;
    }
    if (edit.mask.values.empty()) return;
    const float* mask = edit.mask.row(head, row) + first;
    float sum = 0;
    for (int64_t key = 0; key < length; ++key) sum += weights[key] *= mask[key];
    for (int64_t key = 0; key < length; ++key) weights[key] /= std::max(sum, FLT_MIN);
}

bool changes(const AttentionEdit& edit, int64_t head) {
    if (edit.head >= 0 && edit.head != head) return edit.weights == AttentionEdit::Weights::alone;
    const bool unchanged = edit.weights == AttentionEdit::Weights::unchanged ||
                           edit.weights == AttentionEdit::Weights::alone;
    return !unchanged || !edit.mask.values.empty();
}

const char* kind_name(AttentionKind kind) {
    static const char* const names[] = {"encoder", "decoder", "cross"};
    return names[static_cast<int>(kind)];
}

void check_table(const EditTable& table, AttentionKind kind, int64_t row, int64_t keys) {
    if (table.values.empty()) return;
    const bool growing = kind == AttentionKind::decoder;
    if (row < table.rows && (growing ? keys <= table.columns : keys == table.columns)) return;
    throw EditMismatch("a table of " + std::to_string(table.rows) + " rows and " +
                       std::to_string(table.columns) + " columns for " + kind_name(kind) +
                       " attention does not fit " + std::to_string(row + 1) + " rows and " +
                       std::to_string(keys) + " columns; it is of one sentence with its end");
}

void check_edit(const Transformer& model, const AttentionEdit& edit) {
    const auto [layers, heads] = model.attention(edit.kind);
    if (!layers) throw EditMismatch(std::string("the model has no ") + kind_name(edit.kind) + " attention");
    const auto check = [](const char* name, int64_t number, int64_t count) {
        if (number < -1 || number >= count)
            throw EditMismatch(std::string(name) + " " + std::to_string(number + 1) + ": the model has " +
                               std::to_string(count) + " of that kind, counted from 1");
    };
    check("layer", edit.layer, layers);
    check("head", edit.head, heads);
    if ((edit.weights == AttentionEdit::Weights::table) == edit.table.values.empty())
        throw EditMismatch("weights: no table, or a table in place of other weights");
    if (edit.weights == AttentionEdit::Weights::alone && edit.head < 0)
        throw EditMismatch("weights 'alone': name the head that is to be alone");
    for (const EditTable* table : {&edit.table, &edit.mask}) {
        if (table->heads && table->heads != heads)
            throw EditMismatch("a table of " + std::to_string(table->heads) + " heads does not fit " +
                               std::to_string(heads));
    }
}

void check_positions(const Transformer& model, bool source, const std::vector<int32_t>& positions) {
    if (positions.empty()) return;
    if (source && !model.has_source()) throw EditMismatch("a decoder-only model has the side target alone");
    if (!(source ? model.source : model.target).positions && model.rotary.empty())
        throw EditMismatch("the model has relative positions, which cannot be replaced");
    for (const int32_t position : positions) {
        if (position < 0 || position >= model.max_length)
            throw EditMismatch("position " + std::to_string(position) + ": the model has " +
                               std::to_string(model.max_length) + ", counted from 0");
    }
}

}  // namespace

float float_of(uint16_t half) {
    const int exponent = half >> 10 & 31, fraction = half & 1023;
    const float size = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                     : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
    return half & 0x8000 ? -size : size;
}

float scale_of(const Transformer& model, const Heads& heads, AttentionKind kind, int64_t layer,
               int64_t head) {
    float scale = heads.scale;
    for (const AttentionEdit& edit : model.edits ? model.edits->attention : std::vector<AttentionEdit>{}) {
        if (edit.rescaled && edit.applies_to(kind, layer) && (edit.head < 0 || edit.head == head))
            scale = edit.scale;
    }
    return scale;
}

void Transformer::check(const Edits& checked) const {
    for (const AttentionEdit& edit : checked.attention) check_edit(*this, edit);
    check_positions(*this, true, checked.source_positions);
    check_positions(*this, false, checked.target_positions);
}

NetworkPtr Transformer::edited(Edits further, void (*check_interrupt)()) const {
    check(further);
    auto model = std::make_shared<Transformer>();
    static_cast<NetworkProperties&>(*model) = *this;
    static_cast<TransformerWeights&>(*model) = *this;
    model->base = std::static_pointer_cast<const Transformer>(shared_from_this());
    Edits combined = edits ? *edits : Edits{};
    std::move(further.attention.begin(), further.attention.end(), std::back_inserter(combined.attention));
    if (!further.source_positions.empty()) combined.source_positions = std::move(further.source_positions);
    if (!further.target_positions.empty()) combined.target_positions = std::move(further.target_positions);
    model->edits = std::make_unique<const Edits>(std::move(combined));
    model->workers.configure(workers.threads(), check_interrupt);
    model->configure_pools();
    return model;
}

Memory Transformer::adopt(const Memory& memory) const {
    const auto root = [](const Transformer* current) {
        while (current->base) current = current->base.get();
        return current;
    };
    const auto* const owner = dynamic_cast<const Transformer*>(memory.network.get());
    if (!owner || root(this) != root(owner))
        throw std::invalid_argument("the memory belongs to another model");
    for (const Transformer* model : {this, owner}) {
        if (model->edits && model->edits->touch_encoder())
            throw std::invalid_argument("the model's encoder is edited");
    }
    for (const EncodedSentence& sentence : memory.sentences)
        check_tables(*this, AttentionKind::cross, 0, sentence.length);
    return {shared_from_this(), memory.sentences};
}

void check_tables(const Transformer& model, AttentionKind kind, int64_t row, int64_t keys) {
    if (!model.edits) return;
    for (const AttentionEdit& edit : model.edits->attention) {
        if (edit.kind != kind) continue;
        check_table(edit.table, kind, row, keys);
        check_table(edit.mask, kind, row, keys);
    }
}

void attend_edited(const Transformer& model, const Heads& heads, const QueryPosition& position, bool float16,
                   const void* keys, CachedAttention attention) {
    const std::vector<AttentionEdit>& edits = model.edits->attention;
    std::vector<float> rescaled;
    for (int64_t head = 0; head < heads.count; ++head) {
        const float scale = scale_of(model, heads, position.kind, position.layer, head);
        if (scale == heads.scale) continue;
        if (rescaled.empty()) rescaled.assign(attention.query, attention.query + heads.inner());
        for (int64_t i = head * heads.width; i < (head + 1) * heads.width; ++i)
            rescaled[static_cast<std::size_t>(i)] *= scale / heads.scale;
    }
    if (!rescaled.empty()) attention.query = rescaled.data();
    attend_keys(model, heads, float16, keys, attention);
    for (int64_t head = 0; head < heads.count; ++head) {
        float* const head_weights = attention.weights + head * attention.length;
        bool changed = false;
        for (const AttentionEdit& edit : edits) {
            if (!edit.applies_to(position.kind, position.layer) || !changes(edit, head)) continue;
            change(edit, position.row, head, position.first, attention.length, head_weights);
            changed = true;
        }
        if (!changed) continue;
        float* const sum = attention.context + head * heads.width;
        std::fill_n(sum, heads.width, 0.0f);
        for (int64_t key = 0; key < attention.length; ++key) {
            const int64_t value = attention.offsets[key] + heads.key_width() +
                                  head / heads.group * heads.width;
            for (int64_t i = 0; i < heads.width; ++i) {
                sum[i] += head_weights[key] * (float16
                                                   ? float_of(static_cast<const uint16_t*>(keys)[value + i])
                                                   : static_cast<const float*>(keys)[value + i]);
            }
        }
    }
}

void encode_edited(const Transformer& model, int64_t layer, const float* projected, int64_t stride,
                   int64_t length, float* context, int64_t context_stride, float* to, Workspace& ws) {
    const Heads& heads = model.shape.encoder;
    int64_t* offsets = ws.offsets.ensure(length);
    for (int64_t key = 0; key < length; ++key) offsets[key] = key * stride;
    float* weights = ws.weights.ensure(heads.count * length);
    for (int64_t query = 0; query < length; ++query) {
        if (query % queries_between_checks == queries_between_checks - 1) model.workers.check();
        const float* bias = relative_bias(model, model.source, heads, query, length, ws);
        attend_edited(model, heads, {AttentionKind::encoder, layer, query}, false, projected + heads.inner(),
                      single_query(projected + query * stride, offsets, length, bias, weights,
                                   context + query * context_stride));
        for (int64_t head = 0; to && head < heads.count; ++head) {
            std::copy_n(weights + head * length, length, to + (head * length + query) * length);
        }
    }
}

}  // namespace uwaga
