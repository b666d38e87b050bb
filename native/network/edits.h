// Edits of a network's attention and positions, of which uwaga.decoder.Heads and Positions are the Python
// side.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace uwaga {

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

// The network lacks the heads or positions that an edit changes, or a table of an edit does not fit a
// sentence.
struct EditMismatch : std::invalid_argument {
    using std::invalid_argument::invalid_argument;
};

}  // namespace uwaga
