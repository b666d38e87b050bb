"""Rules about what the two sides say: texts, punctuation, numbers, addresses, encodings, markup."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import cache

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PositiveInt

from uwaga.cleaning.pairs import CODE_POINTS, TERMINAL, Mask, PairBlock, Side
from uwaga.cleaning.rule import Rule, register
from uwaga.settings.parsing import StrictModel


class IdenticalSettings(StrictModel):
    """What counts as the same, and what may be."""

    normalise: bool = Field(True, description="without regard to case, punctuation and compatibility forms")
    free_words: NonNegativeInt = Field(0, description="texts of at most so many words may be the same")


@register("identical", "both sides are the same", IdenticalSettings)
class Identical(Rule[IdenticalSettings]):
    """Both sides are one text."""

    def rejects(self, pairs: PairBlock) -> Mask:
        if self.settings.normalise:
            same = pairs.source.folds_as(pairs.target)
        else:
            same = pairs.source.equals(pairs.target)
        return same & (pairs.source.words > self.settings.free_words)


class PunctuationSettings(StrictModel):
    """How far the ends of sentences may differ."""

    min_score: float = Field(-2.0, le=0.0, description="0 for one on each side, lower for more and unequal")


@register("punctuation", "the sides end sentences differently often", PunctuationSettings)
class Punctuation(Rule[PunctuationSettings]):
    """``-log(1 + |s - t| + max(s - 1, 0) + max(t - 1, 0))`` for ``s`` and ``t`` marks that end sentences.

    Vázquez et al. 2019 (The University of Helsinki submission to the WMT19 parallel corpus filtering task),
    section 3.1.
    """

    def rejects(self, pairs: PairBlock) -> Mask:
        source, target = pairs.source.count_bits(TERMINAL), pairs.target.count_bits(TERMINAL)
        penalty = np.abs(source - target) + np.maximum(source - 1, 0) + np.maximum(target - 1, 0)
        gone: Mask = -np.log1p(penalty) < self.settings.min_score
        return gone


class NumberSettings(StrictModel):
    """How alike the digits must be."""

    min_similarity: float = Field(0.5, ge=0.0, le=1.0, description="1 where both sides have the same digits")


@register("numbers", "the sides have different numbers", NumberSettings)
class Numbers(Rule[NumberSettings]):
    """The ratio of Ratcliff and Obershelp between the digits of both sides, in their order and without zeros.

    Vázquez et al. 2019, section 3.1: zeros are left out because 10 000 may be "10 thousand". Digits of any
    script count by their values.
    """

    def rejects(self, pairs: PairBlock) -> Mask:
        source, target = pairs.source.digits, pairs.target.digits
        gone = ~source.equals(target)
        for index in np.flatnonzero(gone).tolist():
            ratio = SequenceMatcher(None, source.text(index), target.text(index)).ratio()
            gone[index] = ratio < self.settings.min_similarity
        return gone


ADDRESS = re.compile(
    r"(?:https?://|ftp://|www\.)[^\s<>\"')\]]+|[A-Za-z0-9_.+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+",
    re.IGNORECASE,
)
TRAILING = ".,;:!?…/"


class AddressSettings(StrictModel):
    """What may be there."""

    allow: bool = Field(True, description="addresses may be there if both sides have the same ones")


@register("addresses", "URLs or e-mail addresses are on one side only", AddressSettings)
class Addresses(Rule[AddressSettings]):
    """Both sides must name the same addresses, in any order."""

    def rejects(self, pairs: PairBlock) -> Mask:
        found = [_addresses(side) for side, _ in pairs.sides]
        gone = np.zeros(len(pairs), np.bool_)
        for index in {*found[0], *found[1]}:
            same = sorted(found[0].get(index, [])) == sorted(found[1].get(index, []))
            gone[index] = not same or not self.settings.allow
        return gone


def _addresses(texts: Side) -> dict[int, list[str]]:
    found = {}
    for index in np.flatnonzero(_address_candidates(texts)).tolist():
        if matches := ADDRESS.findall(texts.text(index)):
            found[index] = [match.rstrip(TRAILING).lower() for match in matches]
    return found


def _address_candidates(texts: Side) -> Mask:
    """(pairs,) which have an @, a :// or a www. in them."""
    codes = np.append(texts.codes, np.zeros(3, np.uint32))
    here, next_, third, fourth = codes[:-3], codes[1:-2], codes[2:-1], codes[3:]
    scheme = (here == ord(":")) & (next_ == ord("/")) & (third == ord("/"))
    letters = [one | 32 == ord("w") for one in (here, next_, third)]
    web = letters[0] & letters[1] & letters[2] & (fourth == ord("."))
    return texts.count((here == ord("@")) | scheme | web) > 0


