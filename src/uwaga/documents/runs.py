"""Paragraphs of Office Open XML: runs of equal format are one text, all others stand between tags.

ECMA-376 cuts a sentence into runs wherever its format, its spelling or its history changes. Here the format
that most of a paragraph has is the text's own; a run of another stands between two tags that carry its
properties, and whatever else a paragraph holds is a tag that is written again as it was.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from uwaga.documents.document import Piece, balanced, joined, nested_unit
from uwaga.documents.elements import Element, elements
from uwaga.documents.tags import Token, xml_tokens
from uwaga.documents.xml import escape, unescape
from uwaga.markup import Inline, Tag

END_OF_FORMAT = "</rPr>"
"""Marks where a format ends; it is never written."""


class RunNames(NamedTuple):
    """The names of a dialect: WordprocessingML, DrawingML or SpreadsheetML."""

    paragraph: str
    run: str
    properties: str
    text: str
    wrappers: frozenset[str] = frozenset()
    """Elements around runs that stay around their words."""
    inside: frozenset[str] = frozenset()
    """Elements of such a wrapper in which the runs stand."""
    dropped: frozenset[str] = frozenset()
    """Elements that say something of the old text alone, such as where its spelling was wrong."""
    signs: tuple[tuple[str, str], ...] = ()
    """Elements that stand for a character."""
    noise: re.Pattern[str] = re.compile(r"(?!)")
    """What two formats may differ in that no reader sees."""
    field: str = ""


WORD = RunNames(
    *("w:p", "w:r", "w:rPr", "w:t"),
    frozenset(("w:hyperlink", "w:ins", "w:smartTag", "w:sdt", "w:moveTo", "w:customXml", "w:dir", "w:bdo")),
    frozenset(("w:sdtContent",)),
    frozenset(("w:proofErr", "w:lastRenderedPageBreak")),
    (("w:noBreakHyphen", "\u2011"), ("w:softHyphen", "\u00ad")),
    re.compile(r"<w:(?:lang|noProof)\b[^>]*/>|\s+w:rsid\w*=\"[^\"]*\""),
    "w:fldChar",
)
DRAWING = RunNames(
    *("a:p", "a:r", "a:rPr", "a:t"),
    noise=re.compile(r"\s+(?:lang|altLang|dirty|err|smtClean|noProof)=\"[^\"]*\""),
)
SHEET = RunNames(*("si", "r", "rPr", "t"))


class _Words(NamedTuple):
    format: str
    text: str


def paragraphs(text: str, names: RunNames, start: int = 0, end: int | None = None) -> Iterator[Piece]:
    """The pieces of a part of a document whose paragraphs are translated."""
    at = start
    for one in elements(text, (names.paragraph,), start, end):
        yield text[at : one.inner]
        yield paragraph(text, one, names)
        at = one.inner_end
    yield text[at : len(text) if end is None else end]


def paragraph(text: str, one: Element, names: RunNames) -> Piece:
    """The content of a paragraph."""
    raw = one.content(text)
    if f"<{names.text}" not in raw:
        return raw
    reader = _RunReader(text, names)
    items = reader.items(one.inner, one.inner_end)
    formats = Counter[str]()
    for item in items:
        if isinstance(item, _Words):
            formats[item.format] += len("".join(item.text.split()))  # white space has no format to see
    base = formats.most_common(1)[0][0] if formats else ""
    inline = balanced(_tagged(items, base, reader.formats))
    inner = {key: list(paragraphs(key, names)) for key in reader.nested}
    return nested_unit(raw, inline, inner, lambda made: _write(made, reader.formats.get(base, ""), names))


class _RunReader:
    """Reads a paragraph's runs; ``formats`` are their properties by what tells them apart."""

    def __init__(self, text: str, names: RunNames) -> None:
        self._text, self._names = text, names
        self._signs = dict(names.signs)
        self._field = ""  # what has been read of a field whose result has not begun
        self._fields = 0
        self.formats: dict[str, str] = {"": ""}
        self.nested: list[str] = []

    def items(self, start: int, end: int) -> list[_Words | Tag]:
        """The words and tags of a part."""
        found = list(self._items(start, end))
        if self._field:
            found.append(Tag("void", self._field))
            self._field = ""
        return found

    def _items(self, start: int, end: int) -> Iterator[_Words | Tag]:
        names = self._names
        for one in children(self._text, start, end):
            raw = self._text[one.start : one.end]
            if one.name in names.dropped:
                continue
            if one.name == names.run:
                yield from self._run(one, raw)
            elif self._field:
                self._field += raw
            elif one.name in names.wrappers and one.inner < one.inner_end:
                yield from self._wrapper(one)
            elif one.name == names.text:
                yield _Words("", unescape(one.content(self._text)))
            else:
                yield self._void(raw)

    def _wrapper(self, one: Element) -> Iterator[_Words | Tag]:
        inside = one
        for child in children(self._text, one.inner, one.inner_end):
            if child.name in self._names.inside:
                inside = child
        yield Tag("open", self._text[one.start : inside.inner])
        yield from self._items(inside.inner, inside.inner_end)
        yield Tag("close", self._text[inside.inner_end : one.end])

    def _run(self, one: Element, raw: str) -> Iterator[_Words | Tag]:
        names = self._names
        if names.field and f"<{names.field}" in raw:
            yield from self._field_part(raw)
            return
        if self._field:
            self._field += raw
            return
        own = list(children(self._text, one.inner, one.inner_end))
        properties = next((self._text[c.start : c.end] for c in own if c.name == names.properties), "")
        key = self._format(properties)
        for child in own:
            inner = self._text[child.start : child.end]
            if child.name == names.text:
                yield _Words(key, unescape(child.content(self._text)))
            elif child.name in self._signs:
                yield _Words(key, self._signs[child.name])
            elif child.name not in names.dropped and child.name != names.properties:
                yield self._void(f"{one.tag(self._text)}{properties}{inner}</{names.run}>")

    def _format(self, properties: str) -> str:
        key = self._names.noise.sub("", properties)
        if re.fullmatch(r"<[^>]*?\s*/>|<([\w:]+)>\s*</\1>", key):
            key = key if "=" in key else ""
        self.formats.setdefault(key, properties)
        return key

    def _field_part(self, raw: str) -> Iterator[Tag]:
        """A part of a field, whose result stands between its code and its end."""
        begins = raw.count('fldCharType="begin"')
        self._field += raw
        if begins or 'fldCharType="separate"' in raw:
            self._fields += begins
            if 'fldCharType="separate"' in raw and self._field.count('"begin"') == 1 + self._field.count(
                '"end"'
            ):
                yield Tag("open", self._field)
                self._field = ""
        elif self._field.count('"begin"') == self._field.count('"end"'):
            yield Tag("void", self._field)
            self._field = ""
        elif self._field == raw:
            yield Tag("close", raw)
            self._field = ""

    def _void(self, raw: str) -> Tag:
        if f"<{self._names.paragraph}>" in raw or f"<{self._names.paragraph} " in raw:
            self.nested.append(raw)
        return Tag("void", raw)


