"""Paragraphs of Office Open XML: their runs as one text with tags.

ECMA-376 splits a sentence into runs wherever its format, spelling status or revision changes. Here the most
frequent format of a paragraph is that of the text; runs with another format are enclosed by two tags with
their properties, and everything else in a paragraph is a tag that is copied.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from uwaga.errors import DataError
from uwaga.markup import Inline, Tag
from uwaga.markup.inline import TagKind, check_tags, joined
from uwaga.markup.units import Piece, balanced, text_unit
from uwaga.markup.xml import Element, content_pieces, escape, unescape, xml_tokens

EMPTY = re.compile(r"<[^>]*/>|<([\w:]+)>\s*</\1\s*>")
"""Properties without any inside them."""
TAGS_OF_RUN = 4
"""Tags of a run in the file, at least: of itself and of its text."""
DEEPEST = 8
"""Most paragraphs inside each other, as in a text box of a text box; each is kept once more."""
END_OF_FORMAT = "</rPr>"
"""The tag at the end of a format; it is never written."""


class RunNames(NamedTuple):
    """The element names of a dialect: WordprocessingML, DrawingML or SpreadsheetML."""

    paragraph: str
    run: str
    properties: str
    text: str
    wrappers: frozenset[str] = frozenset()
    """Elements around runs, which become pairs of tags."""
    inside: frozenset[str] = frozenset()
    """Elements of a wrapper that contain the runs."""
    dropped: frozenset[str] = frozenset()
    """Elements that only concern the old text, such as spelling errors."""
    signs: tuple[tuple[str, str], ...] = ()
    """Elements that stand for a character, and these."""
    breaks: frozenset[str] = frozenset()
    """Line, column and page breaks and tabs, each of which ends a segment."""
    noise: re.Pattern[str] = re.compile(r"(?!)")
    """Properties in which two formats may differ without any visible effect."""
    field: str = ""


WORD = RunNames(
    *("w:p", "w:r", "w:rPr", "w:t"),
    frozenset(("w:hyperlink", "w:ins", "w:smartTag", "w:sdt", "w:moveTo", "w:customXml", "w:dir", "w:bdo")),
    frozenset(("w:sdtContent",)),
    frozenset(("w:proofErr", "w:lastRenderedPageBreak")),
    (("w:noBreakHyphen", "\u2011"), ("w:softHyphen", "\u00ad")),
    frozenset(("w:br", "w:cr", "w:tab", "w:ptab")),
    re.compile(r"<w:(?:lang|noProof)\b[^<>]*/>|(?<!\s)\s+w:rsid\w*=\"[^\"]*\""),
    "w:fldChar",
)
DRAWING = RunNames(
    *("a:p", "a:r", "a:rPr", "a:t"),
    breaks=frozenset(("a:br",)),
    noise=re.compile(r"(?<!\s)\s+(?:lang|altLang|dirty|err|smtClean|noProof)=\"[^\"]*\""),
)
SHEET = RunNames(*("si", "r", "rPr", "t"))


class _Words(NamedTuple):
    format: str
    text: str


def paragraphs(text: str, names: RunNames, depth: int = 1) -> Iterator[Piece]:
    """Yield the pieces of a document, or of a part of one, whose paragraphs are translated.

    Args:
        text: the document or part.
        names: the dialect.
        depth: one more than the number of paragraphs around the part.
    """
    return content_pieces(text, (names.paragraph,), lambda one: [paragraph(text, one, names, depth)])


def paragraph(text: str, one: Element, names: RunNames, depth: int = 1) -> Piece:
    """Return the content of a paragraph as a piece."""
    raw = one.content(text)
    if f"<{names.text}" not in raw:
        return raw
    check_tags(raw.count("<") // TAGS_OF_RUN)
    if depth > DEEPEST:
        raise DataError(f"more than {DEEPEST} paragraphs are inside each other")
    reader = _RunReader(text, names, one.inner, one.inner_end)
    items = reader.items(one.inner, one.inner_end)
    formats = Counter[str]()
    for item in items:
        if isinstance(item, _Words):
            formats[item.format] += len("".join(item.text.split()))  # the format of white space is invisible
    base = formats.most_common(1)[0][0] if formats else ""
    inline = balanced(_tagged(items, base, reader.formats))
    inner = {key: list(paragraphs(key, names, depth + 1)) for key in reader.nested}
    return text_unit(raw, inline, lambda made: _write(made, reader.formats.get(base, ""), names), inner)


class _RunReader:
    """Reads the runs of a paragraph; ``formats`` are their properties by the visible part of these."""

    def __init__(self, text: str, names: RunNames, start: int, end: int) -> None:
        self._text, self._names = text, names
        self._children = Children(text, start, end)
        self._signs = dict(names.signs)
        self._field = ""  # the beginning of a field, up to its result
        self._open = 0  # fields that begin in it and do not end there
        self.formats: dict[str, str] = {"": ""}
        self.nested: list[str] = []

    def items(self, start: int, end: int) -> list[_Words | Tag]:
        """Return the words and tags of a part."""
        found = list(self._items(start, end))
        if self._field:
            found.append(self._end_field("void"))
        return found

    def _items(self, start: int, end: int) -> Iterator[_Words | Tag]:
        names = self._names
        for one in self._children.of(start, end):
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
                yield self._void(one.name, raw)

    def _wrapper(self, one: Element) -> Iterator[_Words | Tag]:
        inside = one
        for child in self._children.of(one.inner, one.inner_end):
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
        own = list(self._children.of(one.inner, one.inner_end))
        properties = next((self._text[c.start : c.end] for c in own if c.name == names.properties), "")
        key = self._format(properties)
        for child in own:
            inner = self._text[child.start : child.end]
            if child.name == names.text:
                for words in re.split("(\t)", unescape(child.content(self._text))):
                    if words == "\t":
                        yield Tag("void", _run_of(words, properties, names), "\n")
                    elif words:
                        yield _Words(key, words)
            elif child.name in self._signs:
                yield _Words(key, self._signs[child.name])
            elif child.name not in names.dropped and child.name != names.properties:
                alone = f"{one.tag(self._text)}{properties}{inner}</{names.run}>"
                yield self._void(child.name, alone)

    def _format(self, properties: str) -> str:
        key = self._names.noise.sub("", properties)
        if EMPTY.fullmatch(key):
            key = key if "=" in key else ""
        self.formats.setdefault(key, properties)
        return key

    def _field_part(self, raw: str) -> Iterator[Tag]:
        """Read a run of a field, whose result stands between its code and its end."""
        begins = raw.count('fldCharType="begin"')
        separates = 'fldCharType="separate"' in raw
        first = not self._field
        self._field += raw
        self._open += begins - raw.count('"end"')
        if separates and self._open == 1:
            yield self._end_field("open")
        elif not (begins or separates) and self._open == 0:
            yield self._end_field("void")
        elif not (begins or separates) and first:
            yield self._end_field("close")

    def _end_field(self, kind: TagKind) -> Tag:
        tag = Tag(kind, self._field)
        self._field, self._open = "", 0
        return tag

    def _void(self, name: str, raw: str) -> Tag:
        if f"<{self._names.paragraph}>" in raw or f"<{self._names.paragraph} " in raw:
            self.nested.append(raw)
        return Tag("void", raw, "\n" if name in self._names.breaks else "")


class Children:
    """The elements of a part of a document, by the element that they are in.

    The part is tokenised once, so that deep nesting costs nothing.
    """

    def __init__(self, text: str, start: int, end: int) -> None:
        self._text = text
        self._tokens = list(xml_tokens(text, start, end))
        self._numbers = {token.start: number for number, token in enumerate(self._tokens)}
        self._closes: dict[int, int] = {}
        opened: list[int] = []
        for number, token in enumerate(self._tokens):
            if token.kind == "open":
                opened.append(number)
            elif token.kind == "close" and opened:
                self._closes[opened.pop()] = number

    def of(self, start: int, end: int) -> Iterator[Element]:
        """Yield the elements right inside a part; comments and the like come as elements too."""
        number = self._numbers.get(start, len(self._tokens))
        while number < len(self._tokens) and (token := self._tokens[number]).start < end:
            close = self._closes.get(number)
            if close is not None:
                last = self._tokens[close]
                yield Element(token.name, token.start, token.end, last.start, last.end)
                number = close
            elif token.kind != "text" or self._text[token.start : token.end].strip():
                yield Element(token.name, token.start, token.end, token.end, token.end)
            number += 1


def _tagged(items: Sequence[_Words | Tag], base: str, formats: dict[str, str]) -> Inline:
    """Put tags around the words whose format is not the most frequent one."""
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


def _run_of(text: str, properties: str, names: RunNames) -> str:
    space = "" if names.text == "a:t" else ' xml:space="preserve"'
    words = f"<{names.text}{space}>{escape(text)}</{names.text}>"
    return f"<{names.run}>{properties}{words}</{names.run}>"


def _write(inline: Inline, base: str, names: RunNames) -> str:
    made: list[str] = []
    formats = [base]
    for part in inline:
        if isinstance(part, str):
            made.append(_run_of(part, formats[-1], names))
        elif part.raw.startswith("<rPr>"):
            formats.append(part.raw.removeprefix("<rPr>"))
        elif part.raw == END_OF_FORMAT:
            if len(formats) > 1:
                formats.pop()
        else:
            made.append(part.raw)
    return "".join(made)
