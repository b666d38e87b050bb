// The model object of the Python interface: settings and weights of dictionaries for build_model.
#include "binding/model.h"

#include <algorithm>
#include <string>
#include <vector>

#include "binding/weights.h"
#include "transformer/build.h"
#include "transformer/positions.h"

namespace uwaga {

Handle build(const nb::dict& settings, const nb::dict& matrices, const nb::dict& vectors, int isa, void (*check_interrupt)()) {
    if (isa < 0 || isa > static_cast<int>(Isa::wasm) || !supported(static_cast<Isa>(isa))) refuse("isa: not supported on this machine");
    Parts parts;
    std::vector<Array<float>> arrays;  // until build_model has copied them
    for (const auto& [name, value] : settings) parts.settings[nb::cast<std::string>(name)] = nb::cast<double>(value);
    for (const auto& [name, matrix] : matrices) parts.matrices[nb::cast<std::string>(name)] = nb::cast<const Packed&>(matrix).matrix;
    for (const auto& [name, vector] : vectors) {
        arrays.push_back(nb::cast<Array<float>>(vector));
        parts.vectors[nb::cast<std::string>(name)] = {arrays.back().data(), static_cast<int64_t>(arrays.back().size())};
    }
    Handle handle{build_model(parts, static_cast<Isa>(isa), check_interrupt), nb::dict()};
    handle.matrices.update(matrices);
    return handle;
}

namespace {

EditTable table_of(const nb::object& given) {
    if (given.is_none()) return {};
    const Array<float> found = nb::cast<Array<float>>(given);
    if (found.ndim() != 2 && found.ndim() != 3) refuse("edits: a table has two or three axes");
    const std::size_t rows = found.ndim() - 2;
    EditTable table;
    table.values.assign(found.data(), found.data() + found.size());
    table.heads = rows ? static_cast<int64_t>(found.shape(0)) : 0;
    table.rows = static_cast<int64_t>(found.shape(rows));
    table.columns = static_cast<int64_t>(found.shape(rows + 1));
    if (table.values.empty()) refuse("edits: a table has no numbers");
    return table;
}

AttentionEdit edit_of(const nb::tuple& given) {
    const int kind = nb::cast<int>(given[0]), weights = nb::cast<int>(given[3]);
    if (kind < 0 || kind > 2 || weights < 0 || weights > 5) refuse("edits: no such kind of attention or weights");
    AttentionEdit edit{static_cast<AttentionKind>(kind)};
    edit.layer = nb::cast<int64_t>(given[1]);
    edit.head = nb::cast<int64_t>(given[2]);
    edit.weights = static_cast<AttentionEdit::Weights>(weights);
    edit.given = table_of(given[4]);
    edit.mask = table_of(given[5]);
    edit.rescaled = !given[6].is_none();
    if (edit.rescaled) edit.scale = nb::cast<float>(given[6]);
    return edit;
}

}  // namespace

Handle edited_model(const Handle& base, const nb::list& attention, const std::vector<int32_t>& source_places, const std::vector<int32_t>& target_places, void (*check_interrupt)()) {
    Edits edits{{}, source_places, target_places};
    for (const nb::handle& given : attention) edits.attention.push_back(edit_of(nb::cast<nb::tuple>(given)));
    return {edited(base.model, std::move(edits), check_interrupt), base.matrices};
}

namespace {

nb::object table_array(const std::vector<float>& values, std::size_t rows) {
    Buffer<float> made = allocate<float>(static_cast<int64_t>(values.size()));
    std::copy(values.begin(), values.end(), made.get());
    return owned(std::move(made), {rows, values.size() / rows});
}

}  // namespace

nb::object sinusoids_table(int order, int64_t width, int64_t first, int64_t count) {
    constexpr int64_t most = int64_t{1} << 31;
    if (order < 0 || order > static_cast<int>(Sinusoids::tensor2tensor)) refuse("order: unknown value");
    if (width < 2 || width % 2 || first < 0 || count < 1 || width >= most || first >= most || count >= most / width) refuse("sinusoids: size out of range");
    return table_array(sinusoids(static_cast<Sinusoids>(order), width, first, count), static_cast<std::size_t>(count));
}

nb::object distances_table(Shaped<float, 2> weight, int64_t reach, bool both_ways) {
    const int64_t buckets = static_cast<int64_t>(weight.shape(0)), heads = static_cast<int64_t>(weight.shape(1));
    if (buckets < 4 || heads < 1 || reach <= buckets / 2 || reach >= int64_t{1} << 24) refuse("distances: size out of range");
    return table_array(distances(weight.data(), buckets, heads, reach, both_ways), static_cast<std::size_t>(heads));
}

}  // namespace uwaga
