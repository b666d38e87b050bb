"""HTML, a page or a fragment: blocks as texts with inline tags, and the attributes that people read.

No tree is built, and malformed HTML is accepted: every tag comes back as it was written. Runs of white space
are one space, as in a browser. Scanning takes time linear in the length of the text, whatever it is.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from uwaga.markup.inline import Inline, Tag, check_tags, joined, plain_text
from uwaga.markup.units import Fragment, Piece, escaping, text_unit, unpaired_void, writer
from uwaga.markup.xml import ATTRIBUTE, html_attributes

# ruff: noqa: SIM905 (a list of names is easier to read as one text)

INLINE = frozenset(
    "a abbr acronym b bdi bdo big br cite data del dfn em font i img ins label mark nobr q ruby rb rp rt s "
    "small span strike strong sub sup time u wbr".split()
)
"""Elements inside sentences; all others separate texts."""
BLOCKS = frozenset(
    "address article aside blockquote body caption center dd details dialog dir div dl dt fieldset "
    "figcaption figure footer form h1 h2 h3 h4 h5 h6 head header hr html legend li main menu nav ol option p "
    "section select summary table tbody td tfoot th thead title tr ul".split()
)
"""Elements that separate texts in messages; all others are inside sentences."""
NUMBERED = re.compile(r"[a-z]+[0-9]+")
"""The name of no element but a heading: tools write it for a tag, which is then inside a sentence."""
VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
KEPT = frozenset("code kbd samp var tt math svg object canvas".split())
"""Elements inside a sentence that are never translated."""
RAW = frozenset("script style xmp textarea noembed noframes plaintext".split())
"""Elements that are never translated and whose content is no markup."""
SKIPPED = RAW | frozenset("pre template listing".split())
"""Elements between texts that are never translated."""
READ = frozenset("title alt placeholder aria-label aria-description label summary abbr".split())
"""Attributes that people read."""
META = frozenset(
    "description keywords abstract subject og:title og:description og:site_name og:image:alt twitter:title "
    "twitter:description twitter:image:alt dc.title dc.description application-name "
    "apple-mobile-web-app-title".split()
)
"""Names of ``meta`` elements whose content people read."""
BUTTONS = frozenset(("submit", "button", "reset"))

START = re.compile(r"<(/?)([A-Za-z][^\s/<>]*)")
MESSAGE_START = re.compile(rf"{START.pattern[:-1]}|\d+(?=\s*/?>))")
"""The start of a tag in a message, where tags may have numbers for names."""
DECLARATION = re.compile(r"<[!?][^<>]*>")
REST = re.compile(r"[^<>]*>?")
UNQUOTED = re.compile(r"[^\"'<>]*")
SPACES = re.compile(r"[ \t\r\n\f]+")
NAME = re.compile(r"</?\s*([^\s/>]*)")
NO_CLASS = re.compile(r"(?:^|\s)(?:notranslate|skiptranslate)(?:\s|$)")
ENDLESS_NUMBER = re.compile(r"&#\d{1000,};?")
"""A character reference that is too long for Python's ``html.unescape``."""

TokenKind = Literal["open", "close", "empty", "raw", "other"]


class Token(NamedTuple):
    """A tag, comment or declaration; a ``raw`` token is a whole element, and ``inner`` ends its first tag."""

    kind: TokenKind
    name: str
    start: int
    end: int
    inner: int


def read_html(text: str, ignored: frozenset[str] = frozenset()) -> Fragment:
    """Read a string of HTML.

    Args:
        text: a fragment or a page.
        ignored: names of further elements that are never translated, in lower case.
    """
    return Fragment(tuple(html_pieces(text, ignored)))


def html_pieces(
    text: str, ignored: frozenset[str] = frozenset(), *, message: bool = False
) -> Iterator[Piece]:
    """Yield the pieces of a page or fragment.

    Args:
        text: the page or fragment.
        ignored: names of further elements that are never translated, in lower case.
        message: whether it is a message of a program, in which unknown elements, such as ``<0>``, are inside
            sentences, and white space counts.
    """
    return _Page(text, ignored, message).pieces()


def unescape(raw: str) -> str:
    """Replace character references as a browser does."""
    if "&" not in raw:
        return raw
    return html.unescape(ENDLESS_NUMBER.sub("\ufffd", raw) if "&#" in raw else raw)


