"""Rules about the content of the sides: equality, punctuation, numbers, addresses, encoding, markup."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import cache

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PositiveInt

from uwaga.settings.parsing import StrictModel
from uwaga_corpora.cleaning.pairs import CODE_POINTS, TERMINAL, Mask, PairBlock, Side
from uwaga_corpora.cleaning.rule import Rule


class IdenticalSettings(StrictModel):
    """Criteria for identical sides."""

    normalise: bool = Field(True, description="ignore case, punctuation and compatibility forms")
    free_words: NonNegativeInt = Field(0, description="texts of at most this many words may be identical")


class Identical(Rule[IdenticalSettings]):
    """A rule that rejects untranslated pairs, whose sides are the same text."""

    summary = "both sides are identical"
    settings_type = IdenticalSettings

    def rejects(self, pairs: PairBlock) -> Mask:
        if self.settings.normalise:
            is_equal = pairs.source.equals_folded(pairs.target)
        else:
            is_equal = pairs.source.equals(pairs.target)
        return is_equal & (pairs.source.words > self.settings.free_words)


class PunctuationSettings(StrictModel):
    """Limits on differences in sentence-final punctuation."""

    min_score: float = Field(
        -2.0,
        le=0.0,
        description="minimum score: 0 if both sides have one final mark or none, lower for more marks or "
        "unequal numbers",
    )


class Punctuation(Rule[PunctuationSettings]):
    """A rule that rejects pairs by the score ``-log(1 + |s - t| + max(s - 1, 0) + max(t - 1, 0))``.

    ``s`` and ``t`` are the numbers of sentence-final marks of the two sides.

    Vázquez et al. 2019 (The University of Helsinki submission to the WMT19 parallel corpus filtering task),
    section 3.1.
    """

    summary = "the sides differ in sentence-final punctuation"
    settings_type = PunctuationSettings

    def rejects(self, pairs: PairBlock) -> Mask:
        source, target = pairs.source.count_bits(TERMINAL), pairs.target.count_bits(TERMINAL)
        penalty = np.abs(source - target) + np.maximum(source - 1, 0) + np.maximum(target - 1, 0)
        is_rejected: Mask = -np.log1p(penalty) < self.settings.min_score
        return is_rejected


class NumberSettings(StrictModel):
    """The required similarity of the digits."""

    min_similarity: float = Field(
        0.5, ge=0.0, le=1.0, description="minimum similarity of the digits, 1 if they are the same"
    )


class Numbers(Rule[NumberSettings]):
    """A rule that rejects pairs whose sides have different nonzero digits (Vázquez et al. 2019, §3.1).

    The digits are compared by their Ratcliff-Obershelp similarity. Zeros are ignored because 10 000 may be
    translated as "10 thousand". Digits of all scripts are compared by their values.
    """

    summary = "the sides have different numbers"
    settings_type = NumberSettings

    def rejects(self, pairs: PairBlock) -> Mask:
        source, target = pairs.source.digits, pairs.target.digits
        is_rejected = ~source.equals(target)
        for index in np.flatnonzero(is_rejected).tolist():
            ratio = SequenceMatcher(None, source.text(index), target.text(index)).ratio()
            is_rejected[index] = ratio < self.settings.min_similarity
        return is_rejected


ADDRESS = re.compile(
    r"(?:https?://|ftp://|www\.)[^\s<>\"')\]]+|(?<![A-Za-z0-9_.+-])[A-Za-z0-9_.+-]++@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+",
    re.IGNORECASE,
)
TRAILING_PUNCTUATION = ".,;:!?…/"


class AddressSettings(StrictModel):
    """Settings for the allowed addresses."""

    allow: bool = Field(True, description="addresses are allowed if both sides have the same ones")


class Addresses(Rule[AddressSettings]):
    """A rule that rejects pairs whose sides do not contain the same addresses, in any order."""

    summary = "the sides have different URLs or e-mail addresses"
    settings_type = AddressSettings

    def rejects(self, pairs: PairBlock) -> Mask:
        sources, targets = (_addresses(side) for side, _ in pairs.sides)
        is_rejected = np.zeros(len(pairs), np.bool_)
        for index in {*sources, *targets}:
            are_equal = sorted(sources.get(index, [])) == sorted(targets.get(index, []))
            is_rejected[index] = not are_equal or not self.settings.allow
        return is_rejected


def _addresses(texts: Side) -> dict[int, list[str]]:
    addresses = {}
    for index in np.flatnonzero(_address_candidates(texts)).tolist():
        if matches := ADDRESS.findall(texts.text(index)):
            addresses[index] = [match.rstrip(TRAILING_PUNCTUATION).lower() for match in matches]
    return addresses


def _address_candidates(texts: Side) -> Mask:
    """Return the mask (pairs,) of texts that contain ``@``, ``://`` or ``www.``."""
    codes = np.append(texts.codes, np.zeros(3, np.uint32))
    first, second, third, fourth = codes[:-3], codes[1:-2], codes[2:-1], codes[3:]
    scheme = (first == ord(":")) & (second == ord("/")) & (third == ord("/"))
    letters = [code | 32 == ord("w") for code in (first, second, third)]
    web = letters[0] & letters[1] & letters[2] & (fourth == ord("."))
    return texts.count((first == ord("@")) | scheme | web) > 0


