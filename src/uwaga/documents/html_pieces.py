"""The texts of HTML: blocks with their inline tags, titles, and what pages say of themselves.

No tree is built: a page that is not well-formed comes back as it was, tag by tag.
"""

from __future__ import annotations

import html
import re
from collections.abc import Generator, Iterator
from typing import Literal, NamedTuple

from uwaga.documents.document import Piece, balanced, joined, nested_unit, text_unit
from uwaga.documents.tags import attribute_span
from uwaga.documents.xml import escape, escape_attribute
from uwaga.markup import Inline, Tag, plain_text
from uwaga.markup.tag_attributes import INSIDE, html_attributes

# ruff: noqa: SIM905 (a list of names is easier to read as one text)

INLINE = frozenset(
    "a abbr acronym b bdi bdo big br cite data del dfn em font i img ins label mark nobr q ruby rb rp rt s "
    "small span strike strong sub sup time tt u wbr".split()
)
KEPT = frozenset("code kbd samp var math svg tt object canvas".split())
"""Elements inside a text that are never translated."""
SKIPPED = frozenset("script style pre template noembed noframes xmp listing plaintext".split())
"""Elements between texts that are never translated."""
RAW = frozenset("script style xmp noembed noframes plaintext".split())
"""Elements whose content is no markup."""
VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
WORDS = ("title", "alt", "placeholder", "aria-label", "aria-description", "label", "summary", "abbr")
"""Attributes that are read by people."""
META = frozenset(
    "description keywords abstract subject og:title og:description og:site_name og:image:alt twitter:title "
    "twitter:description twitter:image:alt dc.title dc.description application-name "
    "apple-mobile-web-app-title".split()
)
BUTTONS = frozenset(("submit", "button", "reset"))
TOKEN = re.compile(
    r"<!--.*?(?:-->|$)|<!\[CDATA\[.*?\]\]>|<[!?][^<>]*>"
    r"|</([A-Za-z][^\s/<>]*)[^<>]*>"
    rf"|<([A-Za-z][^\s/<>]*){INSIDE}>"
    r"|<[A-Za-z/][^<>]*>?",
    re.DOTALL,
)
SPACES = re.compile(r"[ \t\r\n\f]+")
NO_CLASS = re.compile(r"(?:^|\s)(?:notranslate|skiptranslate)(?:\s|$)")
Kind = Literal["open", "close", "empty", "other"]


class _Tag(NamedTuple):
    kind: Kind
    name: str
    raw: str
    start: int
    end: int


def html_pieces(text: str) -> Iterator[Piece]:
    """The pieces of a page, one after the other."""
    return _Page(text).pieces()


