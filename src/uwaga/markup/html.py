"""HTML in a string: its blocks as texts with tags, everything else as it was written, soup too.

No tree is built. A tag that nothing closes, and a close without its open, stand at places of their own; what
looks like a tag and is none is text. Outside ``pre`` runs of white space are one space, as a browser has it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import NamedTuple

from uwaga.markup.fragments import Attribute, Fragment, TextUnit, escaping
from uwaga.markup.inline import Tag, TagKind
from uwaga.markup.matching import matched
from uwaga.markup.tag_attributes import ATTRIBUTE, INSIDE, html_attributes

# ruff: noqa: SIM905 (names are easier to read as one text)

INLINE = frozenset(
    "a abbr acronym b bdi bdo big br cite data del dfn em font i img ins label mark nobr q ruby rb rp rt s "
    "small span strike strong sub sup time u wbr".split()
)
"""Elements inside sentences; all others part them."""
ALONE = frozenset("area base br col embed hr img input link meta param source track wbr".split())
LEFT_ALONE = frozenset(
    "code kbd samp var tt math svg script style pre template textarea noembed noframes object canvas".split()
)
RAW = frozenset(("script", "style", "textarea", "noembed", "noframes"))
"""Elements whose content is no markup."""
SENTENCE = frozenset("code kbd samp var tt math svg".split())
"""Of those left alone the ones that are words of a sentence."""
READ = ("alt", "title", "placeholder", "aria-label", "aria-description")
"""Attributes that people read."""
TOKEN = re.compile(
    r"<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<[!?][^<>]*>"
    rf"|<(?P<slash>/?)(?P<name>[A-Za-z][^\s/<>]*){INSIDE}>",
    re.DOTALL,
)
SPACES = re.compile(r"[ \t\r\n\f]+")
UNTRANSLATED = re.compile(r"(?:^|\s)(?:notranslate|skiptranslate)(?:\s|$)")


class _Token(NamedTuple):
    """A tag, comment or declaration."""

    name: str
    kind: TagKind
    raw: str
    start: int
    end: int


def read_html(text: str, ignored: frozenset[str] = frozenset()) -> Fragment:
    """A string of HTML taken apart.

    Args:
        text: a fragment or a page.
        ignored: names of further elements to leave alone.
    """
    return _Reading(text, ignored).fragment()


class _Reading:
    """A string on its way: the parts of the text that is open, and what is done."""

    def __init__(self, text: str, ignored: frozenset[str]) -> None:
        self._text = text
        self._ignored = ignored | LEFT_ALONE
        self._open: list[str | Tag] = []
        self._begun = 0
        self._done: list[str | Tag | TextUnit] = []
        self._attributes: dict[str, list[Attribute]] = {}
        self._endless: set[str] = set()

    def fragment(self) -> Fragment:
        at = 0
        while (token := _next_tag(self._text, at)) is not None:
            self._words(at, token.start)
            at = self._end_of_kept(token) or token.end
            if at > token.end:
                self._keep(token, at)
            elif token.name in INLINE or not token.name:
                self._note(token)
                self._open.append(Tag(token.kind, token.raw, "\n" if token.name == "br" else ""))
            else:
                self._close(token.start)
                self._note(token)
                self._done.append(Tag(token.kind, token.raw))
                self._begun = token.end
        self._words(at, len(self._text))
        self._close(len(self._text))
        return Fragment(tuple(self._done), self._attributes)

    def _keep(self, token: _Token, end: int) -> None:
        """Leave an element alone, in its sentence or between two."""
        raw = self._text[token.start : end]
        inside = self._text[token.end : max(raw.rfind("<") + token.start, token.end)]
        if token.name in SENTENCE or token.name in INLINE:
            self._open.append(Tag("kept", raw, "" if "<" in inside else unescape(inside)))
            return
        self._close(token.start)
        self._done.append(raw)
        self._begun = end

    def _words(self, start: int, end: int) -> None:
        if start < end:
            self._open.append(unescape(SPACES.sub(" ", self._text[start:end])))

    def _close(self, end: int) -> None:
        """End the text that is open."""
        raw = self._text[self._begun : end]
        inline = matched(self._open)
        if any(isinstance(part, str) and not part.isspace() for part in inline):
            words = TOKEN.sub("", raw)
            self._done.append(TextUnit(inline, escaping(words, unescape)))
        elif raw:
            self._done += self._as_written(raw)
        self._open, self._begun = [], end

    def _as_written(self, raw: str) -> Iterator[str | Tag]:
        at = 0
        for found in TOKEN.finditer(raw):
            yield raw[at : found.start()]
            yield Tag("void", found.group())
            at = found.end()
        yield raw[at:]

    def _note(self, token: _Token) -> None:
        """Note the texts in the attributes of a tag."""
        if token.kind == "close" or "=" not in token.raw or token.raw in self._attributes:
            return
        named = html_attributes(token.raw)
        read: tuple[str, ...] = READ
        if token.name == "input" and named.get("type", "").lower() in ("submit", "button", "reset"):
            read = (*READ, "value")
        own = []
        for found in ATTRIBUTE.finditer(token.raw):
            group = found.lastindex or 0
            value = found.group(group)
            if found[1].lower() in read and group in (2, 3) and not value.isspace() and value:
                quotes = {'"': "&quot;"} if group == 2 else {"'": "&#39;"}
                escape = escaping(value, unescape, quotes)
                own.append(Attribute(*found.span(group), unescape(value), escape))
        if own:
            self._attributes[token.raw] = own

    def _end_of_kept(self, token: _Token) -> int | None:
        """Where an element ends that is left alone; None of all others, and of one that nothing ends."""
        if token.kind != "open" or token.name in self._endless:
            return None
        if token.name not in self._ignored and not _left_alone(token.raw):
            return None
        end = _end_of(self._text, token)
        if end is None:
            self._endless.add(token.name)
        return end


def _next_tag(text: str, at: int) -> _Token | None:
    found = TOKEN.search(text, at)
    if found is None:
        return None
    name = (found["name"] or "").lower()
    alone = not name or name in ALONE or found.group().endswith("/>")
    kind: TagKind = "close" if found["slash"] else "void" if alone else "open"
    return _Token(name, kind, found.group(), *found.span())


def _left_alone(raw: str) -> bool:
    """Whether a tag says that nothing in it is to be translated."""
    if "translate" not in raw:
        return False
    named = html_attributes(raw)
    return named.get("translate", "").lower() == "no" or bool(UNTRANSLATED.search(named.get("class", "")))


def _end_of(text: str, token: _Token) -> int | None:
    depth, at = 1, token.end
    if token.name in RAW:
        found = re.compile(rf"</{re.escape(token.name)}\b[^>]*>", re.IGNORECASE).search(text, at)
        return None if found is None else found.end()
    while (one := _next_tag(text, at)) is not None:
        at = one.end
        if one.name == token.name:
            depth += {"open": 1, "close": -1}.get(one.kind, 0)
        if not depth:
            return at
    return None
