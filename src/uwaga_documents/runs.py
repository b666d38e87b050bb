"""Paragraphs of Office Open XML, whose runs are read as a text with tags.

In ECMA-376 a sentence is split into runs wherever its format, spelling status or revision changes. Here the
text has the most frequent format of the paragraph, and runs with another format are enclosed in a pair of
tags with their properties. Everything else in a paragraph is a tag that is copied.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from uwaga.errors import DataError
from uwaga.markup import Inline, Tag
from uwaga.markup.inline import TagKind, check_tag_count, join_parts
from uwaga.markup.units import MARKUP, Piece, Untranslated, balance_tags, text_unit, untranslated
from uwaga.markup.xml import Element, attribute_pieces, content_pieces, escape, unescape, xml_tokens

EMPTY_PROPERTIES = re.compile(r"<[^>]*/>|<([\w:]+)>\s*</\1\s*>")
"""Properties without children."""
MIN_RUN_TAGS = 4
"""Minimum number of tags of a run in the file: an opening and a closing tag for the run and for its text."""
MAX_PARAGRAPH_DEPTH = 8
"""Maximum depth of nested paragraphs, as in a text box inside a text box; each level is stored again."""
FORMAT_END = "</rPr>"
"""The tag that marks the end of a format; it is never written."""


class RunNames(NamedTuple):
    """The element names of WordprocessingML, DrawingML or SpreadsheetML."""

    paragraph: str
    run: str
    properties: str
    text: str
    wrappers: frozenset[str] = frozenset()
    """Elements around runs, which become pairs of tags."""
    run_containers: frozenset[str] = frozenset()
    """Elements inside a wrapper that contain its runs."""
    dropped: frozenset[str] = frozenset()
    """Elements that are not written, since they concern only the source text, such as spelling errors."""
    signs: tuple[tuple[str, str], ...] = ()
    """Elements that each stand for a character, with this character."""
    deleted: frozenset[str] = frozenset()
    """Elements around text that tracked changes have deleted or moved, which is copied."""
    breaks: frozenset[str] = frozenset()
    """Line, column and page breaks and tabs, each of which ends a segment."""
    noise: re.Pattern[str] = re.compile(r"(?!)")
    """Properties without a visible effect."""
    field: str = ""
    """The element that begins, separates or ends a field."""
    ruby: str = ""
    """The element with a base text and its ruby annotation."""
    space: str = ' xml:space="preserve"'
    """The attribute that preserves the white space of a text."""

    def with_prefix(self, prefix: str) -> RunNames:
        """Return a copy whose names have another prefix, such as ``ns0:`` or an empty string."""

        def rename_all(names: Iterable[str]) -> frozenset[str]:
            return frozenset(rename(name) for name in names)

        def rename(name: str) -> str:
            return prefix + name.rpartition(":")[2] if name else ""

        return self._replace(
            paragraph=rename(self.paragraph),
            run=rename(self.run),
            properties=rename(self.properties),
            text=rename(self.text),
            wrappers=rename_all(self.wrappers),
            run_containers=rename_all(self.run_containers),
            dropped=rename_all(self.dropped),
            signs=tuple((rename(name), sign) for name, sign in self.signs),
            deleted=rename_all(self.deleted),
            breaks=rename_all(self.breaks),
            field=rename(self.field),
            ruby=rename(self.ruby),
        )


WORD = RunNames(
    *("w:p", "w:r", "w:rPr", "w:t"),
    frozenset(("w:hyperlink", "w:ins", "w:smartTag", "w:sdt", "w:moveTo", "w:customXml", "w:dir", "w:bdo")),
    frozenset(("w:sdtContent", "w:rubyBase")),
    frozenset(("w:proofErr", "w:lastRenderedPageBreak")),
    (("w:noBreakHyphen", "\u2011"), ("w:softHyphen", "\u00ad")),
    frozenset(("w:del", "w:moveFrom")),
    frozenset(("w:br", "w:cr", "w:tab", "w:ptab")),
    re.compile(r"<(?:\w+:)?(?:lang|noProof)\b[^<>]*/>|(?<!\s)\s+(?:\w+:)?rsid\w*=\"[^\"]*\""),
    "w:fldChar",
    "w:ruby",
)
DRAWING = RunNames(
    *("a:p", "a:r", "a:rPr", "a:t"),
    breaks=frozenset(("a:br",)),
    noise=re.compile(r"(?<!\s)\s+(?:lang|altLang|dirty|err|smtClean|noProof)=\"[^\"]*\""),
    space="",
)
SHEET = RunNames(*("si", "r", "rPr", "t"))

DESCRIBED_ELEMENT = re.compile(r"<(?:\w+:)?(?:docPr|cNvPr|listItem)\s[^<>]*>")
"""The tag of a picture, a shape or a list entry, whose attributes may contain texts."""
DESCRIPTIONS = frozenset(("descr", "title", "displayText"))


def has_description(text: str) -> bool:
    """Return whether a part of a document may contain alternative texts of pictures."""
    return "descr=" in text or " title=" in text or "displayText=" in text


def with_descriptions(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Yield the pieces; alternative texts of pictures in copied pieces become units."""
    for piece in pieces:
        if not isinstance(piece, str) or isinstance(piece, Untranslated) or not has_description(piece):
            yield piece
            continue
        position = 0
        for match in DESCRIBED_ELEMENT.finditer(piece):
            yield piece[position : match.start()]
            yield from attribute_pieces(match[0], DESCRIPTIONS)
            position = match.end()
        yield piece[position:]


