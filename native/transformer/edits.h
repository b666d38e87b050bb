// Edits of a model's attention and positions, of which uwaga.decoder.Heads and Positions are the Python side.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "runtime/workspace.h"

namespace uwaga {

struct Heads;
struct Model;

enum class AttentionKind : int { encoder = 0, decoder = 1, cross = 2 };

// A table of one sentence: (heads, rows, columns), or (rows, columns) for all heads if `heads` is 0; empty:
// no table.
struct EditTable {
    std::vector<float> values = {};
    int64_t heads = 0, rows = 0, columns = 0;

    const float* row(int64_t head, int64_t index) const {
        return values.data() + ((heads ? head * rows : 0) + index) * columns;
    }
};

struct AttentionEdit {
    enum class Weights : int { unchanged = 0, silent = 1, alone = 2, uniform = 3, diagonal = 4, table = 5 };
    AttentionKind kind;
    int64_t layer = -1, head = -1;  // -1: all
    Weights weights = Weights::unchanged;
    EditTable table = {}, mask = {};  // mask: 1 where a query may look, else 0
    float scale = 1;                  // if `rescaled`: the factor of the scores in place of the model's
    bool rescaled = false;

    bool applies_to(AttentionKind query_kind, int64_t query_layer) const {
        return kind == query_kind && (layer < 0 || layer == query_layer);
    }
};

struct Edits {
    std::vector<AttentionEdit> attention = {};
    std::vector<int32_t> source_positions = {}, target_positions = {};  // positions that replace those of the
                                                                        // first tokens

    bool empty() const { return attention.empty() && source_positions.empty() && target_positions.empty(); }
    bool touch_encoder() const {
        return !source_positions.empty() ||
               std::any_of(attention.begin(), attention.end(),
                           [](const AttentionEdit& edit) { return edit.kind == AttentionKind::encoder; });
    }
    bool touch(AttentionKind kind, int64_t layer) const {
        for (const AttentionEdit& edit : attention) {
            if (edit.applies_to(kind, layer)) return true;
        }
        return false;
    }
};

// The model lacks the heads or positions that an edit changes, or a table of an edit does not fit a sentence.
struct EditMismatch : std::invalid_argument {
    using std::invalid_argument::invalid_argument;
};

// Throw EditMismatch unless the model has the heads or positions that an edit changes. Layers and heads count
// from 1 in the messages.
void check_edit(const Model& model, const AttentionEdit& edit);
void check_positions(const Model& model, bool source, const std::vector<int32_t>& positions);

// Return a model with edits in addition to those of `base`, whose weights it shares. Throws EditMismatch.
std::shared_ptr<Model> edited(const std::shared_ptr<const Model>& base, Edits edits,
                              void (*check_interrupt)());

// Return encoded sources for `model`, which edited() created from the same model as the memory's and has no
// edits that change the encoder.
struct Memory;
Memory memory_for(const std::shared_ptr<const Model>& model, const Memory& memory);

// Throw EditMismatch unless the tables for this kind of attention fit queries up to `row` and this number of
// keys.
void check_tables(const Model& model, AttentionKind kind, int64_t row, int64_t keys);

// A query: row `row` of a layer's attention, whose keys begin with key `first`.
struct QueryPosition {
    AttentionKind kind;
    int64_t layer, row, first = 0;
};

// The factor of a head's scores, which an edit may have replaced.
float scale_of(const Model& model, const Heads& heads, AttentionKind kind, int64_t layer, int64_t head);
// A number of the cache in float16, which holds no infinity.
float float_of(uint16_t half);

// Attention of one query over keys in float16 or float32, as attend_cached, in a model with edits.
void attend_edited(const Model& model, const Heads& heads, const QueryPosition& position, bool float16,
                   const void* keys, CachedAttention attention);
// Self-attention of a sentence in an encoder layer with edits; `projected` (length, query | key | value).
// `to`, if not null, receives the weights (heads, length, length).
void encode_edited(const Model& model, int64_t layer, const float* projected, int64_t stride, int64_t length,
                   float* context, int64_t context_stride, float* to, Workspace& ws);

}  // namespace uwaga
