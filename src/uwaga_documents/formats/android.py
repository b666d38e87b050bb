"""Android string resources: strings, arrays and plurals, with the plural forms of the target language."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from uwaga.errors import DataError
from uwaga.markup import Inline, Tag
from uwaga.markup.inline import join_parts
from uwaga.markup.units import (
    MARKUP,
    Escape,
    Fragment,
    Piece,
    Unit,
    make_escape,
    make_writer,
    untranslated,
    with_key,
    write_pieces,
)
from uwaga.markup.xml import (
    Element,
    Token,
    Treatment,
    attributes,
    content_pieces,
    elements,
    unescape,
    xml_inline,
    xml_tokens,
)
from uwaga_documents.document import DocumentFormat, DocumentSource, ParsedDocument
from uwaga_documents.encodings import xml_text
from uwaga_documents.messages import MessageSyntax, inline_message_unit
from uwaga_documents.plurals import plural_categories

RESOURCE_ELEMENTS = ("string", "string-array", "plurals", "array")
SYNTAX = MessageSyntax(("printf",), numbering="printf")
CDATA, CDATA_END = "<![CDATA[", "]]>"
HTML_TAG = re.compile(r"(</?[A-Za-z][^<>]*>)")
QUOTING = re.compile(rf"{HTML_TAG.pattern}|\\(?:u([0-9a-fA-F]{{4}})|(.))|(\s+)|(\")|[^\\\s\"<]+|.", re.DOTALL)
"""An HTML tag, an escape sequence, white space, a quotation mark, or other text."""
ESCAPE_IN_TAG = re.compile(r"\\([\"'])")
SPACE = "\\u0020"
ESCAPED_CHARACTERS = {"n": "\n", "t": "\t"}


def read(source: DocumentSource) -> ParsedDocument:
    """Read the texts of a resource file."""
    decoded = xml_text(source)
    text = decoded.text
    root = next((token for token in xml_tokens(text) if token.kind in ("open", "empty")), None)
    if root is None or root.name != "resources":
        raise DataError(f"{source.name}: not an Android strings file: its root is not <resources>")
    target = source.options.target
    pieces = content_pieces(text, RESOURCE_ELEMENTS, lambda element: _resource(text, element, target))
    return decoded.parsed(pieces, "xmlcharrefreplace")


def _resource(text: str, element: Element, target: str | None) -> Iterable[Piece]:
    """Return the pieces of a string, an array or a plural."""
    if attributes(element.tag(text)).get("translatable") == "false":
        raw = element.content(text)
        return [untranslated(raw, "marked as not to be translated", MARKUP.sub("", raw))]
    key = unescape(attributes(element.tag(text)).get("name", ""))
    if element.name == "string":
        return [with_key(_string(text, element), key)]
    if element.name == "plurals" and target is not None:
        return [with_key(_plurals(text, element, target), key)]
    return content_pieces(
        text, ("item",), lambda item: [with_key(_string(text, item), key)], element.inner, element.inner_end
    )


def _string(text: str, element: Element) -> Piece:
    raw = element.content(text)
    content = raw.strip()
    if content.startswith(("@", "?")) and " " not in content:
        return untranslated(raw, "references to other resources")
    start = len(raw) - len(raw.lstrip())
    inline, tags = _read_quoting(_inline(text, element))
    is_data = content.startswith(CDATA) and content.endswith(CDATA_END) and content.count(CDATA) == 1
    opening, closing = (CDATA, CDATA_END) if is_data else ("", "")
    head, tail = raw[:start] + opening, closing + raw[start + len(content) :]
    escape: Escape = _escape_data if is_data else make_escape(content, unescape)
    write_inline = make_writer(escape)
    return inline_message_unit(
        raw, inline, lambda translation: head + write_inline(_quote(translation, tags)) + tail, SYNTAX
    )


def _plurals(text: str, plurals: Element, target: str) -> Piece:
    """Return a unit that writes the plural forms of the target language from the forms of the source."""
    items = list(elements(text, ("item",), plurals.inner, plurals.inner_end))
    pieces = {attributes(item.tag(text)).get("quantity", ""): _string(text, item) for item in items}
    raw = plurals.content(text)
    inlines = tuple(Fragment(tuple(pieces.values())).inlines)
    if "other" not in pieces or not inlines:
        return raw
    categories = plural_categories(target)
    space = text[plurals.inner : items[0].start]
    tail = text[items[-1].end : plurals.inner_end]

    def write(translations: Sequence[Inline]) -> str:
        forms = dict(zip(pieces, write_pieces(pieces.values(), translations), strict=True))
        items = [f'<item quantity="{name}">{forms.get(name, forms["other"])}</item>' for name in categories]
        return space + space.join(items) + tail

    return Unit(inlines, write, None if set(categories) != set(pieces) else raw)


def _inline(text: str, element: Element) -> Inline:
    def treatment_of(token: Token, raw: str) -> Treatment:
        if token.name == "xliff:g":
            return "kept"
        return "pair" if token.kind == "open" else "void"

    return xml_inline(text, element.inner, element.inner_end, treatment_of)


def _read_quoting(inline: Inline) -> tuple[Inline, dict[str, str]]:
    """Return the displayed text, and the form in which each of its HTML tags is written in the file.

    Quotation marks that are not escaped are not displayed; outside them, white space is collapsed to one
    space.
    """
    parts: list[str | Tag] = []
    tags: dict[str, str] = {}
    quoted, after_space = False, True
    for part in inline:
        if isinstance(part, Tag):
            parts.append(part)
            after_space = after_space and part.kind != "kept"
            continue
        displayed_parts: list[str] = []
        for match in QUOTING.finditer(part):
            tag, code, character, space, quote = match.groups()
            if quote:
                quoted = not quoted
                continue
            match_text = match[0]
            if tag:
                match_text = ESCAPE_IN_TAG.sub(r"\1", tag)
                tags[match_text] = tag
            elif code or character:
                match_text = chr(int(code, 16)) if code else ESCAPED_CHARACTERS.get(character, character)
            elif space and not quoted:
                match_text = "" if after_space else " "
            after_space = bool(space) and not quoted
            displayed_parts.append(match_text)
        parts.append("".join(displayed_parts))
    if parts and isinstance(parts[-1], str) and after_space:
        parts[-1] = parts[-1].removesuffix(" ")
    return join_parts(parts), tags


def _quote(inline: Inline, tags: Mapping[str, str]) -> Inline:
    """Return a text with the escape sequences of Android."""
    parts: list[str | Tag] = []
    for index, part in enumerate(inline):
        if isinstance(part, Tag):
            parts.append(part)
            continue
        segments = [
            tags.get(segment) or _escape(segment) if index % 2 else _escape(segment)
            for index, segment in enumerate(HTML_TAG.split(part))
        ]
        text = "".join(segments)
        if index == 0:
            text = f"\\{text}" if text[:1] in ("@", "?") else text
            space_count = len(text) - len(text.lstrip(" "))
            text = SPACE * space_count + text[space_count:]
        if index == len(inline) - 1:
            words = text.rstrip(" ")
            text = words + SPACE * (len(text) - len(words))
        parts.append(text)
    return tuple(parts)


def _escape_data(text: str) -> str:
    return text.replace(CDATA_END, f"{CDATA_END[:2]}{CDATA_END}{CDATA}{CDATA_END[2:]}")


def _escape(text: str) -> str:
    text = text.replace("\\", "\\\\").replace("'", "\\'").replace('"', '\\"')
    text = text.replace("\n", "\\n").replace("\t", "\\t")
    return re.sub("  +", lambda spaces: SPACE * len(spaces[0]), text)


FORMAT = DocumentFormat("android", ("strings.xml", "arrays.xml", "plurals.xml"), read)
