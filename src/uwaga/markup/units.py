"""A document in pieces: text that is copied, and units of text that are translated.

The readers of all formats yield pieces, which together are the whole document. A string in a format
(:class:`Fragment`) is read by the same readers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from uwaga.markup.inline import Inline, Tag, joined, paired_tags

Write = Callable[[Sequence[Inline]], str]
"""Writes the translations of a unit's texts, in their order, as the format does."""
Escape = Callable[[str], str]
"""Writes plain text as a format does."""

ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
LINK = re.compile(r"\[\Z|<(?:a|w:hyperlink|text:a)[\s>]", re.IGNORECASE)
BLANK_ENDS = re.compile(r"\A[^\S\r\n]+|(?<![^\S\r\n])[^\S\r\n]+\Z")
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
"""Characters that neither XML nor HTML can write."""


@dataclass(frozen=True)
class Unit:
    """Texts that stand in one place of a document and are written together.

    Attributes:
        inlines: the texts, in the order of the document.
        write: returns the replacement when they are translated.
        raw: the original text, which stays if no translation differs from its text; None where the
            translation stands next to its source, and is always written.
    """

    inlines: tuple[Inline, ...]
    write: Write
    raw: str | None = None


Piece = str | Unit
"""A stretch of a document: text that is copied, or a unit that is translated."""


@dataclass(frozen=True)
class Fragment:
    """A string in a format: a document in memory."""

    pieces: tuple[Piece, ...]

    @classmethod
    def plain(cls, text: str) -> Fragment:
        """Return a text without a format, all of which is translated; blanks at its ends are dropped."""
        return cls((Unit(((text,),), lambda made: BLANK_ENDS.sub("", "".join(map(_raw, made[0])))),))

    @property
    def inlines(self) -> list[Inline]:
        """The texts to translate."""
        return [inline for piece in self.pieces if isinstance(piece, Unit) for inline in piece.inlines]

    def written(self, inlines: Sequence[Inline]) -> str:
        """Return the string with other texts in the places of :attr:`inlines`."""
        return "".join(all_written(self.pieces, inlines))


def written(unit: Unit, made: Sequence[Inline]) -> str:
    """Return the text that replaces a unit once its texts are translated."""
    if unit.raw is not None and tuple(made) == unit.inlines:
        return unit.raw
    return unit.write(made)


def all_written(pieces: Iterable[Piece], inlines: Iterable[Inline]) -> Iterator[str]:
    """Yield each piece as it is written with other texts; ``inlines`` are those of all units, in order."""
    made = iter(inlines)
    for piece in pieces:
        if isinstance(piece, str):
            yield piece
        else:
            yield written(piece, [next(made) for _ in piece.inlines])


def _raw(part: str | Tag) -> str:
    return part.raw if isinstance(part, Tag) else part


def translatable(inline: Inline) -> bool:
    """Return whether a text has a letter outside its tags."""
    return any(isinstance(part, str) and any(map(str.isalpha, part)) for part in inline)


def trimmed(inline: Inline) -> tuple[str, Inline, str]:
    """Split a text into the white space before it, the text, and the white space after it."""
    parts = list(inline)
    before = after = ""
    if parts and isinstance(parts[0], str):
        bare = parts[0].lstrip()
        before, parts[0] = parts[0][: len(parts[0]) - len(bare)], bare
    if parts and isinstance(parts[-1], str):
        bare = parts[-1].rstrip()
        after, parts[-1] = parts[-1][len(bare) :], bare
    return before, joined(parts), after


def peeled(inline: Inline) -> tuple[Inline, Inline, Inline]:
    """Split a text into its leading part, the text itself, and its trailing part.

    White space, void tags and pairs of tags around the whole text are outside.
    """
    before: list[str | Tag] = []
    after: list[str | Tag] = []
    ends = paired_tags(inline)
    low, high = 0, len(inline)
    while low < high:
        first, last = inline[low], inline[high - 1]
        if _is_outside(first):
            before.append(first)
            low += 1
        elif _is_outside(last):
            after.append(last)
            high -= 1
        elif ends.get(low) == high - 1:
            before.append(first)
            after.append(last)
            low, high = low + 1, high - 1
        else:
            break
    start, core, end = trimmed(inline[low:high])
    return joined((*before, start)), core, joined((end, *reversed(after)))


def _is_outside(part: str | Tag) -> bool:
    return part.isspace() if isinstance(part, str) else part.kind == "void"


def balanced(inline: Inline) -> Inline:
    """Return the same text, in which opening and closing tags without a partner are void."""
    pairs = paired_tags(inline)
    return unpaired_void(inline, {*pairs, *pairs.values()})


