"""Android's strings.xml: strings, arrays and plurals, with the plurals of the target language."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from uwaga.errors import DataError
from uwaga.markup import Inline, Tag
from uwaga.markup.inline import join_parts
from uwaga.markup.units import MARKUP, Piece, Unit, peel, text_unit, translatable, untranslated
from uwaga.markup.xml import (
    Element,
    Token,
    Treatment,
    attributes,
    content_pieces,
    elements,
    write_xml,
    xml_inline,
    xml_tokens,
)
from uwaga_documents.document import DocumentFormat, DocumentSource, Reading
from uwaga_documents.encodings import xml_text
from uwaga_documents.plurals import plural_categories

RESOURCE_ELEMENTS = ("string", "string-array", "plurals", "array")
ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))|(\s+)", re.DOTALL)
ESCAPED_CHARACTERS = {"n": "\n", "t": "\t"}


def read(source: DocumentSource) -> Reading:
    """Read the texts of a resource file."""
    text, encoding, mark = xml_text(source)
    root = next((token for token in xml_tokens(text) if token.kind in ("open", "empty")), None)
    if root is None or root.name != "resources":
        raise DataError(f"{source.name}: not an Android strings file: its root is not <resources>")
    target = source.options.target
    pieces = content_pieces(text, RESOURCE_ELEMENTS, lambda element: _resource(text, element, target))
    return Reading(pieces, encoding, "xmlcharrefreplace", mark)


def _resource(text: str, element: Element, target: str | None) -> Iterable[Piece]:
    """Return the pieces of a string, an array or a plural."""
    if attributes(element.tag(text)).get("translatable") == "false":
        raw = element.content(text)
        return [untranslated(raw, "marked as untranslated", MARKUP.sub("", raw))]
    if element.name == "string":
        return [_string(text, element)]
    if element.name == "plurals" and target is not None:
        return [_plurals(text, element, target)]
    return content_pieces(
        text, ("item",), lambda item: [_string(text, item)], element.inner, element.inner_end
    )


def _string(text: str, element: Element) -> Piece:
    raw = element.content(text)
    if raw.strip().startswith(("@", "?")) and " " not in raw.strip():
        return raw  # a reference to another resource
    return text_unit(raw, _inline(text, element), _write)


def _plurals(text: str, plurals: Element, target: str) -> Piece:
    """Build the plural forms of the target language from the source's singular and plural."""
    items = list(elements(text, ("item",), plurals.inner, plurals.inner_end))
    quantities = {attributes(item.tag(text)).get("quantity", ""): item for item in items}
    raw = plurals.content(text)
    if "other" not in quantities:
        return raw
    source = [name for name in ("one", "other") if name in quantities]
    exact = [name for name in quantities if name not in ("one", "other")]
    parts = [peel(_inline(text, quantities[name])) for name in (*source, *exact)]
    if not any(translatable(core) for _, core, _ in parts):
        return raw
    categories = plural_categories(target)
    first = items[0]
    space = text[plurals.inner : first.start]
    tail = text[items[-1].end : plurals.inner_end]

    def write(translations: Sequence[Inline]) -> str:
        forms = {
            name: _write(join_parts((*before, *translation, *after)))
            for name, (before, _, after), translation in zip(
                (*source, *exact), parts, translations, strict=True
            )
        }
        written = [f'<item quantity="{name}">{forms.get(name, forms["other"])}</item>' for name in categories]
        return space + space.join(written) + tail

    return Unit(
        tuple(core for _, core, _ in parts), write, None if set(categories) != set(quantities) else raw
    )


def _inline(text: str, element: Element) -> Inline:
    def treat(token: Token, raw: str) -> Treatment:
        if token.name == "xliff:g":
            return "kept"
        return "pair" if token.kind == "open" else "void"

    parts = xml_inline(text, element.inner, element.inner_end, treat)
    if len(parts) == 1 and isinstance(parts[0], str) and re.fullmatch(r'\s*"[^"]*"\s*', parts[0]):
        return (_unescape(parts[0].strip()[1:-1], quoted=True),)
    return join_parts(_unescape(part, False) if isinstance(part, str) else part for part in parts)


def _unescape(text: str, quoted: bool) -> str:
    def character_of(match: re.Match[str]) -> str:
        code, character, space = match.groups()
        if space:
            return space if quoted else " "
        return chr(int(code, 16)) if code else ESCAPED_CHARACTERS.get(character, character)

    return ESCAPE.sub(character_of, text)


def _write(inline: Inline) -> str:
    parts: list[str | Tag] = []
    for number, part in enumerate(inline):
        if isinstance(part, Tag):
            parts.append(part)
            continue
        text = part.replace("\\", "\\\\").replace("'", "\\'").replace('"', '\\"')
        text = text.replace("\n", "\\n").replace("\t", "\\t")
        if number == 0 and text[:1] in ("@", "?"):
            text = f"\\{text}"
        text = re.sub(
            r"  +| (?=\Z)" if number == len(inline) - 1 else r"  +", lambda f: "\\u0020" * len(f[0]), text
        )
        parts.append(text)
    return write_xml(tuple(parts))


FORMAT = DocumentFormat("android", ("strings.xml", "arrays.xml", "plurals.xml"), read)
