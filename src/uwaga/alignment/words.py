"""Splitting of texts into words for word alignment."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

from uwaga.results.translation import Span


def _marks() -> str:
    """Return the combining marks of all scripts as ranges for a character class of a regular expression."""
    codes = {
        code
        for block in (range(0x300, 0x1E00), range(0xA600, 0xAC00), range(0xFE20, 0xFE30))
        for code in block
        if unicodedata.category(chr(code)).startswith("M")
    }
    first_codes = sorted(code for code in codes if code - 1 not in codes)
    last_codes = sorted(code for code in codes if code + 1 not in codes)
    return "".join(f"{chr(start)}-{chr(end)}" for start, end in zip(first_codes, last_codes, strict=True))


MARKS = _marks() + "\u200c\u200d"
"""Combining marks and zero-width joiners."""
UNSPACED_LETTERS = (
    "\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46\u0e80-\u0eb0\u0eb2\u0eb3\u0ebd-\u0ec6\u1000-\u102a\u1780-\u17b3"
    "\u3005-\u3007\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9d\U00020000-\U0003ffff"
)
"""Letters of scripts without spaces between words: Thai, Lao, Burmese, Khmer, kana and Han."""
WORD = re.compile(
    rf"(?=\w)(?>[-'’]?[^\W{UNSPACED_LETTERS}]++|[{MARKS}]++)+|(?![{MARKS}])\S[{MARKS}]*+|[{MARKS}]"
)
"""A word: letters and digits with their marks and inner hyphens and apostrophes, or a single other character
that is not white space, such as a punctuation mark or a letter of a script without spaces."""
SPACED_WORD = re.compile(r"\S+")
WordKind = Literal["words", "spaces"]


def split_words(text: str, kind: WordKind = "words") -> list[str]:
    """Return the words of a text.

    The kind ``words`` splits by :data:`WORD`, which separates punctuation; ``spaces`` splits at white space.
    All characters except white space belong to a word.
    """
    return text.split() if kind == "spaces" else WORD.findall(text)


def word_spans(text: str, kind: WordKind = "words") -> list[Span]:
    """Return the spans of the words of a text; see :func:`split_words`."""
    return [match.span() for match in (SPACED_WORD if kind == "spaces" else WORD).finditer(text)]