def unpaired_void(parts: Sequence[str | Tag], paired: set[int]) -> Inline:
    """Return the same parts; opening and closing tags at other positions than these become void."""
    return tuple(
        Tag("void", part.raw, part.text)
        if isinstance(part, Tag) and part.kind in ("open", "close") and at not in paired
        else part
        for at, part in enumerate(parts)
    )


def text_unit(
    raw: str,
    inline: Inline,
    write: Callable[[Inline], str],
    inner: Mapping[str, Sequence[Piece]] | None = None,
) -> Piece:
    r"""Build the unit of a text; what has no letter is copied.

    A line break or tab inside the text (a void tag that is read as ``"\n"``) ends a segment: the unit has one
    text for each line. A text of several links and nothing else has one for each link. White space and tags
    around a line or link stay outside.

    Args:
        raw: the text as it stands in the document.
        inline: the text.
        write: writes an inline as the format does.
        inner: by how a tag is written, the pieces of which it consists, where it holds texts of its own, such
            as the title of a link.
    """
    layout, lines = _lines(inline)
    inner = inner or {}
    units = [piece for pieces in inner.values() for piece in pieces if isinstance(piece, Unit)]
    inlines = (*lines, *(text for unit in units for text in unit.inlines))
    if not inlines:
        return raw

    def put(made: Sequence[Inline]) -> str:
        rest = iter(made[len(lines) :])
        tags = {key: "".join(all_written(pieces, rest)) for key, pieces in inner.items()}
        parts = (part for slot in layout for part in (made[slot] if isinstance(slot, int) else (slot,)))
        return write(
            joined(
                Tag(part.kind, tags.get(part.raw, part.raw), part.text) if isinstance(part, Tag) else part
                for part in parts
            )
        )

    return Unit(inlines, put, raw)


def _lines(inline: Inline) -> tuple[list[str | Tag | int], list[Inline]]:
    """Split a text at its line breaks, or into its links.

    Returns:
        the parts of the text, with the number of a line in place of its words; and the lines.
    """
    layout: list[str | Tag | int] = []
    lines: list[Inline] = []
    before, core, after = peeled(inline)
    stretch: list[str | Tag] = []
    cuts = _link_cuts(core)
    whole = not cuts and not any(_is_break(part) for part in core)
    for at, part in enumerate((*core, None)):
        if part is not None and not _is_break(part):
            stretch.append(part)
            if at not in cuts:
                continue
        start, line, end = ((), core, ()) if whole else peeled(balanced(tuple(stretch)))
        if translatable(line):
            layout += [*start, len(lines), *end]
            lines.append(line)
        else:
            layout += stretch
        layout += [part] if part is not None and _is_break(part) else []
        stretch = []
    return [*before, *layout, *after], lines


def _link_cuts(inline: Inline) -> set[int]:
    """Return the parts after which to cut a text of several links and nothing else (a navigation bar)."""
    pairs = paired_tags(inline)
    cuts, links, at, outside = set[int](), 0, 0, list[str | Tag]()
    while at < len(inline):
        part, end = inline[at], pairs.get(at)
        if end is not None and isinstance(part, Tag) and LINK.match(part.raw):
            cuts |= {at - 1, end}
            links += 1
            at = end
        else:
            outside.append(part)
        at += 1
    return cuts if links > 1 and not translatable(tuple(outside)) else set()


def _is_break(part: str | Tag) -> bool:
    return isinstance(part, Tag) and part.kind == "void" and part.text == "\n"


def escaping(raw: str, unescape: Callable[[str], str], more: Mapping[str, str] | None = None) -> Escape:
    """Return how to escape a translation: as its source is escaped, and with the entities that it uses.

    Args:
        raw: the source as it is written.
        unescape: returns what an entity stands for.
        more: further characters and their entities, such as the quote inside an attribute.
    """
    found = [entity for entity in ENTITY.findall(raw) if unescape(entity) != entity]
    known = frozenset(found)
    plain = ENTITY.sub(lambda entity: "" if entity[0] in known else entity[0], raw)
    entities = ESCAPES | dict(more or {})
    for entity in found:
        character = unescape(entity)
        if len(character) == 1 and character not in plain:
            entities[character] = entity
    if ">" in plain:
        entities.pop(">")
    table = str.maketrans(entities)
    if "&" not in plain or found:
        return lambda text: FORBIDDEN.sub("", text).translate(table)
    bare = str.maketrans({sign: entity for sign, entity in entities.items() if sign != "&"})

    def escape(text: str) -> str:
        text = FORBIDDEN.sub("", text)
        written = text.translate(bare)
        return written if unescape(written) == text else text.translate(table)

    return escape


def writer(escape: Escape) -> Callable[[Inline], str]:
    """Return a function that writes an inline: tags as they are, text escaped."""
    return lambda inline: "".join(part.raw if isinstance(part, Tag) else escape(part) for part in inline)