class _Words(NamedTuple):
    """A text and its format, which is a key of ``_RunReader.formats``."""

    format: str
    text: str


def paragraphs(text: str, names: RunNames, depth: int = 1) -> Iterator[Piece]:
    """Yield the pieces of a document, or of a part of a document, with its paragraphs as units.

    Args:
        text: the document or part.
        names: the element names.
        depth: the number of paragraphs around the part, plus one.
    """
    return with_descriptions(
        content_pieces(text, (names.paragraph,), lambda element: [paragraph(text, element, names, depth)])
    )


def paragraph(text: str, element: Element, names: RunNames, depth: int = 1) -> Piece:
    """Return the content of a paragraph as a piece."""
    raw = element.content(text)
    if not any(f"<{name}" in raw for name in (names.text, *names.deleted)) and not has_description(raw):
        return raw
    check_tag_count(raw.count("<") // MIN_RUN_TAGS)
    if depth > MAX_PARAGRAPH_DEPTH:
        raise DataError(f"more than {MAX_PARAGRAPH_DEPTH} nested paragraphs")
    reader = _RunReader(text, names, element.inner, element.inner_end)
    items = reader.items(element.inner, element.inner_end)
    formats = Counter[str]()
    for item in items:
        if isinstance(item, _Words):
            # White space is not counted, since its format is invisible.
            formats[item.format] += len("".join(item.text.split()))
    base = formats.most_common(1)[0][0] if formats else ""
    inline = balance_tags(_with_format_tags(items, base, reader.formats))
    inner_pieces: dict[str, list[Piece]] = {
        key: list(paragraphs(key, names, depth + 1)) for key in reader.nested
    }
    for key in reader.deleted:
        inner_pieces[key] = [untranslated(key, "tracked deletions", MARKUP.sub("", key))]
    return text_unit(
        raw,
        inline,
        lambda translation: _write(translation, reader.formats.get(base, ""), names),
        inner_pieces,
    )


class _RunReader:
    """A reader of the runs of a paragraph.

    Attributes:
        formats: all properties of the runs, by their visible properties.
        nested: the raw tags that contain paragraphs or alternative texts.
        deleted: the raw tags of tracked deletions.
    """

    def __init__(self, text: str, names: RunNames, start: int, end: int) -> None:
        self._text, self._names = text, names
        self._children = Children(text, start, end)
        self._signs = dict(names.signs)
        self._field = ""  # the raw beginning of a field, up to its result
        self._open_fields = 0  # number of fields that begin but do not end in it
        self.formats: dict[str, str] = {"": ""}
        self.nested: list[str] = []
        self.deleted: list[str] = []

    def items(self, start: int, end: int) -> list[_Words | Tag]:
        """Return the words and tags between two positions of the document."""
        items = list(self._items(start, end))
        if self._field:
            items.append(self._end_field("void"))
        return items

    def _items(self, start: int, end: int) -> Iterator[_Words | Tag]:
        names = self._names
        for element in self._children.find(start, end):
            raw = self._text[element.start : element.end]
            if element.name in names.dropped:
                continue
            if element.name == names.run:
                yield from self._run(element, raw)
            elif self._field:
                self._field += raw
            elif element.name in names.wrappers and element.inner < element.inner_end:
                yield from self._wrapper(element)
            elif element.name == names.text:
                yield _Words("", unescape(element.content(self._text)))
            else:
                yield self._void(element.name, raw)

    def _wrapper(self, element: Element) -> Iterator[_Words | Tag]:
        content = element
        for child in self._children.find(element.inner, element.inner_end):
            if child.name in self._names.run_containers:
                content = child
        tag = Tag("open", self._text[element.start : content.inner])
        if has_description(tag.raw):
            self.nested.append(tag.raw)
        yield tag
        yield from self._items(content.inner, content.inner_end)
        yield Tag("close", self._text[content.inner_end : element.end])

    def _run(self, element: Element, raw: str) -> Iterator[_Words | Tag]:
        names = self._names
        children = list(self._children.find(element.inner, element.inner_end))
        if names.field and any(child.name == names.field for child in children):
            yield from self._field_part(raw)
            return
        if self._field:
            self._field += raw
            return
        properties = next(
            (self._text[child.start : child.end] for child in children if child.name == names.properties), ""
        )
        key = self._format(properties)
        for child in children:
            child_text = self._text[child.start : child.end]
            if child.name == names.text:
                for words in re.split("(\t)", unescape(child.content(self._text))):
                    if words == "\t":
                        yield Tag("void", _write_run(words, properties, names), "\n")
                    elif words:
                        yield _Words(key, words)
            elif child.name in self._signs:
                yield _Words(key, self._signs[child.name])
            elif child.name == names.ruby:
                yield from self._ruby(element, child, properties)
            elif child.name not in names.dropped and child.name != names.properties:
                run = f"{element.tag(self._text)}{properties}{child_text}</{names.run}>"
                yield self._void(child.name, run)

    def _ruby(self, run: Element, ruby: Element, properties: str) -> Iterator[_Words | Tag]:
        """Yield the base text of a ruby element between tags; the annotation is copied."""
        names = self._names
        base = next(
            (
                child
                for child in self._children.find(ruby.inner, ruby.inner_end)
                if child.name in names.run_containers
            ),
            None,
        )
        start = f"{run.tag(self._text)}{properties}"
        if base is None:
            yield self._void(ruby.name, f"{start}{self._text[ruby.start : ruby.end]}</{names.run}>")
            return
        yield Tag("open", start + self._text[ruby.start : base.inner])
        yield from self._items(base.inner, base.inner_end)
        yield Tag("close", f"{self._text[base.inner_end : ruby.end]}</{names.run}>")

    def _format(self, properties: str) -> str:
        key = self._names.noise.sub("", properties)
        if EMPTY_PROPERTIES.fullmatch(key):
            key = key if "=" in key else ""
        self.formats.setdefault(key, properties)
        return key

    def _field_part(self, raw: str) -> Iterator[Tag]:
        """Read a run that begins, separates or ends a field, and yield the tags around its result."""
        begin_count = raw.count('fldCharType="begin"')
        separates = 'fldCharType="separate"' in raw
        is_outside_field = not self._field
        self._field += raw
        self._open_fields += begin_count - raw.count('"end"')
        if separates and self._open_fields == 1:
            yield self._end_field("open")
        elif not (begin_count or separates) and self._open_fields == 0:
            yield self._end_field("void")
        elif not (begin_count or separates) and is_outside_field:
            yield self._end_field("close")

    def _end_field(self, kind: TagKind) -> Tag:
        tag = Tag(kind, self._field)
        self._field, self._open_fields = "", 0
        return tag

    def _void(self, name: str, raw: str) -> Tag:
        paragraph_tag = f"<{self._names.paragraph}"
        if name in self._names.deleted:
            self.deleted.append(raw)
        elif f"{paragraph_tag}>" in raw or f"{paragraph_tag} " in raw or has_description(raw):
            self.nested.append(raw)
        return Tag("void", raw, "\n" if name in self._names.breaks else "")


class Children:
    """The child elements of each element in a part of a document.

    The part is tokenised only once, whatever the depth of nesting.
    """

    def __init__(self, text: str, start: int, end: int) -> None:
        self._text = text
        self._tokens = list(xml_tokens(text, start, end))
        self._token_indices = {token.start: index for index, token in enumerate(self._tokens)}
        self._close_indices: dict[int, int] = {}
        open_tokens: list[int] = []
        for index, token in enumerate(self._tokens):
            if token.kind == "open":
                open_tokens.append(index)
            elif token.kind == "close" and open_tokens:
                self._close_indices[open_tokens.pop()] = index

    def find(self, start: int, end: int) -> Iterator[Element]:
        """Yield the top-level elements of a part; comments and processing instructions count as elements."""
        index = self._token_indices.get(start, len(self._tokens))
        while index < len(self._tokens) and (token := self._tokens[index]).start < end:
            close_index = self._close_indices.get(index)
            if close_index is not None:
                close_token = self._tokens[close_index]
                yield Element(token.name, token.start, token.end, close_token.start, close_token.end)
                index = close_index
            elif token.kind != "text" or self._text[token.start : token.end].strip():
                yield Element(token.name, token.start, token.end, token.end, token.end)
            index += 1


def _with_format_tags(items: Sequence[_Words | Tag], base: str, formats: dict[str, str]) -> Inline:
    """Return the words and tags as an :data:`Inline`, with tags around words whose format is not ``base``."""
    parts: list[str | Tag] = []
    current_format = base
    for item in items:
        format_ = current_format if isinstance(item, _Words) and item.text.isspace() else base
        if isinstance(item, _Words) and not item.text.isspace():
            format_ = item.format
        if format_ != current_format:
            if current_format != base:
                parts.append(Tag("close", FORMAT_END))
            if format_ != base:
                parts.append(Tag("open", f"<rPr>{formats[format_]}"))
            current_format = format_
        parts.append(item.text if isinstance(item, _Words) else item)
    if current_format != base:
        parts.append(Tag("close", FORMAT_END))
    return join_parts(parts)


def _write_run(text: str, properties: str, names: RunNames) -> str:
    words = f"<{names.text}{names.space}>{escape(text)}</{names.text}>"
    return f"<{names.run}>{properties}{words}</{names.run}>"


def _write(inline: Inline, base: str, names: RunNames) -> str:
    parts: list[str] = []
    formats = [base]
    for part in inline:
        if isinstance(part, str):
            parts.append(_write_run(part, formats[-1], names))
        elif part.raw.startswith("<rPr>"):
            formats.append(part.raw.removeprefix("<rPr>"))
        elif part.raw == FORMAT_END:
            if len(formats) > 1:
                formats.pop()
        else:
            parts.append(part.raw)
    return "".join(parts)
