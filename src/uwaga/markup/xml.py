"""Reading of XML as tokens instead of a tree, so that every byte outside the texts stays unchanged.

The text must be well-formed, as checked by :func:`uwaga_documents.encodings.xml_text` and
:func:`uwaga.markup.xml_text.check_xml`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from html.entities import name2codepoint
from typing import Literal, NamedTuple

from uwaga.markup.inline import Inline, Tag, check_tag_count, join_parts, plain_text
from uwaga.markup.units import FORBIDDEN_CHARACTER, Piece, make_writer, text_unit, untranslated

ATTRIBUTE = re.compile(r"""(?<=[\s"'])([^\s"'<>/=]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'=<>`]+))""")
"""The name of an attribute, and its value in double quotes, in single quotes or without quotes."""
TOKEN = re.compile(
    r"(?P<comment><!--.*?-->)|(?P<cdata><!\[CDATA\[.*?\]\]>)"
    r"|(?P<other><\?.*?\?>|<!(?>(?:[^\[>\"']++|\"[^\"]*+\"|'[^']*+'|\[.*?\]\s*(?=>))*)>)"
    r"""|</(?P<close>[^\s<>/]++)\s*>|<(?P<open>[^\s<>/!?"']++)(?>(?:[^"'<>]++|"[^"]*+"|'[^']*+')*)>""",
    re.DOTALL,
)
REFERENCE = re.compile(r"&(?:#(\d{1,7})|#[xX]([0-9A-Fa-f]{1,6})|([A-Za-z][\w.-]*));")
PREDEFINED_ENTITIES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}

TokenKind = Literal["text", "open", "close", "empty", "comment", "cdata", "other"]
Treatment = Literal["pair", "void", "kept"]


class Token(NamedTuple):
    """A tag, a comment or similar, or the text between tags, from ``start`` to ``end`` in the document."""

    kind: TokenKind
    name: str
    start: int
    end: int


class Element(NamedTuple):
    """An element: its opening tag extends from ``start`` to ``inner``, and its content from there to
    ``inner_end``.
    """

    name: str
    start: int
    inner: int
    inner_end: int
    end: int

    def tag(self, text: str) -> str:
        """Return the raw opening tag."""
        return text[self.start : self.inner]

    def content(self, text: str) -> str:
        """Return the raw content."""
        return text[self.inner : self.inner_end]


def attributes(tag: str) -> dict[str, str]:
    """Return the raw values of a tag's attributes by name; if a name is repeated, its first value is used."""
    values: dict[str, str] = {}
    for name, double_quoted, single_quoted, unquoted in ATTRIBUTE.findall(tag):
        values.setdefault(name, double_quoted or single_quoted or unquoted)
    return values


def with_attribute(tag: str, name: str, value: str) -> str:
    """Return a tag with the value of an existing attribute replaced, in double quotes."""
    for match in ATTRIBUTE.finditer(tag):
        if match[1] == name and match.lastindex in (2, 3):
            start, end = match.span(match.lastindex)
            return f'{tag[: start - 1]}"{escape_attribute(value)}"{tag[end + 1 :]}'
    return tag


def attribute_pieces(tag: str, names: Collection[str], reason: str | None = None) -> Iterator[Piece]:
    """Yield the pieces of a tag, in which the values of some attributes are texts.

    Args:
        tag: the raw tag.
        names: names of these attributes, without prefixes.
        reason: why their values are copied; None if they are translated.
    """
    position = 0
    for match in ATTRIBUTE.finditer(tag):
        group = match.lastindex
        if match[1].rpartition(":")[2] not in names or group not in (2, 3):
            continue
        value, quote = match[group], '"' if group == 2 else "'"
        yield tag[position : match.start(group)]
        if reason is None:
            yield text_unit(value, (unescape(value),), partial(_write_attribute, quote))
        else:
            yield untranslated(value, reason, unescape(value))
        position = match.end(group)
    yield tag[position:]


def _write_attribute(quote: str, inline: Inline) -> str:
    return escape_attribute(plain_text(inline), quote)


def html_attributes(tag: str) -> dict[str, str]:
    """Return the raw values of an HTML tag's attributes by name, with the names in lower case."""
    values: dict[str, str] = {}
    for name, value in attributes(tag).items():
        values.setdefault(name.lower(), value)
    return values


def xml_tokens(text: str, start: int = 0, end: int | None = None) -> Iterator[Token]:
    """Yield the tokens of a part of a well-formed document; joined, they equal that part.

    Args:
        text: the document.
        start: start of the part.
        end: end of the part; None for the end of the document.
    """
    stop = len(text) if end is None else end
    position = start
    for match in TOKEN.finditer(text, start, stop):
        if match.start() > position:
            yield Token("text", "", position, match.start())
        position = match.end()
        kind = match.lastgroup or "other"
        if kind == "open" and text[position - 2] == "/":
            yield Token("empty", match["open"].rstrip("/"), match.start(), position)
        elif kind in ("open", "close"):
            yield Token(kind, match[kind], match.start(), position)  # type: ignore[arg-type]
        else:
            yield Token(kind, "", match.start(), position)  # type: ignore[arg-type]
    if position < stop:
        yield Token("text", "", position, stop)


def elements(text: str, names: Collection[str], start: int = 0, end: int | None = None) -> Iterator[Element]:
    """Yield the outermost elements with these names in a part of a document, in order."""
    depth = 0
    outermost: Token | None = None
    for token in xml_tokens(text, start, end):
        if outermost is None:
            if token.name in names and token.kind == "open":
                outermost, depth = token, 1
            elif token.name in names and token.kind == "empty":
                yield Element(token.name, token.start, token.end, token.end, token.end)
        elif token.name == outermost.name and token.kind in ("open", "close"):
            depth += 1 if token.kind == "open" else -1
            if not depth:
                yield Element(outermost.name, outermost.start, outermost.end, token.start, token.end)
                outermost = None


def content_pieces(
    text: str,
    names: Collection[str],
    read: Callable[[Element], Iterable[Piece]],
    start: int = 0,
    end: int | None = None,
) -> Iterator[Piece]:
    """Yield the pieces of a part of a document, in which the content of some elements is read by ``read``.

    Args:
        text: the document.
        names: names of the elements; only the outermost of them are read.
        read: returns the pieces of an element's content.
        start: start of the part.
        end: end of the part; None for the end of the document.
    """
    position = start
    for element in elements(text, names, start, end):
        yield text[position : element.inner]
        yield from read(element)
        position = element.inner_end
    yield text[position : len(text) if end is None else end]


def text_elements(text: str, names: Collection[str]) -> Iterator[Piece]:
    """Yield the pieces of a document whose texts are in the elements with these names."""

    def read(element: Element) -> Iterator[Piece]:
        raw = element.content(text)
        yield raw if "<" in raw else text_unit(raw, (unescape(raw),), write_xml)

    return content_pieces(text, names, read)


def find_child(text: str, parent: Element, *names: str) -> Element | None:
    """Return the first outermost element inside a parent that has one of these names, or None."""
    return next(elements(text, names, parent.inner, parent.inner_end), None)


def children(text: str, parent: Element) -> Iterator[Element]:
    """Yield the elements directly inside a parent, in order."""
    depth = 0
    first_token: Token | None = None
    for token in xml_tokens(text, parent.inner, parent.inner_end):
        if token.kind == "empty" and not depth:
            yield Element(token.name, token.start, token.end, token.end, token.end)
        elif token.kind == "open":
            first_token = first_token if depth else token
            depth += 1
        elif token.kind == "close":
            depth -= 1
            if not depth and first_token is not None:
                yield Element(first_token.name, first_token.start, first_token.end, token.start, token.end)


def xml_inline(text: str, start: int, end: int, treatment_of: Callable[[Token, str], Treatment]) -> Inline:
    """Return a part of a document as an :data:`Inline`.

    Args:
        text: the document.
        start: start of the part.
        end: end of the part.
        treatment_of: returns, for a tag and its raw text, how to read its element: as a pair of tags around
            words, or with its content as a void or kept tag.
    """
    check_tag_count(text.count("<", start, end) // 2)
    parts: list[str | Tag] = []
    open_element: tuple[Token, str, int] | None = None
    for token in xml_tokens(text, start, end):
        raw = text[token.start : token.end]
        if open_element is not None:
            first_token, treatment, depth = open_element
            if token.name == first_token.name and token.kind in ("open", "close"):
                depth += 1 if token.kind == "open" else -1
            open_element = (first_token, treatment, depth) if depth else None
            if not depth:
                parts.append(_element_tag(text[first_token.start : token.end], treatment))
        elif token.kind == "text":
            parts.append(unescape(raw))
        elif token.kind == "cdata":
            parts.append(raw[9:-3])
        elif token.kind == "close":
            parts.append(Tag("close", raw))
        elif token.kind in ("open", "empty"):
            treatment = treatment_of(token, raw)
            if token.kind == "empty":
                parts.append(_element_tag(raw, treatment))
            elif treatment == "pair":
                parts.append(Tag("open", raw))
            else:
                open_element = (token, treatment, 1)
        else:
            parts.append(Tag("void", raw))
    return join_parts(parts)


def _element_tag(raw: str, treatment: str) -> Tag:
    if treatment != "kept":
        return Tag("void", raw)
    inner_text = raw[raw.find(">") + 1 : raw.rfind("<")] if not raw.endswith("/>") else ""
    return Tag("kept", raw, "" if "<" in inner_text else unescape(inner_text))


def write_xml(inline: Inline) -> str:
    """Return an :data:`Inline` as XML."""
    return make_writer(escape)(inline)


def resolve_entity(name: str) -> str | None:
    """Return the character of an entity that XML or HTML predefines, or None for another entity."""
    if name in PREDEFINED_ENTITIES:
        return PREDEFINED_ENTITIES[name]
    code = name2codepoint.get(name)
    return None if code is None else chr(code)


def unescape(raw: str) -> str:
    """Return a text with its character references replaced; unknown entities stay unchanged."""

    def character(match: re.Match[str]) -> str:
        decimal, hexadecimal, name = match.groups()
        if name:
            return resolve_entity(name) or match[0]
        code = int(decimal) if decimal else int(hexadecimal, 16)
        return chr(code) if code <= 0x10FFFF and not 0xD800 <= code < 0xE000 else match[0]

    return REFERENCE.sub(character, raw) if "&" in raw else raw


def escape(text: str) -> str:
    """Return a text escaped for XML or HTML; characters that are invalid in XML are dropped."""
    text = FORBIDDEN_CHARACTER.sub("", text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def escape_attribute(text: str, quote: str = '"') -> str:
    """Return a text escaped for an attribute value in the given quotation marks."""
    return escape(text).replace(quote, "&quot;" if quote == '"' else "&#39;")