def _misread_bytes(first: int, last: int) -> str:
    """Return the characters of a range of bytes in Latin-1 and in Windows-1252."""
    codes = bytes(range(first, last + 1))
    return "".join(sorted(set(codes.decode("latin-1")) | set(codes.decode("cp1252", "ignore"))))


def _misread_class(first: int, last: int) -> str:
    """Return the characters of :func:`_misread_bytes` as a character class of a regular expression."""
    return "[" + "".join(map(re.escape, _misread_bytes(first, last))) + "]"


_CONTINUATION = _misread_class(0x80, 0xBF)
MOJIBAKE = re.compile(
    f"[ÂÃ]{_CONTINUATION}"  # Latin-1's own letters and signs
    f"|[ÄÅ]{_misread_class(0x80, 0xBF)}(?=[^\\W\\d_])"  # Latin Extended-A inside a word
    f"|â{_misread_class(0x80, 0x84)}{_CONTINUATION}"  # dashes, quotes, signs of currency
    f"|(?:[ÎÏÐÑ×ØÙ]{_CONTINUATION}){{2}}"  # two successive letters of Greek, Cyrillic, Hebrew or Arabic
    f"|[ã-é]{_CONTINUATION}{{2}}|ð{_misread_class(0x90, 0xA0)}{_CONTINUATION}{{2}}"  # East Asia; emoji
)
"""A lead byte and continuation bytes of UTF-8 read as characters, in combinations that are rare in text."""


class MojibakeSettings(StrictModel):
    """Limits on garbled characters."""

    least: PositiveInt = Field(
        1, description="a pair is rejected if it has at least this number of garbled characters"
    )


class Mojibake(Rule[MojibakeSettings]):
    """A rule that rejects UTF-8 that was decoded as Latin-1 or Windows-1252.

    Lines are not repaired, because a corpus with garbled lines may also have lost bytes.
    """

    summary = "characters were garbled by a wrong encoding (cafÃ© for café)"
    settings_type = MojibakeSettings

    def rejects(self, pairs: PairBlock) -> Mask:
        count = np.zeros(len(pairs), np.int64)
        for side, _ in pairs.sides:
            for index in np.flatnonzero(_mojibake_candidates(side)).tolist():
                count[index] += len(MOJIBAKE.findall(side.text(index)))
        return count >= self.settings.least


@cache
def _misread_continuations() -> NDArray[np.bool_]:
    table = np.zeros(CODE_POINTS, np.bool_)
    table[[ord(character) for character in _misread_bytes(0x80, 0xBF)]] = True
    return table


def _mojibake_candidates(texts: Side) -> Mask:
    """Return the mask (pairs,) of texts with a misread continuation byte after a letter from Â to ð."""
    codes = np.append(texts.codes, np.zeros(1, np.uint32))
    lead_bytes = (codes[:-1] >= 0xC2) & (codes[:-1] <= 0xF0)
    return texts.count(lead_bytes & _misread_continuations()[codes[1:]]) > 0


MARKUP = re.compile(r"</?[A-Za-z][^<>\n]*>|<!--|&(?:[a-z]{2,8}|#[0-9]{1,7}|#x[0-9a-f]{1,6});", re.IGNORECASE)


class MarkupSettings(StrictModel):
    """Settings for the allowed markup."""

    allow_equal: bool = Field(
        False, description="tags are allowed if both sides have the same number of them"
    )


class Markup(Rule[MarkupSettings]):
    """A rule that rejects pairs with tags, comments or entities.

    This is not a default rule, because texts of user interfaces contain markup.
    """

    summary = "a side contains HTML tags or entities"
    settings_type = MarkupSettings
    default = False

    def rejects(self, pairs: PairBlock) -> Mask:
        counts = []
        for side, _ in pairs.sides:
            positions = np.array([match.start() for match in MARKUP.finditer(side.joined)], np.int64)
            counts.append(np.bincount(side.text_indices(positions), minlength=len(pairs)))
        if self.settings.allow_equal:
            counts = [np.abs(counts[0] - counts[1])]
        is_rejected: Mask = np.sum(counts, axis=0) > 0
        return is_rejected