def children(text: str, start: int, end: int) -> Iterator[Element]:
    """The elements right inside a part of a document; comments and their like come as elements too."""
    depth = 0
    opened: Token | None = None
    for token in xml_tokens(text, start, end):
        if token.kind == "open":
            opened = opened or token
            depth += 1
        elif token.kind == "close":
            depth -= 1
            if not depth and opened is not None:
                yield Element(opened.name, opened.start, opened.end, token.start, token.end)
                opened = None
        elif not depth and (token.kind != "text" or text[token.start : token.end].strip()):
            yield Element(token.name, token.start, token.end, token.end, token.end)


def _tagged(items: Sequence[_Words | Tag], base: str, formats: dict[str, str]) -> Inline:
    """The words with tags around those that are not of the usual format."""
    parts: list[str | Tag] = []
    now = base
    for item in items:
        wanted = now if isinstance(item, _Words) and item.text.isspace() else base
        if isinstance(item, _Words) and not item.text.isspace():
            wanted = item.format
        if wanted != now:
            if now != base:
                parts.append(Tag("close", END_OF_FORMAT))
            if wanted != base:
                parts.append(Tag("open", f"<rPr>{formats[wanted]}"))
            now = wanted
        parts.append(item.text if isinstance(item, _Words) else item)
    if now != base:
        parts.append(Tag("close", END_OF_FORMAT))
    return joined(parts)


def _write(inline: Inline, base: str, names: RunNames) -> str:
    made: list[str] = []
    formats = [base]
    space = "" if names.text == "a:t" else ' xml:space="preserve"'
    for part in inline:
        if isinstance(part, str):
            words = f"<{names.text}{space}>{escape(part)}</{names.text}>"
            made.append(f"<{names.run}>{formats[-1]}{words}</{names.run}>")
        elif part.raw.startswith("<rPr>"):
            formats.append(part.raw.removeprefix("<rPr>"))
        elif part.raw == END_OF_FORMAT:
            if len(formats) > 1:
                formats.pop()
        else:
            made.append(part.raw)
    return "".join(made)
