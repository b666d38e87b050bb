#include "c/edit_options.h"

#include <cmath>

namespace uwaga {

namespace {

constexpr int64_t max_rows = 1 << 20;  // of a table, and of anything that is counted

// Reads a table: an array of rows, or an array of these for each head. An item is a number, or a truth value
// in a mask.
class TableReader {
  public:
    TableReader(const Fields& fields, const char* name, bool mask)
        : fields_(fields), name_(name), mask_(mask) {}

    EditTable read(const Json& value) {
        const std::vector<Json>& outer = rows_of(value);
        const std::vector<Json>* const first = outer.front().array();
        if (first && !first->empty() && first->front().array()) {
            table_.heads = static_cast<int64_t>(outer.size());
            for (const Json& head : outer) add(rows_of(head));
        } else {
            add(outer);
        }
        return std::move(table_);
    }

  private:
    const std::vector<Json>& rows_of(const Json& value) const {
        const std::vector<Json>* const rows = value.array();
        if (!rows || rows->empty()) refuse();
        return *rows;
    }
    void add(const std::vector<Json>& rows) {
        if (table_.rows && table_.rows != static_cast<int64_t>(rows.size())) refuse();
        table_.rows = static_cast<int64_t>(rows.size());
        for (const Json& row : rows) {
            const std::vector<Json>& items = rows_of(row);
            if (table_.columns && table_.columns != static_cast<int64_t>(items.size())) refuse();
            table_.columns = static_cast<int64_t>(items.size());
            for (const Json& item : items) table_.values.push_back(number_of(item));
        }
    }
    float number_of(const Json& item) const {
        if (mask_) {
            const bool* const truth = item.boolean();
            if (!truth) refuse();
            return *truth ? 1.0f : 0.0f;
        }
        double number = 0;
        if (!item.number(number) || !std::isfinite(static_cast<float>(number))) refuse();
        return static_cast<float>(number);
    }
    [[noreturn]] void refuse() const {
        const std::string items = mask_ ? "true and false" : "numbers";
        fields_.refuse(name_, (mask_ ? std::string("must be")
                                     : std::string("must be silent, alone, uniform, diagonal or")) +
                                  " a table of " + items +
                                  ": an array of rows of equal length, or one of these for each head");
    }

    const Fields& fields_;
    const char* const name_;
    const bool mask_;
    EditTable table_ = {};
};

AttentionEdit attention_edit(Fields& fields) {
    static constexpr AttentionKind kinds[] = {AttentionKind::cross, AttentionKind::encoder,
                                              AttentionKind::decoder};
    AttentionEdit edit{kinds[fields.choice("kind", {"cross", "encoder", "decoder"})]};
    if (fields.has("layer")) edit.layer = fields.integer("layer", 1, max_rows) - 1;
    if (fields.has("head")) edit.head = fields.integer("head", 1, max_rows) - 1;
    if (fields.has("weights")) {
        const Json& weights = fields.value("weights");
        if (weights.string()) {
            edit.weights = static_cast<AttentionEdit::Weights>(1 + fields.choice("weights",
                                                                                 {"silent", "alone",
                                                                                  "uniform", "diagonal"}));
        } else {
            edit.weights = AttentionEdit::Weights::table;
            edit.table = TableReader(fields, "weights", false).read(weights);
        }
    }
    if (fields.has("mask")) edit.mask = TableReader(fields, "mask", true).read(fields.value("mask"));
    edit.rescaled = fields.has("scale");
    if (edit.rescaled) edit.scale = static_cast<float>(fields.number("scale", -1e30, 1e30));
    return edit;
}

std::vector<int32_t> positions_of(Fields& fields) {
    const std::vector<Json>* const value = fields.value("places").array();
    if (!value) fields.refuse("places", "must be an array of positions");
    std::vector<int32_t> positions;
    for (const Json& item : *value) {
        const int64_t* const position = item.integer();
        if (!position || *position < 0 || *position > max_rows)
            fields.refuse("places", "must be an array of positions, counted from 0");
        positions.push_back(static_cast<int32_t>(*position));
    }
    return positions;
}

}  // namespace

Edits read_edits(const Json& value, const Network& model) {
    const std::vector<Json>* const array = value.array();
    if (!array) throw Failure(Fault::argument, "edits must be an array of objects");
    Edits edits;
    for (std::size_t i = 0; i < array->size(); ++i) {
        const std::string location = "edits[" + std::to_string(i) + "]";
        if (!(*array)[i].object()) throw Failure(Fault::argument, location + " must be an object");
        Fields fields((*array)[i], location + ".", Fault::argument);
        try {
            if (fields.has("side")) {
                const bool source = fields.choice("side", {"source", "target"}) == 0;
                std::vector<int32_t>& positions = source ? edits.source_positions : edits.target_positions;
                positions = positions_of(fields);
                model.check(source ? Edits{{}, positions, {}} : Edits{{}, {}, positions});
            } else {
                edits.attention.push_back(attention_edit(fields));
                model.check({{edits.attention.back()}});
            }
        } catch (const EditMismatch& error) {
            throw Failure(Fault::argument, location + ": " + error.what());
        }
        fields.check_all_used();
    }
    return edits;
}

}  // namespace uwaga
