"""XML in a string, such as a segment of XLIFF, or a document whose elements separate its texts.

Without an outline the string is one text, and all its elements are inline. With one, an element that holds
words next to its children, such as a paragraph, is a text with everything in it, and the elements around it
form the outline. The caller may name elements of either kind.

The string is checked first. Declared entities and external documents are refused, never followed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from xml.parsers import expat

from uwaga.errors import DataError, SettingsError, shown
from uwaga.markup.inline import Inline, Tag, joined
from uwaga.markup.units import Fragment, Piece, escaping, text_unit, writer
from uwaga.markup.xml import unescape, xml_tokens
from uwaga.settings.options import check_flag

CODES = frozenset(("ph", "bpt", "ept", "it", "sub"))
"""Elements of XLIFF 1.2 and TMX that hold the markup of another format."""
PROTECTED = re.compile(r"""\s(?:translate\s*=\s*["']no["']|mtype\s*=\s*["']protected["'])""")
DOCUMENT = re.compile(r"\s*<(?:\?xml\s|!DOCTYPE)")
"""The beginning of a whole document; other instructions may stand in a fragment."""
ROOT = "fragment"
LINES = re.compile(r"(?<![ \t])[ \t]*(?:\r\n|\r|\n)\s*")


@dataclass(frozen=True)
class XmlOutline:
    """Which elements separate texts.

    Attributes:
        detect: detect them by where words stand; if false, only those in ``splitting`` do.
        splitting: elements that always separate texts: their content is apart from what is around them.
        non_splitting: elements that never do.
        lines: whether a line break inside a text ends a sentence; if not, it is a space.
    """

    detect: bool = True
    splitting: frozenset[str] = frozenset()
    non_splitting: frozenset[str] = frozenset()
    lines: bool = True

    def __post_init__(self) -> None:
        """Check the values."""
        check_flag("detect", self.detect)
        check_flag("lines", self.lines)
        for name in ("splitting", "non_splitting"):
            given: object = getattr(self, name)
            if not isinstance(given, frozenset) or not all(isinstance(one, str) for one in given):
                raise SettingsError(f"{name} must be a frozenset of element names, not {shown(given)}")
        both = sorted(self.splitting & self.non_splitting)
        if both:
            raise SettingsError(f"the element {shown(both[0])} is both in splitting and in non_splitting")

    @classmethod
    def of(
        cls,
        detect: bool = True,
        splitting: Iterable[str] = (),
        non_splitting: Iterable[str] = (),
        lines: bool = True,
    ) -> XmlOutline:
        """Build an outline from names in any collection."""
        return cls(detect, frozenset(splitting), frozenset(non_splitting), lines)


@dataclass
class _Element:
    """An element, with the number of its parent."""

    name: str
    parent: int
    words: bool = False  # directly, or in children that never separate texts
    some: bool = False  # words anywhere inside
    splits: bool = False
    holds_split: bool = False
    mixed: bool = False


@dataclass
class _Tree:
    """The elements of a text in document order; the first is the root around all of it."""

    elements: list[_Element] = field(default_factory=lambda: [_Element("", -1)])
    of_part: list[int] = field(default_factory=list)
    """For each part the number of its element: the tag's own, or the one that the words are in."""


def read_xml(text: str, ignored: frozenset[str] = frozenset(), outline: XmlOutline | None = None) -> Fragment:
    """Read a string of XML.

    Args:
        text: well-formed content of an element; or a whole document, which may declare its type's name.
        ignored: names of elements that are never translated, in addition to those whose attributes say so and
            the codes of XLIFF.
        outline: which elements separate texts; None where the string is one text.
    """
    check_xml(text)
    parts = list(_parts(text, ignored))
    if outline is None:
        return Fragment(tuple(_pieces(parts, lines=True)))
    tree = _tree(parts)
    _decide(tree, outline)
    pieces: list[Piece] = []
    stretch: list[_Part] = []
    for part, number in zip(parts, tree.of_part, strict=True):
        is_tag = isinstance(part.content, Tag) and part.content.kind != "kept" and part.name
        if is_tag and tree.elements[number].splits:
            pieces += [*_pieces(stretch, outline.lines), part.raw]
            stretch = []
        else:
            stretch.append(part)
    return Fragment((*pieces, *_pieces(stretch, outline.lines)))


class _Part(NamedTuple):
    """A stretch of text, or a tag with the name of its element (nothing for comments and the like)."""

    raw: str
    content: str | Tag
    name: str = ""


def _parts(text: str, ignored: frozenset[str]) -> Iterator[_Part]:
    """Yield the parts of a well-formed string."""
    ignored |= CODES
    kept: tuple[int, str] | None = None
    depth = 0
    for token in xml_tokens(text):
        raw = text[token.start : token.end]
        if kept is not None:
            if token.name == kept[1] and token.kind in ("open", "close"):
                depth += 1 if token.kind == "open" else -1
            if not depth:
                raw = text[kept[0] : token.end]
                yield _Part(raw, Tag("kept", raw), kept[1])
                kept = None
        elif token.kind == "text":
            yield _Part(raw, unescape(raw))
        elif token.kind == "cdata":
            yield _Part(raw, Tag("kept", raw, raw[9:-3]))
        elif token.kind == "close":
            yield _Part(raw, Tag("close", raw), token.name)
        elif token.kind != "open":
            yield _Part(raw, Tag("void", raw), token.name)
        elif token.name.rsplit(":", 1)[-1].lower() in ignored or PROTECTED.search(raw):
            kept, depth = (token.start, token.name), 1
        else:
            yield _Part(raw, Tag("open", raw), token.name)


def _pieces(parts: Sequence[_Part], lines: bool) -> Iterator[Piece]:
    """Yield the content between two elements that separate texts."""
    raw = "".join(part.raw for part in parts)
    words = "".join(part.raw for part in parts if isinstance(part.content, str))
    inline: Inline = joined(
        part.content if lines or isinstance(part.content, Tag) else LINES.sub(" ", part.content)
        for part in parts
    )
    if raw:
        yield text_unit(raw, inline, writer(escaping(words, unescape)))


def _tree(parts: Sequence[_Part]) -> _Tree:
    tree, opened = _Tree(), [0]
    for part in parts:
        number = opened[-1]
        words = isinstance(part.content, str) and not part.content.isspace()
        if isinstance(part.content, Tag) and part.name and part.content.kind in ("open", "void"):
            tree.elements.append(_Element(part.name, number))
            number = len(tree.elements) - 1
            if part.content.kind == "open":
                opened.append(number)
        elif isinstance(part.content, Tag) and part.content.kind == "close":
            opened.pop()
        elif isinstance(part.content, Tag) and part.content.kind == "kept":
            words = bool(part.content.text) and not part.content.text.isspace()
        if words:
            tree.elements[number].words = True
        tree.of_part.append(number)
    return tree


def _decide(tree: _Tree, outline: XmlOutline) -> None:
    """Decide which elements separate texts."""
    elements = tree.elements
    for one in reversed(elements[1:]):  # children come after their parents
        parent = elements[one.parent]
        one.some = one.some or one.words
        parent.some = parent.some or one.some
        if one.some and one.name in outline.non_splitting:
            parent.words = True
    elements[0].mixed = elements[0].words or not outline.detect
    for one in elements[1:]:
        inside = elements[one.parent].mixed
        if one.name in outline.splitting:
            one.splits, one.mixed = True, one.words or not outline.detect
        elif one.name in outline.non_splitting:
            one.mixed = inside or one.words
        else:
            one.splits = outline.detect and not inside
            one.mixed = inside or one.words or not outline.detect
    for one in reversed(elements[1:]):  # an element around one that separates texts does so too
        one.splits = one.splits or one.holds_split
        elements[one.parent].holds_split |= one.splits


def check_xml(text: str) -> None:
    """Check that a string is well-formed XML that declares at most the name of its document type."""
    parser = expat.ParserCreate(namespace_separator=None)

    def check_declaration(name: str, system: str | None, public: str | None, internal: int) -> None:
        if system or public or internal:
            raise DataError(
                "the XML declares a document type with entities or an address, never followed because they "
                "could read other files or grow without bound; leave only its name, as in <!DOCTYPE html>"
            )

    parser.StartDoctypeDeclHandler = check_declaration
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    whole = text if DOCUMENT.match(text) else f"<{ROOT}>{text}</{ROOT}>"
    try:
        parser.Parse(whole, True)
    except expat.ExpatError as error:
        raise DataError(
            f"not well-formed XML at line {error.lineno}: {expat.ErrorString(error.code)}: {shown(text)}; "
            "use format 'html' for malformed markup"
        ) from None
    except ValueError as error:
        raise DataError(f"not XML: {error}") from None
