#include "binding/text.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <string_view>
#include <vector>

#include "text/byte_pairs.h"
#include "text/sentencepiece.h"

namespace nb = nanobind;

namespace uwaga {

namespace {

// Raises UnicodeDecodeError: a piece of a damaged model may be any bytes.
nb::str to_str(std::string_view text) {
    PyObject* result = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), nullptr);
    if (!result) throw nb::python_error();
    return nb::steal<nb::str>(result);
}

std::vector<nb::str> pieces_of(const SentencePiece& self, std::string_view text) {
    std::vector<nb::str> pieces;
    for (const Segment& segment : self.segment(text)) pieces.push_back(to_str(segment.piece));
    return pieces;
}

std::vector<std::vector<int32_t>> encode_batch(const SentencePiece& self,
                                               const std::vector<std::string>& texts) {
    const nb::gil_scoped_release released;
    std::vector<std::vector<int32_t>> rows;
    for (const std::string& text : texts) rows.push_back(self.encode(text));
    return rows;
}

// The ids of symbols: bytes of words, which follow each other, or others, 256 and more, whose ids are in
// `others`.
std::vector<int32_t> encode_symbols(const BytePairs& self, const std::vector<int32_t>& symbols,
                                    const std::vector<int32_t>& words,
                                    const std::vector<int32_t>& other_ids) {
    if (symbols.size() != words.size()) throw std::invalid_argument("symbols and words differ in number");
    const nb::gil_scoped_release released;
    std::vector<int32_t> ids;
    std::string word;
    for (std::size_t index = 0; index < symbols.size(); ++index) {
        if (symbols[index] < 0 || symbols[index] >= 256 + static_cast<int32_t>(other_ids.size()))
            throw std::out_of_range("no such symbol");
        if (symbols[index] >= 256) {
            ids.push_back(other_ids[static_cast<std::size_t>(symbols[index] - 256)]);
            continue;
        }
        word += static_cast<char>(symbols[index]);
        if (index + 1 < symbols.size() && symbols[index + 1] < 256 && words[index + 1] == words[index])
            continue;
        const std::vector<int32_t> result = self.encode(word);
        ids.insert(ids.end(), result.begin(), result.end());
        word.clear();
    }
    return ids;
}

// A merge is spelt as in files: its left piece, a space, its right piece.
void make_byte_pairs(BytePairs* self, const std::vector<std::string_view>& pieces,
                     const std::vector<std::string_view>& merges, bool whole_words) {
    std::vector<std::pair<std::string_view, std::string_view>> pairs;
    pairs.reserve(merges.size());
    for (const std::string_view merge : merges) {
        const std::size_t space = merge.find(' ');
        if (space == merge.npos || merge.find(' ', space + 1) != merge.npos)
            throw std::invalid_argument("'" + std::string(merge) + "' is not two pieces");
        pairs.emplace_back(merge.substr(0, space), merge.substr(space + 1));
    }
    new (self) BytePairs(pieces, pairs, whole_words);
}

nb::bytes bytes_of(const BytePairs& self, int32_t id) {
    const std::string result = self.bytes(id);
    return nb::bytes(result.data(), result.size());
}

nb::str joined(const SentencePiece& self, const std::vector<std::string>& pieces) {
    return to_str(self.join({pieces.begin(), pieces.end()}));
}

}  // namespace

void bind_text(nb::module_& m) {
    using namespace nb::literals;
    using Model = SentencePiece;
    nb::class_<Model>(m, "SentencePiece")
        .def(
            "__init__",
            [](Model* self, const nb::bytes& model) { new (self) Model({model.c_str(), model.size()}); },
            "model"_a)
        .def("__len__", &Model::size)
        .def_prop_ro("symbols",
                     [](const Model& self) {
                         return nb::make_tuple(self.start(), self.end(), self.pad(), self.unknown());
                     })
        .def(
            "piece", [](const Model& self, int32_t id) { return to_str(self.piece(self.checked(id))); },
            "number"_a)
        .def("number", &Model::id_of, "piece"_a)
        .def(
            "is_control", [](const Model& self, int32_t id) { return self.control(self.checked(id)); },
            "number"_a)
        .def(
            "is_byte", [](const Model& self, int32_t id) { return self.byte(self.checked(id)); }, "number"_a)
        .def(
            "normalise",
            [](const Model& self, std::string_view text, bool prefix) {
                return to_str(self.normalise(text, prefix));
            },
            "text"_a, "prefix"_a = true)
        .def("encode", &Model::encode, "text"_a, "prefix"_a = true)
        .def("encode_batch", &encode_batch, "texts"_a)
        .def("pieces", &pieces_of, "text"_a)
        .def("join", &joined, "pieces"_a)
        .def(
            "decode",
            [](const Model& self, const std::vector<int32_t>& ids) { return to_str(self.decode(ids)); },
            "ids"_a);
    nb::class_<BytePairs>(m, "BytePairs")
        .def("__init__", &make_byte_pairs, "pieces"_a, "merges"_a, "whole_words"_a = false)
        .def(nb::init<const std::vector<std::string_view>&,
                      const std::vector<std::pair<std::string_view, std::string_view>>&, bool>(),
             "pieces"_a, "merges"_a, "whole_words"_a = false)
        .def_static("letters", [] { return to_str(BytePairs::letters()); })
        .def_prop_ro("whole_words", &BytePairs::whole_words)
        .def("__len__", &BytePairs::size)
        .def(
            "piece", [](const BytePairs& self, int32_t id) { return to_str(self.piece(id)); }, "number"_a)
        .def("number", &BytePairs::id_of, "piece"_a)
        .def("bytes", &bytes_of, "number"_a)
        .def("merges", &BytePairs::merges)
        .def("encode", &encode_symbols, "symbols"_a, "words"_a, "others"_a);
}

}  // namespace uwaga
