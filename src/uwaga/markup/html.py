"""HTML pages and fragments: blocks as texts with inline tags, and attributes with human-readable text.

No tree is built, and malformed HTML is accepted: every tag is written back unchanged. Runs of white space are
collapsed to a space, as in a browser. Scanning takes linear time for any text.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from uwaga.markup.inline import Inline, Tag, check_tag_count, join_parts, plain_text
from uwaga.markup.units import (
    MARKUP,
    Fragment,
    Piece,
    make_escape,
    make_writer,
    text_unit,
    untranslated,
    void_unpaired_tags,
)
from uwaga.markup.xml import ATTRIBUTE, html_attributes

# ruff: noqa: SIM905 (a list of names is easier to read as one string)

INLINE_ELEMENTS = frozenset(
    "a abbr acronym b bdi bdo big br cite data del dfn em font i img ins label mark nobr q ruby rb rp rt s "
    "small span strike strong sub sup time u wbr".split()
)
"""Elements that occur within sentences; all other elements separate texts."""
BLOCK_ELEMENTS = frozenset(
    "address article aside blockquote body caption center dd details dialog dir div dl dt fieldset "
    "figcaption figure footer form h1 h2 h3 h4 h5 h6 head header hr html legend li main menu nav ol option p "
    "section select summary table tbody td tfoot th thead title tr ul".split()
)
"""Elements that separate texts in messages; all other elements occur within sentences."""
NUMBERED_NAME = re.compile(r"[a-z]+[0-9]+")
"""An element name that ends in a number: that of a heading, or of a tool's placeholder within a sentence."""
VOID_ELEMENTS = frozenset("area base br col embed hr img input link meta param source track wbr".split())
UNTRANSLATED_INLINE = frozenset("code kbd samp var tt math svg object canvas".split())
"""Elements that occur within sentences and are never translated."""
RAW_ELEMENTS = frozenset("script style xmp textarea noembed noframes plaintext".split())
"""Elements that are never translated and whose content is not markup."""
UNTRANSLATED_BLOCKS = RAW_ELEMENTS | frozenset("pre template listing".split())
"""Elements that separate texts and are never translated."""
SCRIPT_ELEMENTS = frozenset(("script", "style"))
"""Elements whose content readers do not see."""
RUBY_ANNOTATIONS = frozenset(("rt", "rp", "rtc"))
"""Elements that annotate ruby base text, for example with its pronunciation; they are copied."""
TEXT_ATTRIBUTES = frozenset("title alt placeholder aria-label aria-description label summary abbr".split())
"""Attributes with human-readable text."""
TEXT_META_NAMES = frozenset(
    "description keywords abstract subject og:title og:description og:site_name og:image:alt twitter:title "
    "twitter:description twitter:image:alt dc.title dc.description application-name "
    "apple-mobile-web-app-title".split()
)
"""Names of ``meta`` elements with human-readable text."""
BUTTON_TYPES = frozenset(("submit", "button", "reset"))

TAG_START = re.compile(r"<(/?)([A-Za-z][^\s/<>]*)")
MESSAGE_TAG_START = re.compile(rf"{TAG_START.pattern[:-1]}|\d+(?=\s*/?>))")
"""The start of a tag in a message, where the name may be a number."""
DECLARATION = re.compile(r"<[!?][^<>]*>")
TAG_REST = re.compile(r"[^<>]*>?")
UNQUOTED_CHARACTERS = re.compile(r"[^\"'<>]*")
WHITESPACE = re.compile(r"[ \t\r\n\f]+")
TAG_NAME = re.compile(r"</?\s*([^\s/>]*)")
UNTRANSLATED_CLASS = re.compile(r"(?:^|\s)(?:notranslate|skiptranslate)(?:\s|$)")
LONG_REFERENCE = re.compile(r"&#\d{1000,};?")
"""A character reference that is too long for Python's ``html.unescape``."""

TokenKind = Literal["open", "close", "empty", "raw", "other"]


class Token(NamedTuple):
    """A tag, comment or declaration, from ``start`` to ``end``.

    A ``raw`` token is an entire element; its opening tag ends at ``inner``, which otherwise equals ``end``.
    """

    kind: TokenKind
    name: str
    start: int
    end: int
    inner: int


def read_html(text: str, ignored_elements: frozenset[str] = frozenset()) -> Fragment:
    """Read a string of HTML.

    Args:
        text: a fragment or a page.
        ignored_elements: names of further elements that are never translated, in lower case.
    """
    return Fragment(tuple(html_pieces(text, ignored_elements)))


