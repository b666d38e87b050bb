"""Preparation of text for tokenisation: surface forms, and grouping of characters with their marks."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from uwaga.errors import SettingsError

LINE_BREAK = re.compile(r"(\r\n|\n|\r)")
"""Pattern of a line break, with a capturing group, so that ``split`` also returns the line breaks."""
JOINER, JOINERS = "\u200d", "\u200c\u200d"
SKIN_TONES = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
HALFWIDTH_MARKS = "\uff9e\uff9f"
"""The voiced sound marks of halfwidth kana, which Unicode classifies as letters."""
MAX_MARKS = 30
FIRST_TAG, LAST_TAG = "\U000e0020", "\U000e007f"


def clusters(text: str) -> list[str]:
    """Return the characters of a text, each with its marks; joined, these strings equal the text."""
    starts = [index for index in range(1, len(text)) if not extends(text[index - 1], text[index])]
    return [text[start:end] for start, end in pairwise([0, *starts, len(text)])] if text else []


def compose(text: str) -> str:
    """Return a text in normalisation form C, except for characters with very many marks.

    Sorting the marks of a character takes quadratic time; :data:`MAX_MARKS` is the limit of the Stream-Safe
    Text Format (UAX 15, section 13).
    """
    parts = clusters(text)
    if max(map(len, parts), default=0) <= MAX_MARKS:
        return unicodedata.normalize("NFC", text)
    return "".join(part if len(part) > MAX_MARKS else unicodedata.normalize("NFC", part) for part in parts)


def extends(text_before: str, character: str) -> bool:
    """Return whether a character is a mark on the preceding character, or joined to it."""
    if text_before.isspace() or character.isspace():
        return False
    return text_before == JOINER or is_mark(character)


def is_control(character: str) -> bool:
    """Return whether a character is a control or format character (Cc or Cf)."""
    return unicodedata.category(character) in ("Cf", "Cc")


def is_mark(character: str) -> bool:
    """Return whether a character is a combining mark, joiner, variation selector, skin tone or tag."""
    if character < "\u0300":
        return False
    return (
        unicodedata.category(character)[0] == "M"
        or character in JOINERS
        or character in SKIN_TONES
        or character in HALFWIDTH_MARKS
        or FIRST_TAG <= character <= LAST_TAG
    )


def is_all_capitals(text: str) -> bool:
    """Return True for a text of at least two words with upper-case and without lower-case letters."""
    return text.isupper() and sum(word.isupper() for word in text.split()) >= 2


def _strip_punctuation(text: str) -> str:
    """Return a text without final punctuation, unless it consists of punctuation."""
    end = len(text)
    while end and (text[end - 1].isspace() or unicodedata.category(text[end - 1]).startswith("P")):
        end -= 1
    return text[:end] or text


FORMS: Mapping[str, Callable[[str], str]] = {
    "lower": str.lower,
    "upper": str.upper,
    "unpunctuated": _strip_punctuation,
}


def surface(text: str, form: str) -> str:
    """Return a text in a surface form: ``lower``, ``upper`` (all capitals) or ``unpunctuated``."""
    try:
        return FORMS[form](text)
    except KeyError:
        raise SettingsError(f"data.augment: no form {form!r}; choose from {', '.join(FORMS)}") from None


def choose_forms(shares: Mapping[str, float], draws: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the index into ``shares`` of the form of each pair, -1 for the unchanged text.

    Args:
        shares: probability of each form.
        draws: (pairs,) numbers drawn uniformly from [0, 1).

    Returns:
        (pairs,) the indices.
    """
    check_shares(shares.values())
    edges = np.cumsum(np.array(list(shares.values()), dtype=np.float64))  # (forms,)
    indices = np.searchsorted(edges, draws, side="right").astype(np.int64)  # (pairs,)
    return np.where(indices == len(shares), -1, indices)


def check_shares(shares: Iterable[float]) -> None:
    """Raise SettingsError if the shares of the surface forms add up to more than 1."""
    if (total := sum(shares)) > 1.0 + 1e-9:
        raise SettingsError(f"data.augment: the shares add up to {total:g}, more than 1")


def augment(text: str, shares: Mapping[str, float], generator: np.random.Generator) -> str:
    """Return a text in a randomly drawn surface form; ``shares`` is the probability of each form.

    One number is drawn from the generator.
    """
    (form,) = choose_forms(shares, generator.random(1)).tolist()
    return text if form < 0 else surface(text, list(shares)[form])
