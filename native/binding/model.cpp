// The model object of the Python interface: settings and weights of dictionaries for build_model.
#include "binding/model.h"

#include <algorithm>
#include <string>
#include <vector>

#include "binding/weights.h"
#include "models/build.h"
#include "transformer/positions.h"

namespace uwaga {

Handle build(const nb::dict& settings, const nb::dict& matrices, const nb::dict& vectors, int isa,
             void (*check_interrupt)()) {
    if (isa < 0 || isa > static_cast<int>(Isa::wasm) || !supported(static_cast<Isa>(isa)))
        refuse("isa: not supported on this machine");
    Parts parts;
    std::vector<Array<float>> arrays;  // until build_model has copied them
    for (const auto& [name, value] : settings)
        parts.settings[nb::cast<std::string>(name)] = nb::cast<double>(value);
    for (const auto& [name, matrix] : matrices)
        parts.matrices[nb::cast<std::string>(name)] = nb::cast<const Packed&>(matrix).matrix;
    for (const auto& [name, vector] : vectors) {
        arrays.push_back(nb::cast<Array<float>>(vector));
        parts.vectors[nb::cast<std::string>(name)] = {arrays.back().data(),
                                                      static_cast<int64_t>(arrays.back().size())};
    }
    Handle handle{build_model(parts, static_cast<Isa>(isa), check_interrupt), nb::dict()};
    handle.matrices.update(matrices);
    return handle;
}

namespace {

EditTable table_of(const nb::object& values) {
    if (values.is_none()) return {};
    const Array<float> array = nb::cast<Array<float>>(values);
    if (array.ndim() != 2 && array.ndim() != 3) refuse("edits: a table has two or three axes");
    const std::size_t rows = array.ndim() - 2;
    EditTable table;
    table.values.assign(array.data(), array.data() + array.size());
    table.heads = rows ? static_cast<int64_t>(array.shape(0)) : 0;
    table.rows = static_cast<int64_t>(array.shape(rows));
    table.columns = static_cast<int64_t>(array.shape(rows + 1));
    if (table.values.empty()) refuse("edits: a table has no numbers");
    return table;
}

AttentionEdit edit_of(const nb::tuple& fields) {
    const int kind = nb::cast<int>(fields[0]), weights = nb::cast<int>(fields[3]);
    if (kind < 0 || kind > 2 || weights < 0 || weights > 5)
        refuse("edits: no such kind of attention or weights");
    AttentionEdit edit{static_cast<AttentionKind>(kind)};
    edit.layer = nb::cast<int64_t>(fields[1]);
    edit.head = nb::cast<int64_t>(fields[2]);
    edit.weights = static_cast<AttentionEdit::Weights>(weights);
    edit.table = table_of(fields[4]);
    edit.mask = table_of(fields[5]);
    edit.rescaled = !fields[6].is_none();
    if (edit.rescaled) edit.scale = nb::cast<float>(fields[6]);
    return edit;
}

}  // namespace

Handle edited_model(const Handle& base, const nb::list& attention,
                    const std::vector<int32_t>& source_positions,
                    const std::vector<int32_t>& target_positions, void (*check_interrupt)()) {
    Edits edits{{}, source_positions, target_positions};
    for (const nb::handle& edit : attention) edits.attention.push_back(edit_of(nb::cast<nb::tuple>(edit)));
    return {base.model->edited(std::move(edits), check_interrupt), base.matrices};
}

namespace {

nb::object table_array(const std::vector<float>& values, std::size_t rows) {
    Buffer<float> buffer = allocate<float>(static_cast<int64_t>(values.size()));
    std::copy(values.begin(), values.end(), buffer.get());
    return owned(std::move(buffer), {rows, values.size() / rows});
}

}  // namespace

nb::object sinusoids_table(int order, int64_t width, int64_t first, int64_t count) {
    constexpr int64_t max_size = int64_t{1} << 31;
    if (order < 0 || order > static_cast<int>(Sinusoids::tensor2tensor)) refuse("order: unknown value");
    if (width < 2 || width % 2 || first < 0 || count < 1 || width >= max_size || first >= max_size ||
        count >= max_size / width)
        refuse("sinusoids: size out of range");
    return table_array(sinusoids(static_cast<Sinusoids>(order), width, first, count),
                       static_cast<std::size_t>(count));
}

nb::object distances_table(Shaped<float, 2> weight, int64_t max_distance, bool bidirectional) {
    const int64_t buckets = static_cast<int64_t>(weight.shape(0)),
                  heads = static_cast<int64_t>(weight.shape(1));
    if (buckets < 4 || heads < 1 || max_distance <= buckets / 2 || max_distance >= int64_t{1} << 24)
        refuse("distances: size out of range");
    return table_array(distances(weight.data(), buckets, heads, max_distance, bidirectional),
                       static_cast<std::size_t>(heads));
}

}  // namespace uwaga