def html_pieces(
    text: str, ignored_elements: frozenset[str] = frozenset(), *, message: bool = False
) -> Iterator[Piece]:
    """Yield the pieces of a page or fragment.

    Args:
        text: the page or fragment.
        ignored_elements: names of further elements that are never translated, in lower case.
        message: whether the text is a string of a user interface, in which unknown elements, such as ``<0>``,
            occur within sentences, and white space is significant.
    """
    return _HtmlReader(text, ignored_elements, message).pieces()


def unescape(raw: str) -> str:
    """Return a text with its character references replaced, as a browser does."""
    if "&" not in raw:
        return raw
    return html.unescape(LONG_REFERENCE.sub("\ufffd", raw) if "&#" in raw else raw)


class _HtmlReader:
    """A reader of the blocks of a page; it stores the parts and the start of the current block."""

    def __init__(self, text: str, ignored_elements: frozenset[str], message: bool) -> None:
        self._text = text
        self._ignored = ignored_elements | UNTRANSLATED_INLINE | UNTRANSLATED_BLOCKS
        self._message = message
        self._parts: list[str | Tag] = []
        self._raw_words: list[str] = []  # the words with their character references
        self._attribute_pieces: dict[str, list[Piece]] = {}
        self._block_start = 0

    def pieces(self) -> Iterator[Piece]:
        text, position = self._text, 0
        closing_tags: dict[int, Token] | None = None
        annotation_ends: dict[int, int] | None = None
        for token in self._tokens():
            if token.start < position:
                continue
            self._add_words(position, token.start)
            raw, position = text[token.start : token.end], token.end
            if token.kind == "open" and token.name in RUBY_ANNOTATIONS:
                if annotation_ends is None:
                    annotation_ends = _annotation_ends(self._tokens(token.start))
                position = annotation_ends.get(token.start, len(text))
                self._parts.append(Tag("void", text[token.start : position]))
                continue
            closing_token = token if token.kind == "raw" else None
            if token.kind == "open" and self._starts_untranslated(token):
                if closing_tags is None:  # tags before the first such element cannot close one
                    closing_tags = _closing_tags(self._tokens(token.start), self._starts_untranslated)
                closing_token = closing_tags.get(token.start)
            if closing_token is not None:
                position = closing_token.end
                raw = text[token.start : position]
                if token.name in UNTRANSLATED_INLINE or self._is_inline(token.name):
                    content = text[token.inner : closing_token.start]
                    self._parts.append(Tag("kept", raw, "" if "<" in content else unescape(content)))
                else:
                    yield from self._block(token.start)
                    yield _untranslated_element(token, raw)
                    self._block_start = position
            elif token.kind == "other" or self._is_inline(token.name):
                self._add_tag(token, raw)
            else:
                yield from self._block(token.start)
                yield from _tag_pieces(token, raw)
                self._block_start = position
        self._add_words(position, len(text))
        yield from self._block(len(text))

    def _is_inline(self, name: str) -> bool:
        """Return whether an element occurs within sentences."""
        if self._message or NUMBERED_NAME.fullmatch(name):
            return name not in BLOCK_ELEMENTS | UNTRANSLATED_BLOCKS
        return name in INLINE_ELEMENTS

    def _tokens(self, position: int = 0) -> Iterator[Token]:
        return html_tokens(self._text, MESSAGE_TAG_START if self._message else TAG_START, position)

    def _starts_untranslated(self, token: Token) -> bool:
        """Return whether an opening tag starts an element that is not translated."""
        return token.name in self._ignored or _has_untranslated_attribute(self._text[token.start : token.end])

    def _add_words(self, start: int, end: int) -> None:
        if start < end:
            raw = self._text[start:end]
            self._raw_words.append(raw)
            self._parts.append(unescape(raw))

    def _add_tag(self, token: Token, raw: str) -> None:
        check_tag_count(len(self._parts) // 2)
        if token.kind in ("open", "close"):
            self._parts.append(Tag("open" if token.kind == "open" else "close", raw))
        else:
            self._parts.append(Tag("void", raw, "\n" if token.name == "br" else ""))
        if raw not in self._attribute_pieces:
            pieces = list(_tag_pieces(token, raw))
            if pieces != [raw]:
                self._attribute_pieces[raw] = pieces

    def _block(self, end: int) -> Iterator[Piece]:
        raw = self._text[self._block_start : end]
        if raw:
            write = make_writer(make_escape("".join(self._raw_words), unescape))
            yield text_unit(
                raw,
                match_tags(join_parts(self._parts)),
                write,
                self._attribute_pieces,
                None if self._message else WHITESPACE,
            )
        self._parts, self._raw_words, self._attribute_pieces = [], [], {}


def html_tokens(text: str, start: re.Pattern[str] = TAG_START, position: int = 0) -> Iterator[Token]:
    """Yield the tags, comments and declarations of a text, in order.

    A tag without ``>`` ends before the next ``<``. An element of :data:`RAW_ELEMENTS` is one token, up to its
    closing tag or the end of the text.

    Args:
        text: the text.
        start: the pattern of the start of a tag.
        position: the start of the scan, outside tags.
    """
    finder = _Finder(text)
    tag_ends = _TagEnds(text, finder)
    index = text.find("<", position)
    while index >= 0:
        token = _token(text, index, start, finder, tag_ends)
        if token is not None:
            yield token
        index = text.find("<", index + 1 if token is None else token.end)


def _token(
    text: str, position: int, start_pattern: re.Pattern[str], finder: _Finder, tag_ends: _TagEnds
) -> Token | None:
    if text.startswith("<!--", position):
        end = finder.find_end("-->", position + 2)
        return _other_token(position, len(text) if end is None else end)
    if text.startswith("<![CDATA[", position) and (end := finder.find_end("]]>", position)) is not None:
        return _other_token(position, end)
    if text[position + 1 : position + 2] in ("!", "?"):
        declaration = DECLARATION.match(text, position)
        return None if declaration is None else _other_token(position, declaration.end())
    match = start_pattern.match(text, position)
    if match is None:
        # A browser treats "</" without a name as a comment; anything else is text.
        return _other_token(position, _tag_end(text, position)) if text.startswith("</", position) else None
    name = match[2].lower()
    if match[1]:
        end = _tag_end(text, match.end() - 1)
        return (
            Token("close", name, position, end, end) if text[end - 1] == ">" else _other_token(position, end)
        )
    end = tag_ends.find(match.end())
    if end is None:
        return _other_token(position, _tag_end(text, match.end() - 1))
    if name in VOID_ELEMENTS or text[end - 2] == "/":
        return Token("empty", name, position, end, end)
    if name in RAW_ELEMENTS:
        return Token("raw", name, position, finder.find_element_end(name, end), end)
    return Token("open", name, position, end, end)


def _other_token(start: int, end: int) -> Token:
    return Token("other", "", start, end, end)


def _tag_end(text: str, position: int) -> int:
    match = TAG_REST.match(text, position + 1)
    assert match is not None
    return match.end()


class _Finder:
    """A scanner of a text, which remembers the strings that do not occur again."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._missing: set[str] = set()

    def find_end(self, string: str, position: int) -> int | None:
        """Return the end of the next occurrence of a string, or None if the string does not occur again."""
        start = -1 if string in self._missing else self._text.find(string, position)
        if start < 0:
            self._missing.add(string)
            return None
        return start + len(string)

    def find_element_end(self, name: str, position: int) -> int:
        """Return the end of the next closing tag of an element, or of the text."""
        closing_tag = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(self._text, position)
        end = None if closing_tag is None else self.find_end(">", closing_tag.end())
        return len(self._text) if end is None else end


class _TagEnds:
    """A scanner that finds the ends of tags and skips quoted attribute values.

    Positions from which no end is reached are recorded. Otherwise a text with unclosed quotes would be
    scanned again from each of its tags.
    """

    def __init__(self, text: str, finder: _Finder) -> None:
        self._text, self._finder = text, finder
        self._unclosed: set[int] = set()

    def find(self, position: int) -> int | None:
        """Return the end of the tag whose name ends at a position; None if the tag has no end."""
        visited_positions: list[int] = []
        while position not in self._unclosed:
            visited_positions.append(position)
            unquoted_match = UNQUOTED_CHARACTERS.match(self._text, position)
            assert unquoted_match is not None
            unquoted_end = unquoted_match.end()
            character = self._text[unquoted_end : unquoted_end + 1]
            if character == ">":
                return unquoted_end + 1
            if not character or character == "<":
                break
            end = self._finder.find_end(character, unquoted_end + 1)
            if end is None:
                break
            position = end
        self._unclosed.update(visited_positions)
        return None


def _closing_tags(tokens: Iterable[Token], is_relevant: Callable[[Token], bool]) -> dict[int, Token]:
    """Return the tags that close the relevant opening tags, by the positions of the opening tags."""
    closing_tags: dict[int, Token] = {}
    open_tags: dict[str, list[int]] = {}
    for token in tokens:
        if token.kind == "open":
            open_tags.setdefault(token.name, []).append(token.start if is_relevant(token) else -1)
        elif token.kind == "close" and open_tags.get(token.name):
            start = open_tags[token.name].pop()
            if start >= 0:
                closing_tags[start] = token
    return closing_tags


def _annotation_ends(tokens: Iterable[Token]) -> dict[int, int]:
    """Return the end of each ruby annotation by its start; most annotations need no closing tag."""
    ends: dict[int, int] = {}
    start, name = -1, ""
    for token in tokens:
        if start >= 0 and token.kind == "close" and token.name in (name, "ruby", "rtc"):
            ends[start] = token.end if token.name == name else token.start
            start = -1
        elif token.kind == "open" and (token.name in RUBY_ANNOTATIONS or token.name == "rb"):
            if start >= 0 and name != "rtc":
                ends[start] = token.start
                start = -1
            if start < 0 and token.name != "rb":
                start, name = token.start, token.name
    return ends


def _untranslated_element(token: Token, raw: str) -> str:
    """Return the piece for an element that is never translated."""
    if token.name in SCRIPT_ELEMENTS:
        return raw
    reason = "code and forms" if token.name in UNTRANSLATED_BLOCKS else "marked as not to be translated"
    return untranslated(raw, reason, MARKUP.sub("", raw))


def match_tags(parts: Sequence[str | Tag]) -> Inline:
    """Return the parts with each opening or closing tag that has no partner turned into a void tag.

    A closing tag closes the nearest open tag of its name; tags opened in between remain unpaired.
    """
    paired_indices: set[int] = set()
    open_tags: list[tuple[int, str]] = []
    counts: dict[str, int] = {}
    for index, part in enumerate(parts):
        if not isinstance(part, Tag) or part.kind not in ("open", "close"):
            continue
        match = TAG_NAME.match(part.raw)
        name = match[1].lower() if match else ""
        if part.kind == "open":
            open_tags.append((index, name))
            counts[name] = counts.get(name, 0) + 1
        elif counts.get(name):
            while open_tags:
                start, other_name = open_tags.pop()
                counts[other_name] -= 1
                if other_name == name:
                    paired_indices |= {start, index}
                    break
    return void_unpaired_tags(parts, paired_indices)


def _has_untranslated_attribute(raw: str) -> bool:
    """Return whether the attributes of a tag mark its content as not to be translated."""
    if "translate" not in raw:
        return False
    values = html_attributes(raw)
    return values.get("translate", "").lower() == "no" or bool(
        UNTRANSLATED_CLASS.search(values.get("class", ""))
    )


def tag_pieces(raw: str) -> list[Piece]:
    """Return the pieces of a tag, or an empty list if it has no attribute with human-readable text."""
    token = next(html_tokens(raw), None)
    pieces = [] if token is None or token.end != len(raw) else list(_tag_pieces(token, raw))
    return [] if pieces == [raw] else pieces


def _tag_pieces(token: Token, raw: str) -> Iterator[Piece]:
    """Yield the pieces of a tag, in which attributes with human-readable text are units."""
    position = 0
    processed_names = set[str]()
    names = _text_attributes(token, raw)
    for attribute in ATTRIBUTE.finditer(raw) if names else ():
        name, group = attribute[1].lower(), attribute.lastindex
        if name not in names or name in processed_names or group not in (2, 3):
            continue
        processed_names.add(name)
        value = attribute[group]
        quotes = {'"': "&quot;"} if group == 2 else {"'": "&#39;"}
        escape = make_escape(value, unescape, quotes)
        yield raw[position : attribute.start(group)]
        yield text_unit(value, (unescape(value),), lambda inline, escape=escape: escape(plain_text(inline)))  # type: ignore[misc]
        position = attribute.end(group)
    yield raw[position:]


def _text_attributes(token: Token, raw: str) -> frozenset[str]:
    """Return the names of the attributes in which a tag may have human-readable text."""
    if (
        token.kind not in ("open", "empty")
        or "=" not in raw
        or token.name == "link"
        or _has_untranslated_attribute(raw)
    ):
        return frozenset()
    if token.name == "meta":
        values = {name: value.lower() for name, value in html_attributes(raw).items()}
        return frozenset(
            {"content"} if (values.get("name") or values.get("property")) in TEXT_META_NAMES else ()
        )
    if token.name == "input" and html_attributes(raw).get("type", "").lower() in BUTTON_TYPES:
        return TEXT_ATTRIBUTES | {"value"}
    return TEXT_ATTRIBUTES
