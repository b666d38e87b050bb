"""Characters that a model does not know: typographic marks are replaced by ASCII marks, the rest are kept.

Quotation marks, dashes and the ellipsis have ASCII equivalents, such as ``"`` for ``“``. The equivalents
replace the marks in the input of the model, and typographic marks are restored in its translation, in the
style of the target language. Other characters become untranslated pieces, together with the word or number
that they belong to.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import NamedTuple

from uwaga.alignment.words import word_spans
from uwaga.languages.codes import base_language
from uwaga.markup.inline import Inline, Tag, TagKind, join_parts
from uwaga.markup.words import project, project_links
from uwaga.results.translation import Span, WordAlignment, noisy_or
from uwaga.tokenizers.text import clusters, compose, is_control, is_mark

DOUBLE_QUOTES, SINGLE_QUOTES, DASHES = "“”„‟«»", "‘’‚‛‹›", "–—―‒‑‐"
NO_BREAK_SPACES = "\u00a0\u202f"
ASCII_EQUIVALENTS = {
    **dict.fromkeys(NO_BREAK_SPACES, " "),
    **dict.fromkeys(DOUBLE_QUOTES, '"'),
    **dict.fromkeys(SINGLE_QUOTES, "'"),
    **dict.fromkeys(DASHES, "-"),
    "…": "...",
}
QUOTATION_MARKS = {
    **dict.fromkeys(("de", "cs", "sk", "sl", "bg", "ka", "is", "et", "lt", "sq"), ("„", "“")),
    **dict.fromkeys(("pl", "ro", "hu", "hr", "bs", "sr"), ("„", "”")),
    **dict.fromkeys(("fr", "br"), ("«\u00a0", "\u00a0»")),
    **dict.fromkeys(
        ("es", "it", "ca", "gl", "eu", "ru", "uk", "be", "el", "no", "nb", "nn", "hy", "fa"), ("«", "»")
    ),
    **dict.fromkeys(("sv", "fi"), ("”", "”")),
    **dict.fromkeys(("ja",), ("「", "」")),
}
"""Quotation marks of languages that do not use “ and ” (quotationStart, quotationEnd of Unicode CLDR 46)."""
ENGLISH_MARKS = ("“", "”")

SINGLE_QUOTATION_MARKS = {
    "de": ("‚", "‘"),
    "pl": ("‚", "’"),
    "sv": ("’", "’"),
    "fi": ("’", "’"),
    "ja": ("『", "』"),
}
ENGLISH_SINGLE_MARKS = ("‘", "’")

DOUBLE_QUOTE = re.compile('"')
SINGLE_QUOTE = re.compile(r"(?<!\w)'|'(?!\w)")
APOSTROPHE = re.compile(r"(?<=\w)'(?=\w)")
SPACED_DASH = re.compile(r"(?<=\s)-(?=\s)")
ELLIPSIS = re.compile(r"\.\.\.")
NON_SPACE_RUN, WORD = re.compile(r"\S+"), re.compile(r"\w+")
PRIMES = "′″‴⁗‵‶‷"
KEYCAP = "\u20e3"
BRACKETS = (("(", ")"), ("[", "]"), ("{", "}"))
OPTIONAL_MARKS = re.compile("[\u0400-\u06ff]")
"""Letters of scripts that are usually written without stress marks and vowel points."""
OBJECT_REPLACEMENT = "\ufffc"
FIRST_PICTOGRAPH, LAST_ARROW, LAST_OPERATOR = "\u2190", "\u21ff", "\u22ff"


@dataclass(frozen=True)
class Edit:
    """A replacement of a span of a text by another text or by a tag."""

    start: int
    end: int
    text: str
    tag: Tag | None = None


def visible_text(inline: Inline) -> str:
    """Return a text in which each character of a tag's text is replaced by a placeholder character."""
    return "".join(part if isinstance(part, str) else OBJECT_REPLACEMENT * len(part.text) for part in inline)


