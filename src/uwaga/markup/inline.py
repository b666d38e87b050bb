"""Text with tags: the representation that every format is read into and written from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeGuard

from uwaga.errors import TextTooLongError

MAX_TAGS = 50_000
"""Maximum number of tags of a text, such as a paragraph; each takes several hundred bytes during
translation."""
TagKind = Literal["open", "close", "void", "kept"]


@dataclass(frozen=True, slots=True)
class Tag:
    r"""A tag in a text.

    Attributes:
        kind: ``open`` and ``close`` enclose words; a ``close`` closes the nearest preceding ``open`` that is
            not yet closed. ``void`` stands alone, such as ``<br/>``. ``kept`` is an entire element that is
            never translated, such as ``<code>ls -l</code>``.
        raw: the tag as it appears in the document; it is written back unchanged.
        text: the text that the tag displays: the words of a ``kept`` element, or ``"\n"`` for a line
            break or tab, which ends a segment; empty for other tags.
    """

    kind: TagKind
    raw: str
    text: str = ""


Inline = tuple[str | Tag, ...]
"""Unescaped plain text and tags, in order."""


def check_tag_count(count: int) -> None:
    """Raise TextTooLongError for a text with more than :data:`MAX_TAGS` tags."""
    if count > MAX_TAGS:
        raise TextTooLongError(
            f"a paragraph has more than {MAX_TAGS} tags; divide it, or remove tags that have no effect"
        )


def is_kept(part: str | Tag) -> TypeGuard[Tag]:
    """Return True for a ``kept`` tag, such as a placeholder."""
    return isinstance(part, Tag) and part.kind == "kept"


def plain_text(inline: Sequence[str | Tag]) -> str:
    """Return the text as displayed: without tags, but with the words of untranslated elements."""
    return "".join(part if isinstance(part, str) else part.text for part in inline)


def written_text(inline: Sequence[str | Tag]) -> str:
    """Return the text with its raw tags; characters that the document writes as entities are unescaped."""
    return "".join(part if isinstance(part, str) else part.raw for part in inline)


def keep_tags_of(inline: Inline, original_inline: Inline) -> Inline:
    """Return ``inline`` with the tags that are not in ``original_inline``, such as placeholders, turned
    into text.
    """
    tags = {part for part in original_inline if isinstance(part, Tag)}
    return join_parts(part.raw if isinstance(part, Tag) and part not in tags else part for part in inline)


def join_parts(parts: Iterable[str | Tag]) -> Inline:
    """Return the parts as an :data:`Inline`; adjacent texts are joined, and empty texts dropped."""
    inline: list[str | Tag] = []
    text_parts: list[str] = []
    for part in parts:
        if isinstance(part, str):
            if part:
                text_parts.append(part)
            continue
        if text_parts:
            inline.append("".join(text_parts))
            text_parts = []
        inline.append(part)
    if text_parts:
        inline.append("".join(text_parts))
    return tuple(inline)


def lines(inline: Inline) -> Iterator[Inline]:
    """Yield the lines of a text, each with the line break that ends it."""
    line: list[str | Tag] = []
    for part in inline:
        for piece in part.splitlines(keepends=True) if isinstance(part, str) else (part,):
            line.append(piece)
            if isinstance(piece, str) and piece.splitlines()[0] != piece:
                yield tuple(line)
                line = []
    if line:
        yield tuple(line)


def cut_inline(inline: Inline, positions: Sequence[int]) -> list[Inline] | None:
    """Cut a text at positions in its :func:`plain_text`; a closing tag at a cut ends the part before it.

    Returns:
        the parts; None if a cut would be inside an untranslated element or between the tags of a pair.
    """
    parts: list[list[str | Tag]] = [[]]
    end, remaining_positions = 0, list(reversed(positions))
    for part in inline:
        start, end = end, end + len(part if isinstance(part, str) else part.text)
        while remaining_positions and (
            remaining_positions[-1] < end or _begins_part(part, remaining_positions[-1] - start)
        ):
            cut = remaining_positions.pop() - start
            if isinstance(part, str):
                parts[-1].append(part[:cut])
                start, part = start + cut, part[cut:]
            elif cut:
                return None
            parts.append([])
        parts[-1].append(part)
    for inline_parts in parts:
        paired_count = sum(isinstance(part, Tag) and part.kind in ("open", "close") for part in inline_parts)
        if paired_count != 2 * len(match_pairs(inline_parts)):
            return None
    return [join_parts(inline_parts) for inline_parts in parts]


def _begins_part(part: str | Tag, cut: int) -> bool:
    return isinstance(part, Tag) and part.kind == "open" and cut == 0


def match_pairs(inline: Sequence[str | Tag]) -> dict[int, int]:
    """Return the index of each closing tag by the index of its opening tag."""
    open_tags: list[int] = []
    pairs: dict[int, int] = {}
    for index, part in enumerate(inline):
        if isinstance(part, Tag) and part.kind == "open":
            open_tags.append(index)
        elif isinstance(part, Tag) and part.kind == "close" and open_tags:
            pairs[open_tags.pop()] = index
    return pairs
