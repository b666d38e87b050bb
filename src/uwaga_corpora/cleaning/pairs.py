"""Blocks of sentence pairs as arrays of characters, so that a rule can check thousands of pairs at once."""

from __future__ import annotations

import unicodedata
from functools import cache, cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

CODE_POINTS = 0x110000
LETTER, SPACE, TERMINAL, BAD_CHARACTER, DIGIT = 1, 2, 4, 8, 16
"""Bits of :func:`character_bits`: a letter or a mark on it, white space, sentence-final punctuation, a bad
character, a nonzero digit."""
NO_DIGIT = 255

_TERMINALS = ".?!…。！？؟।｡"
_LETTER_CATEGORIES = {"Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Mn", "Mc", "Me"}
_ASSIGNED = 0x32400
"""End of the assigned code points; selectors and tags (from 0xE0000 on) and private use are not included."""
_TAGS, _TAGS_END = 0xE0000, 0xE0200
_PRIVATE = 0xF0000
_JAMO, _JAMO_END = 0x1100, 0x1200


@cache
def character_bits() -> NDArray[np.uint8]:
    """Return the bits of all characters, (code points,).

    Bad characters are controls except the tab, private use, surrogates, and the replacement character U+FFFD,
    which marks a conversion error. Unassigned characters are not bad: a later Unicode may make them emoji.
    """
    table = np.zeros(CODE_POINTS, np.uint8)
    for code in (*range(_ASSIGNED), *range(_TAGS, _TAGS_END)):
        character = chr(code)
        category = unicodedata.category(character)
        if category in _LETTER_CATEGORIES:
            table[code] |= LETTER
        elif category in ("Cc", "Co", "Cs"):
            table[code] |= BAD_CHARACTER
        if character.isspace():
            table[code] |= SPACE
    table[_PRIVATE:] |= BAD_CHARACTER
    table[[0xFFFD, *range(0xFDD0, 0xFDF0)]] |= BAD_CHARACTER
    table[[ord(mark) for mark in _TERMINALS]] |= TERMINAL
    table[(np.arange(CODE_POINTS) & 0xFFFE) == 0xFFFE] |= (
        BAD_CHARACTER  # the last two of each plane are noncharacters
    )
    table[ord("\t")] &= ~np.uint8(BAD_CHARACTER)
    table[(digit_values() != NO_DIGIT) & (digit_values() != 0)] |= DIGIT
    return table


@cache
def digit_values() -> NDArray[np.uint8]:
    """Return the values of all decimal digits, of any script, and :data:`NO_DIGIT` for other characters.

    The array has the shape (code points,).
    """
    table = np.full(CODE_POINTS, NO_DIGIT, np.uint8)
    for code in range(_ASSIGNED):
        if (value := unicodedata.decimal(chr(code), None)) is not None:
            table[code] = value
    return table


ANY_SCRIPT, OF_SCRIPT = 1, 2
"""Bits of :func:`script_letters`: a letter of any script, and one of the given scripts."""


@cache
def script_letters(scripts: tuple[str, ...]) -> NDArray[np.uint8]:
    """Return the bits of all letters, (code points,); marks used with letters of any script have no bits.

    Args:
        scripts: the first words of the letters' Unicode names, such as ``LATIN``.
    """
    table = np.zeros(CODE_POINTS, np.uint8)
    accepted_scripts = set(scripts)
    for code in np.flatnonzero(character_bits() & LETTER).tolist():
        character = chr(code)
        if unicodedata.category(character) not in ("Mn", "Me"):
            is_of_script = unicodedata.name(character, "").partition(" ")[0] in accepted_scripts
            table[code] = ANY_SCRIPT | OF_SCRIPT if is_of_script else ANY_SCRIPT
    return table


@cache
def unstable_characters() -> NDArray[np.bool_]:
    """Return the mask (code points,) of characters that NFKC or case folding may expand or reclassify."""
    table = np.zeros(CODE_POINTS, np.bool_)
    for code in (*range(_ASSIGNED), *range(_TAGS, _TAGS_END)):
        character = chr(code)
        normalised_character = unicodedata.normalize("NFKC", character).casefold()
        joins = unicodedata.combining(character) != 0 or unicodedata.category(character) == "Mc"
        table[code] = len(normalised_character) != 1 or joins
        if not table[code] and normalised_character != character:
            table[code] = is_letter_or_digit(code) != is_letter_or_digit(ord(normalised_character))
    table[_JAMO:_JAMO_END] = True
    return table


def is_letter_or_digit(code: int) -> bool:
    """Return whether a character is a letter or a digit."""
    return bool(character_bits()[code] & LETTER) or bool(digit_values()[code] != NO_DIGIT)