def _misread(first: int, last: int) -> str:
    """The characters that bytes become in Latin-1 and in Windows-1252."""
    codes = bytes(range(first, last + 1))
    return "".join(sorted(set(codes.decode("latin-1")) | set(codes.decode("cp1252", "ignore"))))


def _misread_class(first: int, last: int) -> str:
    """The same as a class of a regular expression."""
    return "[" + "".join(map(re.escape, _misread(first, last))) + "]"


_NEXT = _misread_class(0x80, 0xBF)
MOJIBAKE = re.compile(
    f"[ÂÃ]{_NEXT}"  # Latin-1's own letters and signs
    f"|[ÄÅ]{_misread_class(0x80, 0xBF)}(?=[^\\W\\d_])"  # Latin Extended-A inside a word
    f"|â{_misread_class(0x80, 0x84)}{_NEXT}"  # dashes, quotes, signs of currency
    f"|(?:[ÎÏÐÑ×ØÙ]{_NEXT}){{2}}"  # two letters of Greek, Cyrillic, Hebrew or Arabic on end
    f"|[ã-é]{_NEXT}{{2}}|ð{_misread_class(0x90, 0xA0)}{_NEXT}{{2}}"  # East Asia; emoji
)
"""The lead byte of UTF-8 as a letter, then those that go on; hardly a language writes them so."""


class MojibakeSettings(StrictModel):
    """How much of it is too much."""

    least: PositiveInt = Field(1, description="a pair goes that has as many such places")


@register("mojibake", "characters were garbled by a wrong encoding (cafÃ© for café)", MojibakeSettings)
class Mojibake(Rule[MojibakeSettings]):
    """Sequences that are UTF-8 taken for Latin-1 or Windows-1252.

    Nothing is mended: whoever garbled one line may have lost bytes of the next.
    """

    def rejects(self, pairs: PairBlock) -> Mask:
        count = np.zeros(len(pairs), np.int64)
        for side, _ in pairs.sides:
            for index in np.flatnonzero(_mojibake_candidates(side)).tolist():
                count[index] += len(MOJIBAKE.findall(side.text(index)))
        return count >= self.settings.least


@cache
def _following() -> NDArray[np.bool_]:
    table = np.zeros(CODE_POINTS, np.bool_)
    table[[ord(character) for character in _misread(0x80, 0xBF)]] = True
    return table


def _mojibake_candidates(texts: Side) -> Mask:
    """(pairs,) in which a letter from Â to ð stands before what a byte that goes on looks like."""
    codes = np.append(texts.codes, np.zeros(1, np.uint32))
    lead = (codes[:-1] >= 0xC2) & (codes[:-1] <= 0xF0)
    return texts.count(lead & _following()[codes[1:]]) > 0


MARKUP = re.compile(r"</?[A-Za-z][^<>\n]*>|<!--|&(?:[a-z]{2,8}|#[0-9]{1,7}|#x[0-9a-f]{1,6});", re.IGNORECASE)


class MarkupSettings(StrictModel):
    """What of it may be there."""

    allow_equal: bool = Field(False, description="tags may be there if both sides have as many")


@register("markup", "a side holds tags or entities of HTML", MarkupSettings)
class Markup(Rule[MarkupSettings]):
    """Tags, comments and entities. Off unless asked for: programs' texts have them for good reasons."""

    default = False

    def rejects(self, pairs: PairBlock) -> Mask:
        counts = []
        for side, _ in pairs.sides:
            places = np.array([match.start() for match in MARKUP.finditer(side.joined)], np.int64)
            counts.append(np.bincount(side.lines_at(places), minlength=len(pairs)))
        if self.settings.allow_equal:
            counts = [np.abs(counts[0] - counts[1])]
        gone: Mask = np.sum(counts, axis=0) > 0
        return gone
