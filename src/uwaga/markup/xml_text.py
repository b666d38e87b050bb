"""XML in a string, such as a segment of XLIFF, or a document whose elements separate its texts.

Without an outline the string is a single text, and all its elements are inline. With an outline, an element
that contains words next to its children, such as a paragraph, is a text with all its content, and the
elements around it separate texts. The caller may name elements of either kind.

The string is checked first. Declared entities and references to external documents are rejected.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from xml.parsers import expat

from uwaga.errors import DataError, SettingsError, quoted
from uwaga.markup.inline import Inline, Tag, join_parts
from uwaga.markup.units import Fragment, Piece, make_escape, make_writer, text_unit
from uwaga.markup.xml import unescape, xml_tokens
from uwaga.settings.options import check_flag

CODE_ELEMENTS = frozenset(("ph", "bpt", "ept", "it", "sub"))
"""Elements of XLIFF 1.2 and TMX that contain markup of another format."""
RUBY_ANNOTATIONS = frozenset(("rt", "rp", "rtc"))
"""Elements that annotate ruby base text, for example with its pronunciation."""
UNTRANSLATED_ATTRIBUTE = re.compile(r"""\s(?:translate\s*=\s*["']no["']|mtype\s*=\s*["']protected["'])""")
DOCUMENT_START = re.compile(r"\s*<(?:\?xml\s|!DOCTYPE)")
"""The beginning of a complete document; other processing instructions may occur in a fragment."""
ROOT_NAME = "fragment"
LINE_BREAK = re.compile(r"(?<![ \t])[ \t]*(?:\r\n|\r|\n)\s*")


@dataclass(frozen=True)
class XmlOutline:
    """The elements that separate texts.

    Attributes:
        detect: whether to detect these elements by the positions of words; if not, only the elements in
            ``splitting`` separate texts.
        splitting: names of elements that always separate texts.
        non_splitting: names of elements that never separate texts.
        lines: whether a line break inside a text ends a sentence; if not, it counts as a space.
    """

    detect: bool = True
    splitting: frozenset[str] = frozenset()
    non_splitting: frozenset[str] = frozenset()
    lines: bool = True

    def __post_init__(self) -> None:
        """Check the types of the values, and that no element is in both sets."""
        check_flag("detect", self.detect)
        check_flag("lines", self.lines)
        for name in ("splitting", "non_splitting"):
            value: object = getattr(self, name)
            if not isinstance(value, frozenset) or not all(isinstance(element, str) for element in value):
                raise SettingsError(f"{name} must be a frozenset of element names, not {quoted(value)}")
        conflicts = sorted(self.splitting & self.non_splitting)
        if conflicts:
            raise SettingsError(
                f"the element {quoted(conflicts[0])} is both in splitting and in non_splitting"
            )

    @classmethod
    def from_names(
        cls,
        detect: bool = True,
        splitting: Iterable[str] = (),
        non_splitting: Iterable[str] = (),
        lines: bool = True,
    ) -> XmlOutline:
        """Create an outline from iterables of element names."""
        return cls(detect, frozenset(splitting), frozenset(non_splitting), lines)


@dataclass
class _Element:
    """An element, with the index of its parent and flags that tell where it has words."""

    name: str
    parent: int
    has_words: bool = False  # directly, or in non-splitting children
    has_words_inside: bool = False  # words anywhere inside
    is_splitting: bool = False
    contains_splitting: bool = False
    has_mixed_content: bool = False


@dataclass
class _Tree:
    """The elements of a text in document order, starting with the root."""

    elements: list[_Element] = field(default_factory=lambda: [_Element("", -1)])
    part_elements: list[int] = field(default_factory=list)
    """For each part, the index of its element: the element of a tag, or the element that contains the
    text."""


def read_xml(
    text: str, ignored_elements: frozenset[str] = frozenset(), outline: XmlOutline | None = None
) -> Fragment:
    """Read a string of XML.

    Args:
        text: well-formed content of an element, or a complete document, which may declare the name of its
            document type.
        ignored_elements: names of further elements that are never translated, in lower case. Elements with an
            attribute such as ``translate="no"`` and the code elements of XLIFF are never translated.
        outline: which elements separate texts; None if the string is a single text.
    """
    check_xml(text)
    parts = list(_read_parts(text, ignored_elements))
    if outline is None:
        return Fragment(tuple(_pieces(parts, lines=True)))
    tree = _build_tree(parts)
    _mark_splitting(tree, outline)
    pieces: list[Piece] = []
    text_parts: list[_Part] = []
    for part, element_index in zip(parts, tree.part_elements, strict=True):
        is_tag = isinstance(part.content, Tag) and part.content.kind != "kept" and part.name
        if is_tag and tree.elements[element_index].is_splitting:
            pieces += [*_pieces(text_parts, outline.lines), part.raw]
            text_parts = []
        else:
            text_parts.append(part)
    return Fragment((*pieces, *_pieces(text_parts, outline.lines)))


class _Part(NamedTuple):
    """Text, or a tag with the name of its element (empty for comments and processing instructions)."""

    raw: str
    content: str | Tag
    name: str = ""


def _read_parts(text: str, ignored_elements: frozenset[str]) -> Iterator[_Part]:
    """Yield the parts of a well-formed string."""
    ignored_elements |= CODE_ELEMENTS | RUBY_ANNOTATIONS
    untranslated: tuple[int, str] | None = None
    depth = 0
    for token in xml_tokens(text):
        raw = text[token.start : token.end]
        if untranslated is not None:
            if token.name == untranslated[1] and token.kind in ("open", "close"):
                depth += 1 if token.kind == "open" else -1
            if not depth:
                raw = text[untranslated[0] : token.end]
                is_annotation = untranslated[1].rpartition(":")[2].lower() in RUBY_ANNOTATIONS
                yield _Part(raw, Tag("void" if is_annotation else "kept", raw), untranslated[1])
                untranslated = None
        elif token.kind == "text":
            yield _Part(raw, unescape(raw))
        elif token.kind == "cdata":
            yield _Part(raw, Tag("kept", raw, raw[9:-3]))
        elif token.kind == "close":
            yield _Part(raw, Tag("close", raw), token.name)
        elif token.kind != "open":
            yield _Part(raw, Tag("void", raw), token.name)
        elif token.name.rsplit(":", 1)[-1].lower() in ignored_elements or UNTRANSLATED_ATTRIBUTE.search(raw):
            untranslated, depth = (token.start, token.name), 1
        else:
            yield _Part(raw, Tag("open", raw), token.name)


def _pieces(parts: Sequence[_Part], lines: bool) -> Iterator[Piece]:
    """Yield the piece for the parts between two separating tags, or nothing if there are no parts."""
    raw = "".join(part.raw for part in parts)
    words = "".join(part.raw for part in parts if isinstance(part.content, str))
    inline: Inline = join_parts(
        part.content if lines or isinstance(part.content, Tag) else LINE_BREAK.sub(" ", part.content)
        for part in parts
    )
    if raw:
        yield text_unit(raw, inline, make_writer(make_escape(words, unescape)))


def _build_tree(parts: Sequence[_Part]) -> _Tree:
    tree, open_elements = _Tree(), [0]
    for part in parts:
        element_index = open_elements[-1]
        words = isinstance(part.content, str) and not part.content.isspace()
        if isinstance(part.content, Tag) and part.name and part.content.kind in ("open", "void"):
            tree.elements.append(_Element(part.name, element_index))
            element_index = len(tree.elements) - 1
            if part.content.kind == "open":
                open_elements.append(element_index)
        elif isinstance(part.content, Tag) and part.content.kind == "close":
            open_elements.pop()
        elif isinstance(part.content, Tag) and part.content.kind == "kept":
            words = bool(part.content.text) and not part.content.text.isspace()
        if words:
            tree.elements[element_index].has_words = True
        tree.part_elements.append(element_index)
    return tree


def _mark_splitting(tree: _Tree, outline: XmlOutline) -> None:
    """Set ``is_splitting`` of each element that separates texts."""
    elements = tree.elements
    for element in reversed(elements[1:]):  # children come after their parents
        parent = elements[element.parent]
        element.has_words_inside = element.has_words_inside or element.has_words
        parent.has_words_inside = parent.has_words_inside or element.has_words_inside
        if element.has_words_inside and element.name in outline.non_splitting:
            parent.has_words = True
    elements[0].has_mixed_content = elements[0].has_words or not outline.detect
    for element in elements[1:]:
        parent_has_mixed_content = elements[element.parent].has_mixed_content
        if element.name in outline.splitting:
            element.is_splitting, element.has_mixed_content = True, element.has_words or not outline.detect
        elif element.name in outline.non_splitting:
            element.has_mixed_content = parent_has_mixed_content or element.has_words
        else:
            element.is_splitting = outline.detect and not parent_has_mixed_content
            element.has_mixed_content = parent_has_mixed_content or element.has_words or not outline.detect
    for element in reversed(elements[1:]):  # the ancestors of a splitting element also split
        element.is_splitting = element.is_splitting or element.contains_splitting
        elements[element.parent].contains_splitting |= element.is_splitting


def check_xml(text: str) -> None:
    """Check that a string is well-formed XML whose document type, if any, is declared by name only."""
    parser = expat.ParserCreate(namespace_separator=None)

    def check_declaration(name: str, system: str | None, public: str | None, internal: int) -> None:
        if system or public or internal:
            raise DataError(
                "the XML declares a document type with entities or an address, which are rejected because "
                "they could read other files or grow without bound; keep only its name, as in "
                "<!DOCTYPE html>"
            )

    parser.StartDoctypeDeclHandler = check_declaration
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    document = text if DOCUMENT_START.match(text) else f"<{ROOT_NAME}>{text}</{ROOT_NAME}>"
    try:
        parser.Parse(document, True)
    except expat.ExpatError as error:
        raise DataError(
            f"not well-formed XML at line {error.lineno}: {expat.ErrorString(error.code)}: {quoted(text)}; "
            "use format 'html' for malformed markup"
        ) from None
    except ValueError as error:
        raise DataError(f"not XML: {error}") from None
