#include "binding/checkpoints.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <cstring>

#include "binding/arrays.h"
#include "checkpoints/marian_file.h"
#include "checkpoints/packed_layout.h"
#include "checkpoints/packer.h"
#include "checkpoints/recurrent_settings.h"

namespace uwaga {

namespace {

using Bytes = Array<uint8_t>;

Json json_of(const std::string& location, std::string_view text) {
    return named(location, [&] { return Json::read(text); });
}

nb::tuple tuple_of(const std::vector<int64_t>& values) {
    nb::list list;
    for (const int64_t value : values) list.append(value);
    return nb::tuple(list);
}

nb::object array_of(const std::vector<int32_t>& values) {
    Buffer<int32_t> copy = allocate<int32_t>(static_cast<int64_t>(values.size()));
    std::copy(values.begin(), values.end(), copy.get());
    return owned(std::move(copy), {values.size()});
}

Settings settings_of(std::string_view text, const std::string& location) {
    return read_settings(json_of(location, text), location);
}

// The matrices, each a name, the stored weights and biases, their outputs and the inputs, the shape of the
// stored weight of which it is a block (or None), and the block's first output and input.
nb::list matrices_of(std::string_view settings, int64_t source, int64_t target, const std::string& location) {
    nb::list matrices;
    for (const Product& product : products(settings_of(settings, location), source, target)) {
        std::vector<std::string> weights, biases;
        std::vector<int64_t> outputs;
        for (const auto& [part, count] : product.parts) {
            weights.push_back(weight_name(part));
            if (product.bias) biases.push_back(bias_name(part));
            outputs.push_back(count);
        }
        matrices.append(nb::make_tuple(product.name, weights, biases, tuple_of(outputs), product.inputs,
                                       product.shape.empty() ? nb::none()
                                                             : nb::object(tuple_of(product.shape)),
                                       product.first, product.column));
    }
    return matrices;
}

// Shapes of the stored tensors that are not matrices, by name.
nb::dict vectors_of(std::string_view settings, int64_t target, const std::string& location) {
    nb::dict shapes;
    for (const auto& [name, shape] : vectors(settings_of(settings, location), target))
        shapes[name.c_str()] = tuple_of(shape);
    return shapes;
}

nb::tuple tensor_of(const PackedTensor& tensor) {
    const std::string_view format = dtype_name(tensor.dtype);
    return nb::make_tuple(tensor.name, nb::str(format.data(), format.size()), tuple_of(tensor.shape));
}

// The matrices of an int8 or int4 folder (a name, the number format, outputs, inputs and tensors), and its
// other tensors; of each tensor the name, the number format and the shape.
nb::tuple packed_layout_of(std::string_view settings, int64_t source, int64_t target, bool int8,
                           const std::vector<std::string>& kept, const std::string& location) {
    const PackedLayout layout = packed_layout(settings_of(settings, location), source, target,
                                              int8 ? Matrix::Kind::int8 : Matrix::Kind::int4,
                                              {kept.begin(), kept.end()});
    nb::list matrices, others;
    for (const PackedMatrix& matrix : layout.matrices) {
        nb::list arrays;
        for (const PackedTensor& array : matrix.arrays) arrays.append(tensor_of(array));
        const char* const format = matrix.kind == Matrix::Kind::int8   ? "int8"
                                   : matrix.kind == Matrix::Kind::int4 ? "int4"
                                                                       : "bfloat16";
        matrices.append(nb::make_tuple(matrix.name, format, matrix.outputs, matrix.inputs, arrays));
    }
    for (const auto* const group : {&layout.biases, &layout.vectors}) {
        for (const PackedTensor& vector : *group) others.append(tensor_of(vector));
    }
    return nb::make_tuple(matrices, others);
}

// Settings of the core's model, without vocabularies and threads.
nb::dict shape_of(std::string_view settings, bool float16_cache) {
    nb::dict shape;
    for (const auto& [name, value] : model_settings(settings_of(settings, "settings"), float16_cache))
        shape[name.c_str()] = value;
    return shape;
}

// The name, number format, shape, first byte, scale (of a quantised matrix), transposition and meaning of
// each tensor. `read(start, count)` returns bytes of the file.
nb::list marian_tensors(const std::string& path, uint64_t size, const nb::callable& read) {
    static constexpr const char* formats[] = {"F32", "F16", "F64", "I8", "I8", "I16"};  // by kind
    const MarianFile file(path, size, [&](uint64_t start, uint64_t count, char* to) {
        const Bytes bytes = nb::cast<Bytes>(read(start, count));
        check(bytes, static_cast<int64_t>(count), "bytes");
        std::memcpy(to, bytes.data(), static_cast<std::size_t>(count));
    });
    nb::list tensors;
    for (const auto& [name, tensor] : file.tensors())
        tensors.append(nb::make_tuple(name, formats[static_cast<int>(tensor.kind)], tuple_of(tensor.shape),
                                      tensor.start,
                                      tensor.quantised() ? nb::cast(tensor.scale()) : nb::none(),
                                      tensor.transposed, tensor.weight));
    return tensors;
}

// The object "model" of uwaga's settings as JSON, and the layer that guided alignment trained, from 1.
nb::tuple marian_settings(const std::string& location, std::string_view options) {
    const MarianSettings settings = read_marian_settings(location, json_of(location, options));
    return nb::make_tuple(settings.model, settings.guided_layer + 1);
}

// For each of uwaga's weights: names of its tensors, whether they are transposed, stored rows (0: all) and
// the value of the others, and whether it is zero if it is not stored.
nb::dict marian_names(const std::string& location, std::string_view model, int64_t source, int64_t target,
                      bool output_rows, const std::vector<std::string>& weights) {
    const Settings settings = settings_of(model, location);
    const MarianNames names(location, settings, source, target, output_rows);
    nb::dict locations;
    for (const std::string& weight : weights) {
        const TensorLocation location_of_weight = names.location(weight);
        locations[weight.c_str()] = nb::make_tuple(location_of_weight.names, location_of_weight.transposed,
                                                   location_of_weight.rows, location_of_weight.fill,
                                                   location_of_weight.optional);
    }
    return locations;
}

// The names of the files of weights, decoding settings and shortlist; "" for none. `read(name)` returns a
// file of settings as JSON.
nb::tuple marian_files(const std::string& location, const std::vector<std::string>& names,
                       const std::string& model, const nb::callable& read) {
    const MarianFiles files = find_marian_files(location, names, model, true, [&](const std::string& name) {
        return json_of(name, nb::cast<std::string>(read(name)));
    });
    return nb::make_tuple(files.model, files.decoder, files.shortlist);
}

std::pair<std::string, std::string> marian_vocabularies(const std::string& location,
                                                        const std::vector<std::string>& names,
                                                        const std::string& decoder,
                                                        std::string_view options) {
    return find_marian_vocabularies(location, names, decoder, json_of(decoder, options));
}

nb::dict marian_decoding(const std::string& location, const std::string& decoder,
                         const std::string& shortlist, std::string_view options) {
    const Decoding decoding = read_marian_decoding(location,
                                                   {"", decoder, shortlist, json_of(decoder, options)});
    nb::dict values;
    values["beam"] = decoding.beam;
    values["length_penalty"] = decoding.length_penalty;
    values["max_length"] = nb::none();
    values["max_ratio"] = decoding.max_ratio;
    values["max_extra"] = decoding.max_extra;
    values["early_stopping"] = false;
    values["unknown"] = decoding.unknown;
    return values;
}

// The count of common tokens, offsets (source + 1) and target tokens.
nb::tuple marian_lists(const std::string& path, const Bytes& content, int64_t source, int64_t target) {
    const LexicalLists lists = read_lexical_lists(path,
                                                  {reinterpret_cast<const char*>(content.data()),
                                                   content.size()},
                                                  source, target);
    return nb::make_tuple(lists.common, array_of(lists.offsets), array_of(lists.targets));
}

}  // namespace

void bind_checkpoints(nb::module_& m) {
    using namespace nb::literals;
    // Messages of model files become those of uwaga.errors.ModelError.
    nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
        try {
            std::rethrow_exception(thrown);
        } catch (const Failure& failure) {
            const nb::object kind = nb::module_::import_("uwaga.errors").attr("ModelError");
            const nb::object message = nb::steal(PyUnicode_DecodeUTF8(
                failure.what(), static_cast<Py_ssize_t>(std::strlen(failure.what())), "replace"));
            PyErr_SetObject(kind.ptr(), message.ptr());
        }
    });
    nb::list scores;
    for (const std::string_view name : score_names) scores.append(nb::str(name.data(), name.size()));
    m.attr("SCORES") = nb::tuple(scores);
    m.def("matrices", &matrices_of, "settings"_a, "source"_a, "target"_a, "location"_a);
    m.def("vectors", &vectors_of, "settings"_a, "target"_a, "location"_a);
    m.def("packed_layout", &packed_layout_of, "settings"_a, "source"_a, "target"_a, "int8"_a, "kept"_a,
          "location"_a);
    m.def("shape", &shape_of, "settings"_a, "float16_cache"_a);
    m.attr("MARIAN_SETTINGS") = nb::str(marian_settings_name.data(), marian_settings_name.size());
    m.attr("MARIAN_OUTPUT_ROWS") = nb::str(marian_output_rows.data(), marian_output_rows.size());
    m.attr("LEXICAL_MULTIPLE") = lexical_multiple;
    m.def("marian_tensors", &marian_tensors, "path"_a, "size"_a, "read"_a);
    m.def("marian_settings", &marian_settings, "location"_a, "options"_a);
    m.def("marian_names", &marian_names, "location"_a, "model"_a, "source"_a, "target"_a, "output_rows"_a,
          "weights"_a);
    m.def("marian_files", &marian_files, "location"_a, "names"_a, "model"_a, "read"_a);
    m.def("marian_vocabularies", &marian_vocabularies, "location"_a, "names"_a, "decoder"_a, "options"_a);
    m.def("marian_decoding", &marian_decoding, "location"_a, "decoder"_a, "shortlist"_a, "options"_a);
    m.def("marian_languages", &marian_languages, "name"_a);
    m.def("marian_lists", &marian_lists, "path"_a, "content"_a, "source"_a, "target"_a);
}

}  // namespace uwaga