class _Page:
    """A page on its way: the parts of the block that is open, and where it began."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._parts: list[str | Tag] = []
        self._inner: dict[str, list[Piece]] = {}
        self._begun = 0
        self._endless: set[str] = set()

    def pieces(self) -> Iterator[Piece]:
        at = 0
        tokens = _tags(self._text)
        for tag in tokens:
            self._words(at, tag.start)
            at = tag.end
            end = self._end_of_kept(tag)
            if end is not None:
                at = end
                tokens.send(at)
                raw = self._text[tag.start : at]
                if tag.name in SKIPPED or (tag.name not in INLINE and tag.name not in KEPT):
                    yield from self._block(tag.start)
                    yield raw
                    self._begun = at
                else:
                    self._parts.append(
                        Tag("kept", raw, "" if "<" in _inside(raw) else html.unescape(_inside(raw)))
                    )
            elif tag.kind == "other" or tag.name in INLINE:
                self._add(tag)
            else:
                yield from self._block(tag.start)
                yield from _with_attributes(tag)
                self._begun = at
        self._words(at, len(self._text))
        yield from self._block(len(self._text))

    def _end_of_kept(self, tag: _Tag) -> int | None:
        """Where an element ends that is left alone; None of all others, and where nothing ends it."""
        left_alone = tag.name in KEPT or tag.name in SKIPPED or _is_kept(tag.raw)
        if tag.kind != "open" or not left_alone or tag.name in self._endless:
            return None
        end = _end_of(self._text, tag)
        if end is None:
            self._endless.add(tag.name)
        return end

    def _words(self, start: int, end: int) -> None:
        if start < end:
            self._parts.append(SPACES.sub(" ", html.unescape(self._text[start:end])))

    def _add(self, tag: _Tag) -> None:
        if tag.kind == "other":
            kind: Literal["open", "close", "void"] = "void"
        else:
            kind = "void" if tag.kind == "empty" else tag.kind
            pieces = list(_with_attributes(tag))
            if pieces != [tag.raw]:
                self._inner[tag.raw] = pieces
        self._parts.append(Tag(kind, tag.raw, "\n" if tag.name == "br" else ""))

    def _block(self, end: int) -> Iterator[Piece]:
        raw = self._text[self._begun : end]
        if raw:
            yield nested_unit(raw, _matched(joined(self._parts)), self._inner, write_inline)
        self._parts, self._inner = [], {}


def _tags(text: str) -> Generator[_Tag, int | None, None]:
    """All tags of a page; what is sent is where to go on."""
    at = 0
    while (found := TOKEN.search(text, at)) is not None:
        closing, opening = found.groups()
        raw, at = found[0], found.end()
        if closing:
            tag = _Tag("close", closing.lower(), raw, found.start(), at)
        elif opening:
            name = opening.lower()
            kind: Kind = "empty" if name in VOID or raw.endswith("/>") else "open"
            tag = _Tag(kind, name, raw, found.start(), at)
        else:
            tag = _Tag("other", "", raw, found.start(), at)
        further = yield tag
        if further is not None:
            at = further
            yield tag


def _is_kept(raw: str) -> bool:
    """Whether a tag says that what it holds is not to be translated."""
    if "translate" not in raw:
        return False
    named = html_attributes(raw)
    return named.get("translate", "").lower() == "no" or bool(NO_CLASS.search(named.get("class", "")))


def _end_of(text: str, tag: _Tag) -> int | None:
    """Where an element ends; scripts and their like do at the end of the page, others may never."""
    if tag.name in RAW:
        found = re.compile(rf"</{re.escape(tag.name)}[^>]*>", re.IGNORECASE).search(text, tag.end)
        return found.end() if found else len(text)
    depth, at = 1, tag.end
    while (found := TOKEN.search(text, at)) is not None:
        at = found.end()
        name = (found[1] or found[2] or "").lower()
        if name != tag.name:
            continue
        if found[1]:
            depth -= 1
        elif not found[0].endswith("/>"):
            depth += 1
        if not depth:
            return at
    return None


def _inside(raw: str) -> str:
    return raw[raw.find(">") + 1 : raw.rfind("<")]


def _with_attributes(tag: _Tag) -> Iterator[Piece]:
    """A tag, the texts in whose attributes are units."""
    spans = sorted(span for name in _read_names(tag) if (span := attribute_span(tag.raw, name)) is not None)
    at = 0
    for start, end in spans:
        value = tag.raw[start:end]
        quote = tag.raw[start - 1]
        if quote not in "\"'":
            continue
        yield tag.raw[at:start]
        yield text_unit(
            value,
            (html.unescape(value),),
            lambda made, quote=quote: escape_attribute(plain_text(made), quote),  # type: ignore[misc]
        )
        at = end
    yield tag.raw[at:]


def _read_names(tag: _Tag) -> tuple[str, ...]:
    if tag.kind == "close" or "=" not in tag.raw or _is_kept(tag.raw):
        return ()
    if tag.name == "meta":
        named = {name: value.lower() for name, value in html_attributes(tag.raw).items()}
        asked = named.get("name") or named.get("property") or ""
        return ("content",) if asked in META else ()
    if tag.name == "input" and html_attributes(tag.raw).get("type", "").lower() in BUTTONS:
        return (*WORDS, "value")
    return WORDS if tag.name != "link" else ()


def _matched(inline: Inline) -> Inline:
    """Tags that close what was opened under the same name; all others stand at places of their own."""
    kinds: dict[int, bool] = {}
    opened: list[tuple[int, str]] = []
    for at, part in enumerate(inline):
        if not isinstance(part, Tag):
            continue
        name = re.match(r"</?([^\s/>]*)", part.raw)
        word = name[1].lower() if name else ""
        if part.kind == "open":
            opened.append((at, word))
        elif part.kind == "close" and any(word == one for _, one in opened):
            while opened:
                start, one = opened.pop()
                if one == word:
                    kinds[start] = kinds[at] = True
                    break
    parts = (
        Tag("void", part.raw, part.text)
        if isinstance(part, Tag) and part.kind in ("open", "close") and at not in kinds
        else part
        for at, part in enumerate(inline)
    )
    return balanced(tuple(parts))


def write_inline(inline: Inline) -> str:
    """An inline as HTML and XML write it."""
    return "".join(part.raw if isinstance(part, Tag) else escape(part) for part in inline)
