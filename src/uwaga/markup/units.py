"""The pieces of a document: text that is copied, and units of text that are translated.

The readers of all formats yield pieces, which together are the complete document. They also read strings
(:class:`Fragment`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

from uwaga.markup.inline import Inline, Tag, TagKind, is_kept, join_parts, match_pairs, written_text

Write = Callable[[Sequence[Inline]], str]
"""A function that returns a unit's translated texts, in order, written in the document's format."""
Escape = Callable[[str], str]
"""A function that returns plain text escaped for a format."""
Translations = Callable[[], Iterable[tuple[Inline, Inline]]]
"""A function that returns the texts whose translations are in a document, each with its translation."""

ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
LINK = re.compile(r"\[\Z|<(?:a|w:hyperlink|text:a)[\s>]", re.IGNORECASE)
BLANK_ENDS = re.compile(r"\A[^\S\r\n]+|(?<![^\S\r\n])[^\S\r\n]+\Z")
ONLY_UNTRANSLATED = "only code and other untranslated words"
"""The reason why a text that consists only of untranslated pieces is copied."""
MARKUP = re.compile(r"<[^<>]*>")
"""A tag of HTML or XML, in a simplified form that is sufficient to find the words between tags."""
FORBIDDEN_CHARACTER = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
"""Characters that are invalid in XML and HTML."""


class Untranslated(str):
    """Text of a document that is copied although readers see its words.

    Attributes:
        reason: why the text is copied.
        translations: returns the texts in it whose translations the document already has, each with its
            translation.
    """

    __slots__ = ("reason", "translations")
    reason: str
    translations: Translations

    def __new__(cls, raw: str, reason: str, translations: Translations = tuple) -> Self:
        """Create the text from its raw form in the document."""
        text = super().__new__(cls, raw)
        text.reason, text.translations = reason, translations
        return text


def untranslated(raw: str, reason: str, words: str | None = None, translations: Translations = tuple) -> str:
    """Return a text that is copied, as :class:`Untranslated` if it has a letter.

    Args:
        raw: the text as it appears in the document.
        reason: why the text is copied.
        words: the part of it that readers see; None for the entire text.
        translations: as for :class:`Untranslated`.
    """
    has_letter = any(map(str.isalpha, raw if words is None else words))
    return Untranslated(raw, reason, translations) if has_letter else raw


@dataclass(frozen=True)
class Unit:
    """Texts at one position in a document that are written together.

    Attributes:
        inlines: the texts, in document order.
        write: returns the translated texts as they appear in the document.
        raw: the original text of the document, which is copied if all translations equal their texts; None if
            the document stores translations next to their sources, so that translations are always written.
        untranslated: the texts inside the unit that are copied.
        key: the name of the texts in the document, such as a message id; empty if they have none.
    """

    inlines: tuple[Inline, ...]
    write: Write
    raw: str | None = None
    untranslated: tuple[Untranslated, ...] = ()
    key: str = ""


Piece = str | Unit
"""A part of a document: text that is copied, or a unit that is translated."""


def with_key(piece: Piece, key: str) -> Piece:
    """Return a unit with its key set, or any other piece unchanged."""
    return replace(piece, key=key) if isinstance(piece, Unit) else piece


class Fragment(NamedTuple):
    """The pieces of a string in some format."""

    pieces: tuple[Piece, ...]

    @classmethod
    def plain(cls, text: str) -> Fragment:
        """Return the fragment of a text without markup; spaces and tabs at its ends are dropped
        when written.
        """
        return cls((Unit(((text,),), lambda inlines: BLANK_ENDS.sub("", written_text(inlines[0]))),))

    @property
    def inlines(self) -> list[Inline]:
        """The texts to translate."""
        return [inline for piece in self.pieces if isinstance(piece, Unit) for inline in piece.inlines]

    def write(self, inlines: Sequence[Inline]) -> str:
        """Return the string with :attr:`inlines` replaced by other texts."""
        return "".join(write_pieces(self.pieces, inlines))


def untranslated_texts(pieces: Iterable[Piece]) -> Iterator[Untranslated]:
    """Yield the texts that are copied, among the pieces and inside their units."""
    for piece in pieces:
        if isinstance(piece, Untranslated):
            yield piece
        elif isinstance(piece, Unit):
            yield from piece.untranslated


def write_unit(unit: Unit, inlines: Sequence[Inline]) -> str:
    """Return the text of a unit in the document, with its texts replaced by ``inlines``."""
    if unit.raw is not None and tuple(inlines) == unit.inlines:
        return unit.raw
    return unit.write(inlines)


def write_pieces(pieces: Iterable[Piece], inlines: Iterable[Inline]) -> Iterator[str]:
    """Yield the text of each piece; ``inlines`` are the translated texts of all units, in order."""
    remaining_inlines = iter(inlines)
    for piece in pieces:
        if isinstance(piece, str):
            yield piece
        else:
            yield write_unit(piece, [next(remaining_inlines) for _ in piece.inlines])


def pair_texts(source: Piece, translation: Piece) -> Iterator[tuple[Inline, Inline]]:
    """Yield each text of a unit with its translation, if both units have the same number of texts."""
    texts, translations = (
        piece.inlines if isinstance(piece, Unit) else () for piece in (source, translation)
    )
    if len(texts) == len(translations):
        yield from zip(texts, translations, strict=True)


def is_translatable(inline: Inline) -> bool:
    """Return whether a text has a letter outside its tags."""
    return any(isinstance(part, str) and any(map(str.isalpha, part)) for part in inline)


def trim(inline: Inline) -> tuple[str, Inline, str]:
    """Return the leading white space of a text, the text without white space at its ends, and the trailing
    white space.
    """
    parts = list(inline)
    text_before = text_after = ""
    if parts and isinstance(parts[0], str):
        stripped_part = parts[0].lstrip()
        text_before, parts[0] = parts[0][: len(parts[0]) - len(stripped_part)], stripped_part
    if parts and isinstance(parts[-1], str):
        stripped_part = parts[-1].rstrip()
        text_after, parts[-1] = parts[-1][len(stripped_part) :], stripped_part
    return text_before, join_parts(parts), text_after


def split_ends(inline: Inline) -> tuple[Inline, Inline, Inline]:
    """Return the parts of a text: what precedes its words, the words with their tags, and what follows them.

    White space, void tags and pairs of tags around the complete text are split off.
    """
    leading_parts: list[str | Tag] = []
    trailing_parts: list[str | Tag] = []
    partners = match_pairs(inline)
    low, high = 0, len(inline)
    while low < high:
        first_part, last_part = inline[low], inline[high - 1]
        if _is_outside(first_part):
            leading_parts.append(first_part)
            low += 1
        elif _is_outside(last_part):
            trailing_parts.append(last_part)
            high -= 1
        elif partners.get(low) == high - 1:
            leading_parts.append(first_part)
            trailing_parts.append(last_part)
            low, high = low + 1, high - 1
        else:
            break
    start, core, end = trim(inline[low:high])
    return join_parts((*leading_parts, start)), core, join_parts((end, *reversed(trailing_parts)))


def _is_outside(part: str | Tag) -> bool:
    return part.isspace() if isinstance(part, str) else part.kind == "void"


def balance_tags(inline: Inline) -> Inline:
    """Return the text with opening and closing tags that have no partner turned into void tags."""
    pairs = match_pairs(inline)
    return void_unpaired_tags(inline, {*pairs, *pairs.values()})


def void_unpaired_tags(parts: Sequence[str | Tag], paired: set[int]) -> Inline:
    """Return the parts with opening and closing tags turned into void tags, except at the given indices."""
    return tuple(
        Tag("void", part.raw, part.text)
        if isinstance(part, Tag) and part.kind in ("open", "close") and index not in paired
        else part
        for index, part in enumerate(parts)
    )


def text_unit(
    raw: str,
    inline: Inline,
    write: Callable[[Inline], str],
    inner_pieces: Mapping[str, Sequence[Piece]] | None = None,
    collapse_pattern: re.Pattern[str] | None = None,
) -> Piece:
    r"""Return the unit of a text, or its raw text if it has no letters.

    A line break or tab inside the text (a void tag with the text ``"\n"``) ends a segment: the unit has a
    text for each line. If the text consists of several links, the unit has a text for each link. White space
    and tags around a line or link are not part of its text.

    Args:
        raw: the text as it appears in the document.
        inline: the text.
        write: returns an :data:`Inline` written in the document's format.
        inner_pieces: the pieces of the tags that contain texts, such as the title of a link, by raw tag.
        collapse_pattern: matches white space that is replaced by one space inside a text.
    """
    layout, lines = _split_lines(inline)
    texts = [line.inline for line in lines]
    if collapse_pattern is not None:
        texts = [
            tuple(collapse_pattern.sub(" ", part) if isinstance(part, str) else part for part in text)
            for text in texts
        ]
    inner_pieces = inner_pieces or {}
    units = [piece for pieces in inner_pieces.values() for piece in pieces if isinstance(piece, Unit)]
    copied_texts = (
        tuple(untranslated_texts(piece for pieces in inner_pieces.values() for piece in pieces))
        if inner_pieces
        else ()
    )
    inlines = (*texts, *(text for unit in units for text in unit.inlines))
    if not inlines:
        if copied_texts:
            return Untranslated(raw, copied_texts[0].reason)
        kept_text = " ".join(MARKUP.sub("", part.raw) for part in inline if is_kept(part))
        return untranslated(raw, ONLY_UNTRANSLATED, kept_text)
    textless_elements = [part.raw for part in inline if is_kept(part) and not part.text]  # such as drawings
    if textless_elements:
        pieces = (untranslated(part, ONLY_UNTRANSLATED, MARKUP.sub("", part)) for part in textless_elements)
        copied_texts += tuple(untranslated_texts(pieces))

    def write_lines(translations: Sequence[Inline]) -> str:
        inner_translations = iter(translations[len(lines) :])
        tags = {
            key: "".join(write_pieces(pieces, inner_translations)) for key, pieces in inner_pieces.items()
        }
        parts = (
            part
            for slot in layout
            for part in (lines[slot].nest(translations[slot]) if isinstance(slot, int) else (slot,))
        )
        return write(
            join_parts(
                Tag(part.kind, tags.get(part.raw, part.raw), part.text) if isinstance(part, Tag) else part
                for part in parts
            )
        )

    return Unit(inlines, write_lines, raw, copied_texts)


class _Line(NamedTuple):
    """A line of a text.

    Attributes:
        inline: its words and tags.
        divided: the original kind of each tag whose partner is in another line; in ``inline``, such a tag is
            void.
    """

    inline: Inline
    divided: Mapping[Tag, TagKind]

    @classmethod
    def from_parts(cls, parts: Sequence[str | Tag]) -> tuple[Inline, _Line, Inline]:
        """Return the leading part, the line and the trailing part of the given parts of a text."""
        balanced = balance_tags(tuple(parts))
        start, inline, end = split_ends(balanced)
        divided_tags = {
            part: original_part.kind
            for part, original_part in zip(balanced, parts, strict=True)
            if isinstance(part, Tag) and isinstance(original_part, Tag) and part.kind != original_part.kind
        }
        return start, cls(inline, divided_tags), end

    def nest(self, translation: Inline) -> Inline:
        """Return the translation with tags that nest properly together with the tags of the other lines.

        Divided tags must stay in order and outside the pairs of the line. If the word order of the
        translation does not allow this, they are moved to the ends of the line.
        """
        if not self.divided:
            return translation
        order, depth, is_nested = list[Tag](), 0, True
        for part in translation:
            if isinstance(part, Tag):
                if part in self.divided:
                    order.append(part)
                    is_nested = is_nested and not depth
                depth += (part.kind == "open") - (part.kind == "close")
        source_order = [part for part in self.inline if isinstance(part, Tag) and part in self.divided]
        if (is_nested and order == source_order) or Counter(order) != Counter(source_order):
            return translation
        closing = [tag for tag in source_order if self.divided[tag] == "close"]
        opening = [tag for tag in source_order if self.divided[tag] == "open"]
        return join_parts((*closing, *(part for part in translation if part not in self.divided), *opening))


def _split_lines(inline: Inline) -> tuple[list[str | Tag | int], list[_Line]]:
    """Split a text at its line breaks, or between its links if it consists of links.

    Returns:
        the parts of the text, with each line replaced by its index, and the lines.
    """
    layout: list[str | Tag | int] = []
    lines: list[_Line] = []
    leading_parts, core, trailing_parts = split_ends(inline)
    line_parts: list[str | Tag] = []
    cuts = _link_cuts(core)
    is_single = not cuts and not any(_is_break(part) for part in core)
    for index, part in enumerate((*core, None)):
        if part is not None and not _is_break(part):
            line_parts.append(part)
            if index not in cuts:
                continue
        start, line, end = ((), _Line(core, {}), ()) if is_single else _Line.from_parts(line_parts)
        if is_translatable(line.inline):
            layout += [*start, len(lines), *end]
            lines.append(line)
        else:
            layout += line_parts
        layout += [part] if part is not None and _is_break(part) else []
        line_parts = []
    return [*leading_parts, *layout, *trailing_parts], lines


def _link_cuts(inline: Inline) -> set[int]:
    """Return the indices of the parts after which to cut a text that consists of links, such as a navigation
    bar.

    The result is empty for any other text.
    """
    pairs = match_pairs(inline)
    cuts, links, index, outside_parts = set[int](), 0, 0, list[str | Tag]()
    while index < len(inline):
        part, end = inline[index], pairs.get(index)
        if end is not None and isinstance(part, Tag) and LINK.match(part.raw):
            cuts |= {index - 1, end}
            links += 1
            index = end
        else:
            outside_parts.append(part)
        index += 1
    return cuts if links > 1 and not is_translatable(tuple(outside_parts)) else set()


def _is_break(part: str | Tag) -> bool:
    return isinstance(part, Tag) and part.kind == "void" and part.text == "\n"


def make_escape(raw: str, unescape: Callable[[str], str], extra: Mapping[str, str] | None = None) -> Escape:
    """Return a function that escapes a translation with the entities that its source uses.

    Args:
        raw: the escaped source.
        unescape: returns the character of an entity.
        extra: the entities of further characters, such as the quotation mark around an attribute value.
    """
    used_entities = [entity for entity in ENTITY.findall(raw) if unescape(entity) != entity]
    entity_set = frozenset(used_entities)
    without_entities = ENTITY.sub(lambda entity: "" if entity[0] in entity_set else entity[0], raw)
    entities = ESCAPES | dict(extra or {})
    for entity in used_entities:
        character = unescape(entity)
        if len(character) == 1 and character not in without_entities:
            entities[character] = entity
    if ">" in without_entities:
        entities.pop(">")
    table = str.maketrans(entities)
    if "&" not in without_entities or used_entities:
        return lambda text: FORBIDDEN_CHARACTER.sub("", text).translate(table)
    without_ampersand = str.maketrans(
        {character: entity for character, entity in entities.items() if character != "&"}
    )

    def escape(text: str) -> str:
        text = FORBIDDEN_CHARACTER.sub("", text)
        escaped_text = text.translate(without_ampersand)
        return escaped_text if unescape(escaped_text) == text else text.translate(table)

    return escape


def make_writer(escape: Escape) -> Callable[[Inline], str]:
    """Return a function that writes an :data:`Inline` with unchanged tags and escaped text."""
    return lambda inline: "".join(part.raw if isinstance(part, Tag) else escape(part) for part in inline)
