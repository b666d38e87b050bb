"""A string in a format, taken apart: what stays as it is, and texts with tags."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from uwaga.markup.inline import Inline, Tag

Escape = Callable[[str], str]
"""How a format writes plain text."""


@dataclass(frozen=True)
class TextUnit:
    """A text of a string, such as a paragraph, and how its format writes plain text there."""

    inline: Inline
    escape: Escape


@dataclass(frozen=True)
class Attribute:
    """The text of an attribute that readers see; ``start`` and ``end`` are its place in the tag."""

    start: int
    end: int
    text: str
    escape: Escape


@dataclass(frozen=True)
class Fragment:
    """The parts of a string in their order, and by their raw text the tags whose attributes have texts."""

    parts: tuple[str | Tag | TextUnit, ...]
    attributes: Mapping[str, Sequence[Attribute]] = field(default_factory=dict)

    @property
    def inlines(self) -> list[Inline]:
        """All that is to be translated: the texts, then those of attributes."""
        texts = [part.inline for part in self.parts if isinstance(part, TextUnit)]
        return [*texts, *((one.text,) for own in self.attributes.values() for one in own)]

    def written(self, inlines: Sequence[Inline]) -> str:
        """The string with these in the places of :attr:`inlines`."""
        units = sum(isinstance(part, TextUnit) for part in self.parts)
        attributes = iter(inlines[units:])
        tags = {raw: _tag(raw, own, [next(attributes) for _ in own]) for raw, own in self.attributes.items()}
        made: list[str] = []
        texts = iter(inlines)
        for part in self.parts:
            if isinstance(part, str):
                made.append(part)
            elif isinstance(part, Tag):
                made.append(tags.get(part.raw, part.raw))
            else:
                made += [
                    part.escape(one) if isinstance(one, str) else tags.get(one.raw, one.raw)
                    for one in next(texts)
                ]
        return "".join(made)


def _tag(raw: str, attributes: Sequence[Attribute], inlines: Sequence[Inline]) -> str:
    """A tag with other texts in its attributes."""
    parts: list[str] = []
    at = 0
    for own, inline in zip(attributes, inlines, strict=True):
        text = "".join(part if isinstance(part, str) else part.raw for part in inline)
        parts += [raw[at : own.start], own.escape(text)]
        at = own.end
    return "".join([*parts, raw[at:]])


ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
MUST = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def escaping(raw: str, unescape: Callable[[str], str], more: Mapping[str, str] | None = None) -> Escape:
    """How to write a translation where characters were written so: by the entities that were used here.

    Args:
        raw: a text as it is written.
        unescape: what an entity stands for.
        more: what must be written otherwise too, such as quotes inside an attribute.
    """
    plain = ENTITY.sub("", raw)
    written = MUST | dict(more or {})
    for entity in ENTITY.findall(raw):
        character = unescape(entity)
        if len(character) == 1 and character not in plain:
            written[character] = entity
    if ">" in plain:
        written.pop(">")
    table = str.maketrans(written)
    return lambda text: text.translate(table)
