#include "binding/text.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <string_view>
#include <vector>

#include "text/sentencepiece.h"

namespace nb = nanobind;

namespace uwaga {

namespace {

std::vector<nb::bytes> pieces_of(const SentencePiece& self, std::string_view text) {
    std::vector<nb::bytes> pieces;
    for (const Segment& one : self.segment(text)) pieces.emplace_back(one.piece.data(), one.piece.size());
    return pieces;
}

nb::bytes joined(const SentencePiece& self, const std::vector<std::string>& pieces) {
    const std::string text = self.join({pieces.begin(), pieces.end()});
    return nb::bytes(text.data(), text.size());
}

nb::bytes decoded(const SentencePiece& self, const std::vector<int32_t>& ids) {
    const std::string text = self.decode(ids);
    return nb::bytes(text.data(), text.size());
}

}  // namespace

void bind_text(nb::module_& m) {
    using namespace nb::literals;
    nb::class_<SentencePiece>(m, "SentencePiece")
        .def("__init__", [](SentencePiece* self, const nb::bytes& model) { new (self) SentencePiece({model.c_str(), model.size()}); }, "model"_a)
        .def("__len__", &SentencePiece::size)
        .def_prop_ro("symbols", [](const SentencePiece& self) { return nb::make_tuple(self.start(), self.end(), self.pad(), self.unknown()); })
        .def("encode", &SentencePiece::encode, "text"_a, "prefix"_a = true)
        .def("pieces", &pieces_of, "text"_a)
        .def("join", &joined, "pieces"_a)
        .def("decode", &decoded, "ids"_a);
}

}  // namespace uwaga