Mask = NDArray[np.bool_]
Counts = NDArray[np.int64]
Keys = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def mix(values: Keys) -> Keys:
    """Apply the finaliser of splitmix64 (Steele, Lea & Flood 2014, figure 16), a pseudorandom bijection."""
    values = (values ^ (values >> np.uint64(30))) * _MIX_1
    values = (values ^ (values >> np.uint64(27))) * _MIX_2
    return values ^ (values >> np.uint64(31))


class Side:
    """One side of a block of pairs.

    Attributes:
        codes: (characters,) uint32, the concatenated code points of all texts.
        offsets: (pairs + 1,) the start of each text, and the end of the last.
    """

    def __init__(self, codes: NDArray[np.uint32], offsets: Counts) -> None:
        self.codes, self.offsets = codes, offsets

    @classmethod
    def from_texts(cls, texts: list[str]) -> Side:
        """Return a side of the given texts, which must not contain line breaks."""
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        return cls(_codes("".join(texts)), np.concatenate([[0], np.cumsum(lengths)]))

    @classmethod
    def spans(cls, codes: NDArray[np.uint32], starts: Counts, ends: Counts) -> Side:
        """Return a side whose text ``i`` is ``codes[starts[i]:ends[i]]``; the positions are (pairs,)."""
        edges = np.empty(2 * len(starts) + 2, np.int64)  # alternating gaps and parts
        edges[0], edges[1:-1:2], edges[2:-1:2], edges[-1] = 0, starts, ends, len(codes)
        is_part = np.arange(len(edges) - 1) % 2 == 1
        offsets = np.concatenate([[0], np.cumsum(ends - starts)])
        return cls(codes[np.repeat(is_part, np.diff(edges))], offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def select(self, mask: Mask) -> Side:
        """Return the texts selected by a mask (pairs,)."""
        if mask.all():
            return self
        lengths = self.lengths
        offsets = np.concatenate([[0], np.cumsum(lengths[mask])])
        return Side(self.codes[np.repeat(mask, lengths)], offsets)

    def text(self, index: int) -> str:
        """Return the text with the given index."""
        return self._decode(int(self.offsets[index]), int(self.offsets[index + 1]))

    @cached_property
    def strings(self) -> list[str]:
        """All texts."""
        text, offsets = self._decode(0, len(self.codes)), self.offsets.tolist()
        return [text[start:end] for start, end in pairwise(offsets)]

    @cached_property
    def joined(self) -> str:
        """All texts, each followed by a line break."""
        return "\n".join([*self.strings, ""])

    def text_indices(self, positions: Counts) -> Counts:
        """Return the index of the text at each position of :attr:`joined`."""
        starts = self.offsets[:-1] + np.arange(len(self))
        return np.searchsorted(starts, positions, side="right") - 1

    @cached_property
    def lengths(self) -> Counts:
        """The number of characters of each text, (pairs,)."""
        return np.diff(self.offsets)

    @cached_property
    def bits(self) -> NDArray[np.uint8]:
        """The bits of :func:`character_bits` of each character, (characters,)."""
        return character_bits()[self.codes]

    def count(self, mask: Mask) -> Counts:
        """Return the number (pairs,) of characters of each text for which a mask (characters,) is True."""
        return np.diff(np.searchsorted(np.flatnonzero(mask), self.offsets))

    def count_bits(self, bits: int) -> Counts:
        """Return the number (pairs,) of characters of each text that have one of the bits."""
        return self.count(self.has_bits(bits))

    @cached_property
    def letters(self) -> Counts:
        """The number of letters of each text, (pairs,)."""
        return self.count_bits(LETTER)

    @cached_property
    def spaces(self) -> Mask:
        """The mask (characters,) of white space."""
        return self.has_bits(SPACE)

    def has_bits(self, bits: int) -> Mask:
        """Return the mask (characters,) of characters that have one of the bits."""
        mask: Mask = (self.bits & np.uint8(bits)) != 0
        return mask

    @cached_property
    def word_starts(self) -> Mask:
        """The mask (characters,) of the first characters of words, which white space separates."""
        space = self.spaces
        is_start = np.ones(len(space), np.bool_)
        is_start[1:] = space[:-1]
        is_start[self.offsets[:-1][self.lengths > 0]] = True
        starts: Mask = is_start & ~space
        return starts

    @cached_property
    def words(self) -> Counts:
        """The number of words of each text, as with ``str.split``, (pairs,)."""
        return self.count(self.word_starts)

    @cached_property
    def longest_words(self) -> Counts:
        """The number of characters of the longest word of each text, (pairs,)."""
        space = self.spaces
        is_end = np.ones(len(space), np.bool_)
        is_end[:-1] = space[1:]
        last_indices = self.offsets[1:][self.lengths > 0] - 1
        is_end[last_indices] = True
        lengths = np.flatnonzero(is_end & ~space) + 1 - np.flatnonzero(self.word_starts)  # (words,)
        longest = np.zeros(len(self), np.int64)
        has_words = self.words > 0
        if has_words.any():
            firsts = np.cumsum(self.words) - self.words  # (pairs,)
            longest[has_words] = np.maximum.reduceat(lengths, firsts[has_words])
        return longest

    @cached_property
    def digits(self) -> Side:
        """The nonzero decimal digits of each text, of any script, as ASCII digits."""
        mask = self.has_bits(DIGIT)
        offsets = np.concatenate([[0], np.cumsum(self.count(mask))])
        return Side(digit_values()[self.codes[mask]].astype(np.uint32) + ord("0"), offsets)

    @cached_property
    def word_characters(self) -> Counts:
        """The number of letters and digits of each text, (pairs,)."""
        return self.count(((self.bits & LETTER) != 0) | (digit_values()[self.codes] != NO_DIGIT))

    @cached_property
    def folded(self) -> Side:
        """The letters and digits of each text after NFKC and case folding, or the text if it has none."""
        normalised_text = unicodedata.normalize("NFKC", self.joined).casefold()
        codes = _codes(normalised_text)
        is_end = codes == ord("\n")
        mask = is_end | ((character_bits()[codes] & LETTER) != 0) | (digit_values()[codes] != NO_DIGIT)
        codes = codes[mask]
        line_ends = np.flatnonzero(codes == ord("\n"))
        starts = np.concatenate([[0], line_ends[:-1] + 1]).astype(np.int64)[: len(self)]
        folded_side = Side.spans(codes, starts, line_ends)
        if (folded_side.lengths > 0).all():
            return folded_side
        return Side.from_texts(
            [folded_text or text for folded_text, text in zip(folded_side.strings, self.strings, strict=True)]
        )

    @cached_property
    def keys(self) -> Keys:
        """A 64-bit key of each text, (pairs,); equal texts have equal keys.

        A key is the sum of a pseudorandom number for each character at each position (Zobrist 1970), so two
        different texts have the same key with a probability of about 2⁻⁶⁴.
        """
        starts = self.offsets.astype(np.uint64)
        values = np.arange(len(self.codes), dtype=np.uint64)  # (characters,)
        values -= np.repeat(starts[:-1], self.lengths)
        values *= np.uint64(CODE_POINTS)
        values += self.codes  # distinct for each character at each position
        values *= _GOLDEN
        values ^= values >> np.uint64(32)
        values *= _MIX_1
        values ^= values >> np.uint64(29)
        sums = np.zeros(len(values) + 1, np.uint64)
        np.cumsum(values, out=sums[1:])
        return sums[self.offsets[1:]] - sums[self.offsets[:-1]] + self.lengths.astype(np.uint64)

    def equals_folded(self, other: Side) -> Mask:
        """Return the mask (pairs,) of texts whose :attr:`folded` forms are equal.

        Only texts with equal numbers of letters and digits, or with :func:`unstable_characters`, are folded.
        """
        candidates = self.word_characters == other.word_characters
        for side in (self, other):
            candidates |= side.count(unstable_characters()[side.codes]) > 0
        is_equal: Mask = candidates.copy()
        is_equal[candidates] = self.select(candidates).folded.equals(other.select(candidates).folded)
        return is_equal

    def equals(self, other: Side) -> Mask:
        """Return the mask (pairs,) of equal texts."""
        equal_lengths = self.lengths == other.lengths
        left, right = self.select(equal_lengths), other.select(equal_lengths)
        is_equal: Mask = equal_lengths.copy()
        is_equal[equal_lengths] = left.count(left.codes != right.codes) == 0
        return is_equal

    def _decode(self, start: int, end: int) -> str:
        return self.codes[start:end].astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")


class PairBlock:
    """A block of sentence pairs, with the codes of their languages, which are empty if unknown."""

    def __init__(self, source: Side, target: Side, languages: tuple[str, str]) -> None:
        self.source, self.target, self.languages = source, target, languages

    @classmethod
    def from_pairs(cls, pairs: list[tuple[str, str]], languages: tuple[str, str] = ("", "")) -> PairBlock:
        """Return a block of the given pairs, whose texts must not contain line breaks."""
        sides = [Side.from_texts([pair[side] for pair in pairs]) for side in range(2)]
        return cls(sides[0], sides[1], languages)

    def __len__(self) -> int:
        return len(self.source)

    @property
    def sides(self) -> tuple[tuple[Side, str], tuple[Side, str]]:
        """The sources and the targets, with their languages."""
        return (self.source, self.languages[0]), (self.target, self.languages[1])

    def select(self, mask: Mask) -> PairBlock:
        """Return the pairs selected by a mask (pairs,)."""
        if mask.all():
            return self
        return PairBlock(self.source.select(mask), self.target.select(mask), self.languages)


def _codes(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