def apply_edits(inline: Inline, edits: Sequence[Edit]) -> Inline:
    """Return a text with replacements outside its tags.

    Args:
        inline: words and tags.
        edits: replacements in :func:`visible_text`, in order, without overlaps. If a replacement extends
            beyond a tag without text, its text is put before the tag.
    """
    parts: list[str | Tag] = []
    remaining_edits, start, end = deque(edits), 0, 0
    for part in inline:
        if isinstance(part, Tag):
            parts.append(part)
            start += len(part.text)
            continue
        position = max(0, end - start)
        while remaining_edits and remaining_edits[0].start < start + len(part):
            edit = remaining_edits.popleft()
            parts += [part[position : edit.start - start], edit.tag or edit.text]
            end = edit.end
            position = end - start
        parts.append(part[position:])
        start += len(part)
    return join_parts(parts)


def count_quotation_marks(text: str) -> int:
    """Return the number of double quotation marks, of any style, in a text."""
    return sum(map(text.count, (*DOUBLE_QUOTES, '"')))


def enclose_quotations(inline: Inline, language: str) -> Inline:
    """Return a text with straight double quotation marks replaced by tags around the quotations.

    Args:
        inline: words and tags.
        language: the code of the language in whose style the tags are written.
    """
    opening, closing = QUOTATION_MARKS.get(base_language(language), ENGLISH_MARKS)
    edits = list(_quotation_marks(DOUBLE_QUOTE, visible_text(inline), opening, closing))
    is_alternating = [edit.text for edit in edits] == [opening, closing] * (len(edits) // 2)
    kinds: tuple[TagKind, TagKind] = ("open", "close") if is_alternating else ("void", "void")
    tags = [Tag(kinds[index % 2], edit.text) for index, edit in enumerate(edits)]
    return apply_edits(inline, [replace(edit, tag=tag) for edit, tag in zip(edits, tags, strict=True)])


def inverse_edits(edits: Sequence[Edit], text: str) -> list[Edit]:
    """Return the replacements that undo ``edits`` in the edited text."""
    shift, inverses = 0, []
    for edit in edits:
        start = edit.start + shift
        inverses.append(Edit(start, start + len(edit.text), text[edit.start : edit.end]))
        shift += len(edit.text) - (edit.end - edit.start)
    return inverses


def move_spans(spans: Sequence[Span], edits: Sequence[Edit]) -> list[Span]:
    """Return the spans of words after replacements; words and replacements must be in order.

    Text inserted between two words belongs to neither. Each word that a replacement covers receives the span
    of the replacement.
    """
    remaining_edits, shift = deque(edits), 0

    def position(old_position: int, is_start: bool) -> int:
        nonlocal shift
        while remaining_edits:
            edit = remaining_edits[0]
            if old_position < edit.start or (
                old_position == edit.start and not (is_start and edit.start == edit.end)
            ):
                break
            if old_position < edit.end:
                return edit.start + shift + (0 if is_start else len(edit.text))
            shift += len(edit.text) - (edit.end - edit.start)
            remaining_edits.popleft()
        return old_position + shift

    return [(position(start, True), position(end, False)) for start, end in spans]


def project_alignment(
    alignment: WordAlignment, source: tuple[str, Sequence[Span]], target: tuple[str, Sequence[Span]]
) -> WordAlignment:
    """Return an alignment for the words of the final texts.

    Args:
        alignment: the alignment of the texts with ASCII marks.
        source: the final source, and the span in it of each source word of ``alignment``.
        target: the final translation, and the span in it of each target word of ``alignment``.
    """
    words = [tuple(word_spans(text)) for text, _ in (source, target)]
    links, probabilities = project_links(
        alignment, project(source[1], words[0]), project(target[1], words[1])
    )
    return WordAlignment(words[0], words[1], tuple(sorted(links)), noisy_or(probabilities))


def insertions(inline: Inline, tags: Collection[int]) -> list[Edit]:
    """Return the edits that insert tags, selected by their ``id``, into the text without these tags."""
    edits, position = [], 0
    for part in inline:
        if isinstance(part, Tag) and id(part) in tags:
            edits.append(Edit(position, position, part.raw))
        else:
            position += len(part if isinstance(part, str) else part.text)
    return edits


def ascii_edits(text: str, find_unknown: Callable[[str], Collection[str]]) -> list[Edit]:
    """Return the edits that replace unknown typographic marks by ASCII marks that are known.

    If a quotation mark is unknown, all marks of its kind are replaced. Spaces are added around a dash that
    stands directly between two words, because a hyphen would join them. A letter with combining marks is
    replaced by the composed letter, or loses optional marks; control characters inside a word, such as soft
    hyphens, are removed.

    Args:
        text: the text.
        find_unknown: returns the characters of a text that the model does not know.
    """
    missing_characters = set(find_unknown(text))
    for kind in (DOUBLE_QUOTES, SINGLE_QUOTES):
        if missing_characters & set(kind):
            missing_characters |= set(kind)
    edits, end = [], 0
    for cluster in clusters(text):
        start, end = end, end + len(cluster)
        if len(cluster) > 1:
            equivalent = _compose_cluster(cluster, missing_characters, find_unknown)
        else:
            equivalent = _ascii_equivalent(text, start) if cluster in missing_characters else None
        if equivalent is not None and not find_unknown(equivalent):
            edits.append(Edit(start, end, equivalent))
    if not edits:
        return []
    replaced = {text[edit.start : edit.end] for edit in edits}
    kept_spans = list(
        _merge_spans(text, _pieces(text, missing_characters.difference(replaced, OBJECT_REPLACEMENT)))
    )
    return [edit for edit in edits if not _is_within(edit, kept_spans)]


def _is_within(edit: Edit, spans: Sequence[Span]) -> bool:
    """Return whether an edit is inside one of the spans, which are in order."""
    index = bisect_right(spans, edit.start, key=lambda span: span[0]) - 1
    return index >= 0 and edit.end <= spans[index][1]


def _compose_cluster(
    cluster: str, missing_characters: Collection[str], find_unknown: Callable[[str], Collection[str]]
) -> str | None:
    """Return the composed form of a letter with combining marks, or the letter without optional marks."""
    composed_cluster = compose(cluster)
    if composed_cluster != cluster and not find_unknown(composed_cluster):
        return composed_cluster
    if cluster not in missing_characters or OPTIONAL_MARKS.match(cluster) is None:
        return None
    return "".join(character for character in cluster if not (is_mark(character) and find_unknown(character)))


def _ascii_equivalent(text: str, index: int) -> str | None:
    """Return the ASCII equivalent of an unknown character, or None if it has none."""
    character, is_inside = (
        text[index],
        _is_word_character(text, index - 1) and _is_word_character(text, index + 1),
    )
    equivalent = ASCII_EQUIVALENTS.get(character)
    if equivalent is None:
        is_apostrophe = character == "′" and is_inside and text[index - 1 : index + 2 : 2].isalpha()
        is_removed = is_inside and is_control(character)
        return "'" if is_apostrophe else "" if is_removed else None
    if character in "‹›" and _has_spaces_around(text, index):
        return None
    if character in "–—―" and is_inside:
        is_range = text[index - 1].isdigit() and text[index + 1].isdigit()
        return equivalent if is_range else f" {equivalent} "
    return equivalent


def typographic_edits(source: str, target: str, language: str) -> list[Edit]:
    """Return the edits that replace ASCII marks in a translation by the typographic marks of its source.

    Args:
        source: the source with its typographic marks, which were replaced by ASCII marks for the model.
        target: the translation.
        language: code of the target language, whose quotation marks are used.
    """
    edits: list[Edit] = []
    if any(mark in source for mark in DOUBLE_QUOTES + SINGLE_QUOTES) and '"' not in source:
        edits += _quotation_marks(
            DOUBLE_QUOTE, target, *QUOTATION_MARKS.get(base_language(language), ENGLISH_MARKS)
        )
    if any(mark in source for mark in SINGLE_QUOTES) and "'" not in source:
        edits += [Edit(*match.span(), "’") for match in APOSTROPHE.finditer(target)]
        edits += _quotation_marks(
            SINGLE_QUOTE, target, *SINGLE_QUOTATION_MARKS.get(base_language(language), ENGLISH_SINGLE_MARKS)
        )
    dashes = [character for character in source if character in "–—―"]
    if dashes and SPACED_DASH.search(source) is None:
        for index, match in enumerate(SPACED_DASH.finditer(target)):
            edits.append(Edit(*match.span(), dashes[min(index, len(dashes) - 1)]))
    if "…" in source and "..." not in source:
        edits += [Edit(*match.span(), "…") for match in ELLIPSIS.finditer(target)]
    if any(space in source for space in NO_BREAK_SPACES):
        edits += _no_break_spaces(source, target)
    return sorted(edits, key=lambda edit: edit.start)


class _Gap(NamedTuple):
    """The white space between two words, with the words before and after it."""

    before: str
    space: Span
    after: str


def _gaps(text: str) -> Iterator[_Gap]:
    for left, right in pairwise(NON_SPACE_RUN.finditer(text)):
        word_before, word_after = WORD.findall(left[0])[-1:], WORD.findall(right[0])[:1]
        if word_before and word_after:
            yield _Gap(word_before[0], (left.end(), right.start()), word_after[0])


def _no_break_spaces(source: str, target: str) -> Iterator[Edit]:
    """Yield the edits that replace spaces in the translation if they are no-break spaces in the source."""
    gaps: dict[tuple[str, str], deque[Span]] = {}
    for word_before, space, word_after in _gaps(target):
        for words in ((word_before, word_after), ("", word_after), (word_before, "")):
            gaps.setdefault(words, deque()).append(space)
    used_spans = set[Span]()
    for word_before, space, word_after in _gaps(source):
        if source[slice(*space)] not in NO_BREAK_SPACES:
            continue
        for words in ((word_before, word_after), ("", word_after), (word_before, "")):
            spans = gaps.get(words, deque())
            while spans and spans[0] in used_spans:
                spans.popleft()
            if spans:
                used_spans.add(spans[0])
                yield Edit(*spans[0], source[slice(*space)])
                break


def _quotation_marks(pattern: re.Pattern[str], text: str, opening: str, closing: str) -> Iterator[Edit]:
    """Yield the edits that replace straight quotation marks, which open and close alternately.

    A mark that touches a word on only one side opens before the word or closes after it.
    """
    is_open = False
    for match in pattern.finditer(text):
        index = match.start()
        character_before, character_after = (
            text[index - 1 : index].strip(),
            text[index + 1 : index + 2].strip(),
        )
        if character_before and not character_after:
            is_opening = False
        elif character_after and not character_before:
            is_opening = True
        else:
            is_opening = not is_open
        is_open = is_opening
        yield Edit(index, index + 1, opening if is_opening else closing)


def mark_unknown_characters(text: str, unknown_characters: Collection[str]) -> Inline:
    """Return a text in which unknown characters are untranslated pieces.

    For a letter, a digit, a currency sign or an operator, the piece is the entire word or expression:
    ``£20``, ``C++``, ``3 × 4``, ``x²``. An emoji is a separate piece, with its joiners and skin tones. Pieces
    with only punctuation between them are joined: ``◕_◕``.
    """
    if not unknown_characters:
        return (text,) if text else ()
    parts: list[str | Tag] = []
    position = 0
    for span in _merge_spans(text, _pieces(text, unknown_characters)):
        start, end = _with_brackets(text, *span)
        piece = text[start:end]
        parts += [text[position:start], Tag("kept", piece, piece)]
        position = end
    return join_parts([*parts, text[position:]])


def _pieces(text: str, unknown_characters: Collection[str]) -> Iterator[Span]:
    def is_unknown(cluster: str) -> bool:
        return cluster in unknown_characters or any(character in unknown_characters for character in cluster)

    position = covered_end = 0
    for is_piece, group in groupby(clusters(text), is_unknown):
        piece = list(group)
        start, end = position, position + sum(map(len, piece))
        position = end
        if not is_piece or end <= covered_end:
            continue
        is_prime = piece[0] in PRIMES and _follows_quantity(text, start)
        if is_prime or _belongs_to_word(piece[0]) or _belongs_to_word(piece[-1]):
            start, end = _with_operands(text, _skip_word(text, start, -1), _skip_word(text, end, 1))
        covered_end = end
        yield start, end


def _merge_spans(text: str, spans: Iterator[Span]) -> Iterator[Span]:
    """Yield the spans, joining spans that overlap or have only punctuation between them."""
    current_span: Span | None = None
    for start, end in spans:
        if current_span is not None and not any(
            character.isalnum() or character.isspace() for character in text[current_span[1] : start]
        ):
            current_span = (min(current_span[0], start), max(current_span[1], end))
            continue
        if current_span is not None:
            yield current_span
        current_span = start, end
    if current_span is not None:
        yield current_span


def _with_brackets(text: str, start: int, end: int) -> Span:
    """Return the span of a piece, extended to complete a pair of brackets or to include brackets around
    signs.
    """
    piece, character_before, character_after = text[start:end], text[start - 1 : start], text[end : end + 1]
    for opening, closing in BRACKETS:
        unclosed_count = piece.count(opening) - piece.count(closing)
        if unclosed_count < 0 and character_before == opening:
            return start - 1, end
        if unclosed_count > 0 and character_after == closing:
            return start, end + 1
        if character_before == opening and character_after == closing and not any(map(str.isalnum, piece)):
            return start - 1, end + 1
    return start, end


def _belongs_to_word(cluster: str) -> bool:
    character, category = cluster[0], unicodedata.category(cluster[0])
    if KEYCAP in cluster:
        return False
    if category[0] == "S" and category != "Sc":
        return character < FIRST_PICTOGRAPH or LAST_ARROW < character <= LAST_OPERATOR
    return category[0] in "LN" or category == "Sc" or character.isascii()


def _follows_quantity(text: str, index: int) -> bool:
    """Return whether a digit or a single letter precedes an index, as in ``5′`` and ``f′``."""
    return text[index - 1 : index].isdigit() or (
        _is_word_character(text, index - 1) and not _is_word_character(text, index - 2)
    )


def _with_operands(text: str, start: int, end: int) -> Span:
    """Return the span of a currency sign or an operator, extended across spaces to its operands.

    Operands are numbers, or single letters if there is an operand on both sides: ``a < b`` and ``3 × n``, but
    not ``€ I``.
    """
    word_start, word_end = start, end
    if not text[start].isalnum() and _is_space_at(text, start - 1):
        word_start = _skip_word(text, start - 1, -1)
    if not text[end - 1].isalnum() and _is_space_at(text, end):
        word_end = _skip_word(text, end + 1, 1)
    words = text[word_start : max(word_start, start - 1)], text[min(end + 1, word_end) : word_end]
    has_letters = all(word[:1].isdigit() or len(word.rstrip("¹²³")) == 1 for word in words)
    return (
        word_start if words[0][:1].isdigit() or has_letters else start,
        word_end if words[1][:1].isdigit() or has_letters else end,
    )


def _skip_word(text: str, index: int, step: int) -> int:
    """Return the end of a word in a direction (``step`` -1 or 1) from an ``index`` between characters."""
    while True:
        neighbour = index if step > 0 else index - 1
        if _is_word_character(text, neighbour) or _is_separator(text, neighbour):
            index += step
        else:
            return index


def _is_separator(text: str, index: int) -> bool:
    """Return whether the character at an index is a point or comma between two digits."""
    return (
        text[max(index, 0) : index + 1] in (".", ",")
        and text[max(index - 1, 0) : index].isdigit()
        and text[index + 1 : index + 2].isdigit()
    )


def _is_word_character(text: str, index: int) -> bool:
    """Return whether the character at an index is a letter, digit, underscore or combining mark."""
    if not 0 <= index < len(text):
        return False
    return text[index].isalnum() or text[index] == "_" or unicodedata.category(text[index])[0] == "M"


def _has_spaces_around(text: str, index: int) -> bool:
    """Return whether the character at an index is between spaces."""
    return _is_space_at(text, index - 1) and _is_space_at(text, index + 1)


def _is_space_at(text: str, index: int) -> bool:
    return 0 <= index < len(text) and text[index] in " \u00a0\u202f"
