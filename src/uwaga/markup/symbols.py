"""Symbols: names and numbers, which models copy, that replace untranslated pieces in the input of a model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

from uwaga.alignment.words import word_spans
from uwaga.markup.inline import Inline, Tag, is_kept, join_parts
from uwaga.markup.placeholders import UNITS, is_number_like, is_quantity
from uwaga.markup.strip_tags import separates
from uwaga.markup.units import is_translatable
from uwaga.markup.words import overlapping, project_links
from uwaga.results.translation import Span, WordAlignment, noisy_or

COMMON_NAMES = ("Tom", "Paris", "Boston", "Maria", "Peter", "Berlin", "Anna", "London", "John")
COMMON_NUMBERS = ("20", "2013", "30", "5", "250", "15", "7", "12", "40")
"""The words that models copy most often, measured with the bundled model and the models of Firefox."""
WORD = re.compile(r"\w+")
CANDIDATE = re.compile(
    rf"(?<!\w)[+-]?(?P<number>\d++(?>(?:[.,]\d++)*))(?:[ \u00a0\u202f]?(?:{UNITS}))?(?!\w)|\w+"
)
"""A word that may be a symbol: a number, with a unit if present, or letters."""
WORD_STARTS = "\u2581\u0120"
"""Characters that mark a piece as the beginning of a word."""
SYMBOL_NEIGHBOURS = WORD_STARTS + ".,:;!?\"'()"
"""Characters that may be in the same piece as a symbol."""
MAX_SYMBOL_PIECES = 8
"""Maximum number of pieces of a symbol."""
MAX_ATTEMPTS = 4
"""Maximum number of attempts to choose symbols; attempts alternate between names and numbers."""


@dataclass(frozen=True)
class Symbol:
    """A word that stands for an untranslated piece in the input of a model.

    Attributes:
        text: the word.
        tag: the untranslated piece.
        touches_left: whether a word immediately precedes the piece.
        touches_right: whether a word immediately follows the piece.
    """

    text: str
    tag: Tag
    touches_left: bool
    touches_right: bool


def find_symbols(symbols: Iterable[Symbol], text: str) -> dict[str, list[Span]]:
    """Find symbols as separate words: ``20`` is not found in ``20.000`` or in ``2020``.

    Returns:
        the spans of each symbol that occurs, by its text.
    """
    symbol_texts = {symbol.text for symbol in symbols}
    spans: dict[str, list[Span]] = {}
    for match in CANDIDATE.finditer(text) if symbol_texts else ():
        start, end = match.span()
        if match["number"] is None:
            ranges = [(start, end)]
        else:
            number, stop = match.start("number"), match.end("number")
            ranges = [(start, end), (number, end), (start, stop), (number, stop)]
        for low, high in ranges:
            if text[low:high] in symbol_texts and _is_word(text, low, high):
                spans.setdefault(text[low:high], []).append((low, high))
                break
    return spans


def _is_word(text: str, start: int, end: int) -> bool:
    character_before, character_after = text[start - 1 : start], text[end : end + 1]
    if _belongs_to_word(character_before) or _belongs_to_word(character_after):
        return False
    if not text[start:end].isdigit():
        return True
    return character_before not in (".", ",") and not (
        character_after in (".", ",") and text[end + 1 : end + 2].isdigit()
    )


def _belongs_to_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def is_sign(text: str) -> bool:
    """Return whether an untranslated piece, such as an emoji, has no letters, digits or placeholder signs.

    Such a piece needs no symbol, since the words around it determine its position.
    """
    return not any(character.isalnum() or character in "{}%$" for character in text)


def choose_symbols(inline: Inline, attempt: int) -> list[str | None]:
    """Return a symbol for each untranslated piece of a text, or None for a piece that has no symbol.

    The symbols are distinct and do not occur in the text. A text without letters outside its untranslated
    pieces is copied, and needs no symbols.

    Args:
        inline: the text.
        attempt: the number of the attempt, from 0; each attempt uses different symbols.
    """
    if not is_translatable(inline):
        return [None for part in inline if is_kept(part)]
    texts = [part if isinstance(part, str) else part.text for part in inline]
    used_words = {word for text in texts for word in WORD.findall(text)}
    symbols_by_kind = {True: list(COMMON_NUMBERS), False: list(COMMON_NAMES)}
    shift = 4 * (attempt // 2)
    available_symbols = {
        kind: [*symbols[shift:], *symbols[:shift]] for kind, symbols in symbols_by_kind.items()
    }
    choices: list[str | None] = []
    tag_texts = Counter(part.text for part in inline if isinstance(part, Tag))
    text = " ".join(part for part in inline if isinstance(part, str))
    plain_words = {match.group() for match in CANDIDATE.finditer(text)} if attempt == 0 else set[str]()
    for part in inline:
        if is_kept(part):
            if is_sign(part.text):
                choices.append(None)
                continue
            is_unique = tag_texts[part.text] == 1 and part.text not in plain_words
            if attempt == 0 and is_unique and is_quantity(part.text):
                choices.append(part.text)
                continue
            preferred_symbols = available_symbols[is_number_like(part.text) != (attempt % 2 == 1)]
            alternatives = available_symbols[is_number_like(part.text) == (attempt % 2 == 1)]
            symbol = next(
                (
                    candidate
                    for candidate in (*preferred_symbols, *alternatives)
                    if candidate not in used_words
                ),
                None,
            )
            if symbol is not None:
                used_words.add(symbol)
            choices.append(symbol)
    return choices


def insert_symbols(inline: Inline, symbols: Sequence[str | None]) -> tuple[Inline, tuple[Symbol, ...]]:
    """Return the text with untranslated pieces replaced by symbols, and the symbols.

    Args:
        inline: the text.
        symbols: the symbol of each untranslated piece, or None for a piece that remains a tag.
    """
    parts: list[str | Tag] = []
    inserted_symbols: list[Symbol] = []
    remaining_symbols = iter(symbols)
    touched_left = _find_touched(inline, at_end=True)
    touched_right = _find_touched(inline[::-1], at_end=False)[::-1]
    for part, left, right in zip(inline, touched_left, touched_right, strict=True):
        symbol = next(remaining_symbols) if is_kept(part) else None
        if symbol is None or isinstance(part, str):
            parts.append(part)
            continue
        inserted_symbols.append(Symbol(symbol, part, left, right))
        needs_space = left and not (parts and isinstance(parts[-1], str) and parts[-1].endswith(" "))
        parts.append((" " if needs_space else "") + symbol + (" " if right else ""))
    return join_parts(parts), tuple(inserted_symbols)


def missing_symbols(symbols: Sequence[Symbol], translation: str) -> list[int]:
    """Return the indices of the symbols that do not occur in a translation exactly once."""
    spans = find_symbols(symbols, translation)
    return [index for index, symbol in enumerate(symbols) if len(spans.get(symbol.text, ())) != 1]


def replace_symbols(inline: Inline, symbols: Sequence[Symbol]) -> Inline:
    """Replace the symbols in a translation with the pieces that they stand for.

    Args:
        inline: the translation.
        symbols: the symbols, each of which occurs once.
    """
    if not symbols:
        return inline
    by_text = {symbol.text: symbol for symbol in symbols}
    parts: list[str | Tag] = []
    for part, next_part in zip_longest(inline, inline[1:], fillvalue=""):
        if isinstance(part, Tag):
            parts.append(part)
            continue
        position = 0
        for start, end in sorted(span for spans in find_symbols(symbols, part).values() for span in spans):
            symbol = by_text[part[start:end]]
            text_before = part[position:start]
            follows_word = text_before[-2:-1].isalnum() or (
                text_before == " " and bool(parts) and isinstance(parts[-1], Tag)
            )
            if symbol.touches_left and follows_word:
                text_before = text_before.rstrip(" ")
            precedes_tag = part[end:] == " " and isinstance(next_part, Tag)
            if symbol.touches_right and (
                precedes_tag or (part[end : end + 1] == " " and part[end + 1 : end + 2].isalnum())
            ):
                end += 1
            parts += [text_before, symbol.tag]
            position = end
        parts.append(part[position:])
    return join_parts(parts)


def pair_with_symbols(source: Inline, target: Inline) -> tuple[Inline, Inline]:
    """Return a text and its translation with their untranslated pieces replaced by symbols.

    Both are returned unchanged if their pieces differ or there are too many pieces.
    """
    choice = choose_symbols(source, 0)
    symbols: dict[str, list[str | None]] = {}
    for piece, symbol in zip(filter(is_kept, source), choice, strict=True):
        symbols.setdefault(piece.text, []).append(symbol)
    pieces = [piece.text for piece in filter(is_kept, target)]
    if None in choice or Counter(pieces) != {
        piece: len(piece_symbols) for piece, piece_symbols in symbols.items()
    }:
        return source, target
    inline_with_symbols, _ = insert_symbols(source, choice)
    translated, _ = insert_symbols(target, [symbols[piece].pop(0) for piece in pieces])
    return inline_with_symbols, translated


def _find_touched(parts: Sequence[str | Tag], *, at_end: bool) -> list[bool]:
    """Return for each part whether a word or an untranslated piece is directly before it in the given order.

    Args:
        parts: the parts, in forward or reverse order.
        at_end: whether the order is forward, so that the last character of a text is adjacent to the
            next part.
    """
    flags, is_touching = list[bool](), False
    for part in parts:
        flags.append(is_touching)
        if isinstance(part, str):
            is_touching = _belongs_to_word(part[-1 if at_end else 0]) if part else is_touching
        elif part.kind == "kept":
            is_touching = True
        elif separates(part):
            is_touching = False
    return flags


def restore_pieces(pieces: Sequence[str], symbols: Sequence[Symbol]) -> tuple[str, ...]:
    """Return the model's pieces of a text with symbols replaced by the untranslated text that they stand for.

    The number of pieces stays the same, so that they can label attention: the untranslated text is divided
    among the pieces of its symbol.
    """
    restored_pieces, position = list(pieces), 0
    tags = {symbol.text: symbol.tag.raw for symbol in symbols}
    while position < len(pieces):
        end = position + _count_symbol_pieces(pieces[position : position + MAX_SYMBOL_PIECES], tags)
        if end > position:
            word = "".join(pieces[position:end])
            mark, core = word[: len(word) - len(word.lstrip(WORD_STARTS))], word.strip(SYMBOL_NEIGHBOURS)
            raw_word = word[len(mark) :].replace(core, tags[core])
            count = end - position
            bounds = [len(raw_word) * index // count for index in range(count + 1)]
            restored_pieces[position:end] = [raw_word[first:last] for first, last in pairwise(bounds)]
            restored_pieces[position] = mark + restored_pieces[position]
        position = max(end, position + 1)
    return tuple(restored_pieces)


def _count_symbol_pieces(pieces: Sequence[str], tags: Mapping[str, str]) -> int:
    """Return the largest number of leading pieces that together spell a symbol, or 0 if none do."""
    word, longest = "", 0
    for count, piece in enumerate(pieces, start=1):
        word += piece
        if word.strip(SYMBOL_NEIGHBOURS) in tags:
            longest = count
    return longest


def realign(
    alignment: WordAlignment,
    source: tuple[str, str],
    target: tuple[str, str],
    symbols: Sequence[Symbol],
    inserted_pieces: Sequence[str],
) -> WordAlignment | None:
    """Return the alignment of the final texts, or None if they do not match the texts with symbols.

    Args:
        alignment: the alignment of the texts with symbols.
        source: the source with and without symbols.
        target: the translation with and without symbols.
        symbols: the symbols in both texts.
        inserted_pieces: pieces that occur only in the final texts.
    """
    texts, symbol_words = [], list[dict[str, range]]()
    for (text_before, text_after), spans in ((source, alignment.source), (target, alignment.target)):
        symbol_spans = {
            text: text_spans[0] for text, text_spans in find_symbols(symbols, text_before).items()
        }
        positions = _map_characters(text_before, text_after, symbols, symbol_spans, inserted_pieces)
        if positions is None:
            return None
        words = word_spans(text_after)
        starts = [start for start, _ in words]
        final_spans = [[span for span in positions[start:end] if span is not None] for start, end in spans]
        word_ranges = [
            overlapping(words, starts, spans_of_words[0][0], spans_of_words[-1][1])
            if spans_of_words
            else range(0)
            for spans_of_words in final_spans
        ]
        texts.append((tuple(words), word_ranges))
        symbol_words.append(
            {
                text: overlapping(words, starts, *span)
                for text, (start, _) in symbol_spans.items()
                if (span := positions[start]) is not None
            }
        )
    common_texts = [text for text in symbol_words[0] if text in symbol_words[1]]
    symbol_indices = [{word for text in common_texts for word in ranges[text]} for ranges in symbol_words]
    (sources, source_words), (targets, target_words) = (
        (words, [[word for word in word_range if word not in excluded] for word_range in word_ranges])
        for (words, word_ranges), excluded in zip(texts, symbol_indices, strict=True)
    )
    links, probabilities = project_links(alignment, source_words, target_words)
    for text in common_texts:
        pairs = list(zip(symbol_words[0][text], symbol_words[1][text], strict=False))
        links.update(pairs)
        probabilities += [(pair, 1.0) for pair in pairs] if alignment.likely else []
    return WordAlignment(sources, targets, tuple(sorted(links)), noisy_or(probabilities))


def move_words(
    spans: Sequence[Span], source: tuple[str, str], symbols: Sequence[Symbol], inserted_pieces: Sequence[str]
) -> tuple[Span, ...]:
    """Return the spans in the final source of words of the source with symbols; see :func:`realign`.

    The result is empty if the final source does not match the source with symbols.
    """
    if not spans:
        return ()
    source_before, source_after = source
    symbol_spans = {text: text_spans[0] for text, text_spans in find_symbols(symbols, source_before).items()}
    positions = _map_characters(source_before, source_after, symbols, symbol_spans, inserted_pieces)
    if positions is None:
        return ()
    moved_spans = [[span for span in positions[start:end] if span is not None] for start, end in spans]
    return tuple((parts[0][0], parts[-1][1]) for parts in moved_spans) if all(moved_spans) else ()


def _map_characters(
    text_before: str,
    text_after: str,
    symbols: Sequence[Symbol],
    symbol_spans: Mapping[str, Span],
    inserted_pieces: Sequence[str],
) -> list[Span | None] | None:
    """Return the span in ``text_after`` of each character of ``text_before``, or None for white space.

    Return None if ``text_after`` is not ``text_before`` with the symbols replaced and the pieces inserted.
    """
    replacements = {
        symbol_spans[symbol.text][0]: (symbol_spans[symbol.text][1], symbol.tag.text)
        for symbol in symbols
        if symbol.text in symbol_spans
    }
    pieces, lengths = frozenset(inserted_pieces), sorted({len(piece) for piece in inserted_pieces if piece})
    positions: list[Span | None] = []
    i = j = 0
    while i < len(text_before):
        if text_before[i].isspace():
            positions.append(None)
            i += 1
            continue
        end, text = replacements.get(i, (i + 1, text_before[i]))
        while not text_after.startswith(text, j):
            skipped_length = next((length for length in lengths if text_after[j : j + length] in pieces), 0)
            if not skipped_length and not text_after[j : j + 1].isspace():
                return None
            j += skipped_length or 1
        positions += [(j, j + len(text))] * (end - i)
        i, j = end, j + len(text)
    return positions
