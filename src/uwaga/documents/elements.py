"""Elements of a well-formed XML document by their places, and what one of them says."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Literal, NamedTuple

from uwaga.documents.document import joined
from uwaga.documents.tags import Token, xml_tokens
from uwaga.documents.xml import escape, unescape
from uwaga.markup import Inline, Tag

Treatment = Literal["pair", "void", "kept"]


class Element(NamedTuple):
    """An element: its tag is ``start`` to ``inner``, its content goes from there to ``inner_end``."""

    name: str
    start: int
    inner: int
    inner_end: int
    end: int

    def tag(self, text: str) -> str:
        """The opening tag, as it is written."""
        return text[self.start : self.inner]

    def content(self, text: str) -> str:
        """What stands in it, as it is written."""
        return text[self.inner : self.inner_end]


def elements(text: str, names: Collection[str], start: int = 0, end: int | None = None) -> Iterator[Element]:
    """The outermost elements of these names in a part of a document, in its order."""
    depth = 0
    opened: Token | None = None
    for token in xml_tokens(text, start, end):
        if opened is None:
            if token.name in names and token.kind == "open":
                opened, depth = token, 1
            elif token.name in names and token.kind == "empty":
                yield Element(token.name, token.start, token.end, token.end, token.end)
        elif token.name == opened.name and token.kind in ("open", "close"):
            depth += 1 if token.kind == "open" else -1
            if not depth:
                yield Element(opened.name, opened.start, opened.end, token.start, token.end)
                opened = None


def child(text: str, parent: Element, *names: str) -> Element | None:
    """The first of the outermost elements of these names inside another."""
    return next(elements(text, names, parent.inner, parent.inner_end), None)


def xml_inline(text: str, start: int, end: int, treat: Callable[[Token, str], Treatment]) -> Inline:
    """What a part of a document says.

    Args:
        text: the document.
        start: where the part begins.
        end: where it ends.
        treat: of a tag and how it is written, whether the element is a pair of tags around words, stands
            alone with all it holds, or is kept with all it holds as a part of the text.
    """
    parts: list[str | Tag] = []
    skipped: tuple[Token, str, int] | None = None
    for token in xml_tokens(text, start, end):
        raw = text[token.start : token.end]
        if skipped is not None:
            first, how, depth = skipped
            if token.name == first.name and token.kind in ("open", "close"):
                depth += 1 if token.kind == "open" else -1
            skipped = (first, how, depth) if depth else None
            if not depth:
                parts.append(_whole(text[first.start : token.end], how))
        elif token.kind == "text":
            parts.append(unescape(raw))
        elif token.kind == "cdata":
            parts.append(raw[9:-3])
        elif token.kind == "close":
            parts.append(Tag("close", raw))
        elif token.kind in ("open", "empty"):
            how = treat(token, raw)
            if token.kind == "empty":
                parts.append(_whole(raw, how))
            elif how == "pair":
                parts.append(Tag("open", raw))
            else:
                skipped = (token, how, 1)
        else:
            parts.append(Tag("void", raw))
    return joined(parts)


def _whole(raw: str, how: str) -> Tag:
    if how != "kept":
        return Tag("void", raw)
    inner = raw[raw.find(">") + 1 : raw.rfind("<")] if not raw.endswith("/>") else ""
    return Tag("kept", raw, "" if "<" in inner else unescape(inner))


def write_xml(inline: Inline) -> str:
    """An inline as XML writes it."""
    return "".join(part.raw if isinstance(part, Tag) else escape(part) for part in inline)
