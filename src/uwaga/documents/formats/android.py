"""Android's strings.xml: strings, arrays and plurals, with the plurals of the target language."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from uwaga.documents.document import DocumentFormat, DocumentSource, Reading
from uwaga.documents.encodings import xml_text
from uwaga.documents.plurals import plural_categories
from uwaga.errors import DataError
from uwaga.markup import Inline, Tag
from uwaga.markup.inline import joined
from uwaga.markup.units import Piece, Unit, peeled, text_unit, translatable
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

NAMES = ("string", "string-array", "plurals", "array")
ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))|(\s+)", re.DOTALL)
SIGNS = {"n": "\n", "t": "\t"}


def read(source: DocumentSource) -> Reading:
    """Read the texts of a resource file."""
    text, encoding, mark = xml_text(source)
    root = next((one for one in xml_tokens(text) if one.kind in ("open", "empty")), None)
    if root is None or root.name != "resources":
        raise DataError(f"{source.name}: not an Android strings file: its root is not <resources>")
    target = source.options.target
    pieces = content_pieces(text, NAMES, lambda one: _resource(text, one, target))
    return Reading(pieces, encoding, "xmlcharrefreplace", mark)


def _resource(text: str, one: Element, target: str | None) -> Iterable[Piece]:
    """Return the pieces of a string, an array or a plural."""
    if attributes(one.tag(text)).get("translatable") == "false":
        return [one.content(text)]
    if one.name == "string":
        return [_string(text, one)]
    if one.name == "plurals" and target is not None:
        return [_plurals(text, one, target)]
    return content_pieces(text, ("item",), lambda item: [_string(text, item)], one.inner, one.inner_end)


def _string(text: str, one: Element) -> Piece:
    raw = one.content(text)
    if raw.strip().startswith(("@", "?")) and " " not in raw.strip():
        return raw  # a reference to another resource
    return text_unit(raw, _inline(text, one), _write)


def _plurals(text: str, plurals: Element, target: str) -> Piece:
    """Build the plural forms of the target language from the source's singular and plural."""
    items = list(elements(text, ("item",), plurals.inner, plurals.inner_end))
    quantities = {attributes(item.tag(text)).get("quantity", ""): item for item in items}
    raw = plurals.content(text)
    if "other" not in quantities:
        return raw
    source = [name for name in ("one", "other") if name in quantities]
    exact = [name for name in quantities if name not in ("one", "other")]
    read = [peeled(_inline(text, quantities[name])) for name in (*source, *exact)]
    if not any(translatable(core) for _, core, _ in read):
        return raw
    wanted = plural_categories(target)
    first = items[0]
    space = text[plurals.inner : first.start]
    tail = text[items[-1].end : plurals.inner_end]

    def write(made: Sequence[Inline]) -> str:
        said = {
            name: _write(joined((*before, *one, *after)))
            for name, (before, _, after), one in zip((*source, *exact), read, made, strict=True)
        }
        written = [f'<item quantity="{name}">{said.get(name, said["other"])}</item>' for name in wanted]
        return space + space.join(written) + tail

    return Unit(tuple(core for _, core, _ in read), write, None if set(wanted) != set(quantities) else raw)


def _inline(text: str, one: Element) -> Inline:
    def treat(token: Token, raw: str) -> Treatment:
        if token.name == "xliff:g":
            return "kept"
        return "pair" if token.kind == "open" else "void"

    parts = xml_inline(text, one.inner, one.inner_end, treat)
    if len(parts) == 1 and isinstance(parts[0], str) and re.fullmatch(r'\s*"[^"]*"\s*', parts[0]):
        return (_unescape(parts[0].strip()[1:-1], quoted=True),)
    return joined(_unescape(part, False) if isinstance(part, str) else part for part in parts)


def _unescape(text: str, quoted: bool) -> str:
    def sign(found: re.Match[str]) -> str:
        code, character, space = found.groups()
        if space:
            return space if quoted else " "
        return chr(int(code, 16)) if code else SIGNS.get(character, character)

    return ESCAPE.sub(sign, text)


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