class _Page:
    """The parts of the block that is open, and where it began."""

    def __init__(self, text: str, ignored: frozenset[str], message: bool) -> None:
        self._text, self._ignored, self._message = text, ignored | KEPT | SKIPPED, message
        self._parts: list[str | Tag] = []
        self._words: list[str] = []  # as they are written
        self._inner: dict[str, list[Piece]] = {}
        self._begun = 0

    def pieces(self) -> Iterator[Piece]:
        text, at = self._text, 0
        closes: dict[int, Token] | None = None
        for token in self._tokens():
            if token.start < at:
                continue
            self._add_words(at, token.start)
            raw, at = text[token.start : token.end], token.end
            last = token if token.kind == "raw" else None
            if token.kind == "open" and self._untranslated(token):
                if closes is None:  # tags before the first such element close none of them
                    closes = _closing_tags(self._tokens(token.start), self._untranslated)
                last = closes.get(token.start)
            if last is not None:
                at = last.end
                raw = text[token.start : at]
                if token.name in KEPT or self._inside(token.name):
                    inside = text[token.inner : last.start]
                    self._parts.append(Tag("kept", raw, "" if "<" in inside else unescape(inside)))
                else:
                    yield from self._block(token.start)
                    yield raw
                    self._begun = at
            elif token.kind == "other" or self._inside(token.name):
                self._add_tag(token, raw)
            else:
                yield from self._block(token.start)
                yield from _with_attributes(token, raw)
                self._begun = at
        self._add_words(at, len(text))
        yield from self._block(len(text))

    def _inside(self, name: str) -> bool:
        """Return whether an element is inside sentences."""
        if self._message or NUMBERED.fullmatch(name):
            return name not in BLOCKS | SKIPPED
        return name in INLINE

    def _tokens(self, position: int = 0) -> Iterator[Token]:
        return html_tokens(self._text, MESSAGE_START if self._message else START, position)

    def _untranslated(self, token: Token) -> bool:
        """Return whether an opening tag begins an element that is not translated."""
        return token.name in self._ignored or _is_untranslated(self._text[token.start : token.end])

    def _add_words(self, start: int, end: int) -> None:
        if start < end:
            raw = self._text[start:end]
            self._words.append(raw)
            words = unescape(raw)
            self._parts.append(words if self._message else SPACES.sub(" ", words))

    def _add_tag(self, token: Token, raw: str) -> None:
        check_tags(len(self._parts) // 2)
        if token.kind in ("open", "close"):
            self._parts.append(Tag("open" if token.kind == "open" else "close", raw))
        else:
            self._parts.append(Tag("void", raw, "\n" if token.name == "br" else ""))
        if raw not in self._inner:
            pieces = list(_with_attributes(token, raw))
            if pieces != [raw]:
                self._inner[raw] = pieces

    def _block(self, end: int) -> Iterator[Piece]:
        raw = self._text[self._begun : end]
        if raw:
            write = writer(escaping("".join(self._words), unescape))
            yield text_unit(raw, matched(joined(self._parts)), write, self._inner)
        self._parts, self._words, self._inner = [], [], {}


def html_tokens(text: str, start: re.Pattern[str] = START, position: int = 0) -> Iterator[Token]:
    """Yield the tags, comments and declarations of a text, in order.

    A tag that is never closed ends before the next ``<``. An element of :data:`RAW` is one token up to its
    closing tag, or to the end of the text.

    Args:
        text: the text.
        start: the pattern of the start of a tag.
        position: where to begin, outside tags.
    """
    finder = _Finder(text)
    ends = _TagEnds(text, finder)
    at = text.find("<", position)
    while at >= 0:
        token = _token(text, at, start, finder, ends)
        if token is not None:
            yield token
        at = text.find("<", at + 1 if token is None else token.end)


def _token(text: str, at: int, begin: re.Pattern[str], finder: _Finder, ends: _TagEnds) -> Token | None:
    if text.startswith("<!--", at):
        end = finder.end_of("-->", at + 2)
        return _other(at, len(text) if end is None else end)
    if text.startswith("<![CDATA[", at) and (end := finder.end_of("]]>", at)) is not None:
        return _other(at, end)
    if text[at + 1 : at + 2] in ("!", "?"):
        declaration = DECLARATION.match(text, at)
        return None if declaration is None else _other(at, declaration.end())
    start = begin.match(text, at)
    if start is None:
        # A slash begins what a browser takes for a comment; anything else is text.
        return _other(at, _rest(text, at)) if text.startswith("</", at) else None
    name = start[2].lower()
    if start[1]:
        end = _rest(text, start.end() - 1)
        return Token("close", name, at, end, end) if text[end - 1] == ">" else _other(at, end)
    end = ends.find(start.end())
    if end is None:
        return _other(at, _rest(text, start.end() - 1))
    if name in VOID or text[end - 2] == "/":
        return Token("empty", name, at, end, end)
    if name in RAW:
        return Token("raw", name, at, finder.end_of_element(name, end), end)
    return Token("open", name, at, end, end)


def _other(start: int, end: int) -> Token:
    return Token("other", "", start, end, end)


def _rest(text: str, at: int) -> int:
    rest = REST.match(text, at + 1)
    assert rest is not None
    return rest.end()


class _Finder:
    """Finds strings in a text, and remembers which do not occur any more."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._gone: set[str] = set()

    def end_of(self, string: str, at: int) -> int | None:
        """Return the end of the next occurrence, None if there is none."""
        start = -1 if string in self._gone else self._text.find(string, at)
        if start < 0:
            self._gone.add(string)
            return None
        return start + len(string)

    def end_of_element(self, name: str, at: int) -> int:
        """Return the end of the next closing tag of a name, or of the text."""
        close = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(self._text, at)
        end = None if close is None else self.end_of(">", close.end())
        return len(self._text) if end is None else end


class _TagEnds:
    """Finds the ends of tags, past the quotes of their attributes.

    Positions from which no end is reached are remembered: without that, a text of quotes that are never
    closed would be scanned again from each of its tags.
    """

    def __init__(self, text: str, finder: _Finder) -> None:
        self._text, self._finder = text, finder
        self._dead: set[int] = set()

    def find(self, at: int) -> int | None:
        """Return the end of the tag whose name ends at a position; None if the tag is never closed."""
        visited: list[int] = []
        while at not in self._dead:
            visited.append(at)
            plain = UNQUOTED.match(self._text, at)
            assert plain is not None
            stop = plain.end()
            character = self._text[stop : stop + 1]
            if character == ">":
                return stop + 1
            if not character or character == "<":
                break
            end = self._finder.end_of(character, stop + 1)
            if end is None:
                break
            at = end
        self._dead.update(visited)
        return None


def _closing_tags(tokens: Iterable[Token], is_chosen: Callable[[Token], bool]) -> dict[int, Token]:
    """Return the tags that close the chosen opening tags, by the places of these."""
    closes: dict[int, Token] = {}
    opened: dict[str, list[int]] = {}
    for token in tokens:
        if token.kind == "open":
            opened.setdefault(token.name, []).append(token.start if is_chosen(token) else -1)
        elif token.kind == "close" and opened.get(token.name):
            start = opened[token.name].pop()
            if start >= 0:
                closes[start] = token
    return closes


def matched(parts: Sequence[str | Tag]) -> Inline:
    """Return the same parts, in which opening and closing tags that make no pair of one name are void.

    A closing tag ends the nearest open tag of its name; tags opened between the two have no end.
    """
    paired: set[int] = set()
    opened: list[tuple[int, str]] = []
    counts: dict[str, int] = {}
    for at, part in enumerate(parts):
        if not isinstance(part, Tag) or part.kind not in ("open", "close"):
            continue
        match = NAME.match(part.raw)
        name = match[1].lower() if match else ""
        if part.kind == "open":
            opened.append((at, name))
            counts[name] = counts.get(name, 0) + 1
        elif counts.get(name):
            while opened:
                start, other = opened.pop()
                counts[other] -= 1
                if other == name:
                    paired |= {start, at}
                    break
    return unpaired_void(parts, paired)


def _is_untranslated(raw: str) -> bool:
    """Return whether a tag says that its content is not to be translated."""
    if "translate" not in raw:
        return False
    values = html_attributes(raw)
    return values.get("translate", "").lower() == "no" or bool(NO_CLASS.search(values.get("class", "")))


def _with_attributes(token: Token, raw: str) -> Iterator[Piece]:
    """Yield a tag, the attributes of which that people read are units."""
    at = 0
    seen = set[str]()
    names = _read_names(token, raw)
    for attribute in ATTRIBUTE.finditer(raw) if names else ():
        name, group = attribute[1].lower(), attribute.lastindex
        if name not in names or name in seen or group not in (2, 3):
            continue
        seen.add(name)
        value = attribute[group]
        quotes = {'"': "&quot;"} if group == 2 else {"'": "&#39;"}
        escape = escaping(value, unescape, quotes)
        yield raw[at : attribute.start(group)]
        yield text_unit(value, (unescape(value),), lambda made, escape=escape: escape(plain_text(made)))  # type: ignore[misc]
        at = attribute.end(group)
    yield raw[at:]


def _read_names(token: Token, raw: str) -> frozenset[str]:
    """Return the names of a tag's attributes that people read."""
    if token.kind not in ("open", "empty") or "=" not in raw or token.name == "link" or _is_untranslated(raw):
        return frozenset()
    if token.name == "meta":
        values = {name: value.lower() for name, value in html_attributes(raw).items()}
        return frozenset({"content"} if (values.get("name") or values.get("property")) in META else ())
    if token.name == "input" and html_attributes(raw).get("type", "").lower() in BUTTONS:
        return READ | {"value"}
    return READ
