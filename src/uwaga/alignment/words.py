"""Words of a text, for what is said word by word: alignments, which count words from 0."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

from uwaga.results.translation import Span


def _marks() -> str:
    """The combining marks of the world's scripts, as the ranges of a class of characters."""
    codes = {
        code
        for block in (range(0x300, 0x1E00), range(0xA600, 0xAC00), range(0xFE20, 0xFE30))
        for code in block
        if unicodedata.category(chr(code)).startswith("M")
    }
    first = sorted(code for code in codes if code - 1 not in codes)
    last = sorted(code for code in codes if code + 1 not in codes)
    return "".join(f"{chr(one)}-{chr(other)}" for one, other in zip(first, last, strict=True))


MARKS = _marks() + "\u200c\u200d"
"""Combining marks, and the joiners that shape letters."""
UNSPACED = (
    "\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46\u0e80-\u0eb0\u0eb2\u0eb3\u0ebd-\u0ec6\u1000-\u102a\u1780-\u17b3"
    "\u3005-\u3007\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9d\U00020000-\U0003ffff"
)
"""Letters of scripts that put no spaces between words: Thai, Lao, Burmese, Khmer, kana and Han."""
LETTERS = rf"[^\W{UNSPACED}]+(?:[{MARKS}]+[^\W{UNSPACED}]*)*"
WORD = re.compile(rf"{LETTERS}(?:[-'’]{LETTERS})*|[^\s{MARKS}][{MARKS}]*|[{MARKS}]")
"""Letters and digits with their marks, also with hyphens and apostrophes within; any other character but a
space alone, as is each letter of a script without spaces."""
SPACED = re.compile(r"\S+")
WordKind = Literal["words", "spaces"]


def split_words(text: str, kind: WordKind = "words") -> list[str]:
    """The words of a text.

    ``words`` is by :data:`WORD`, which cuts punctuation off; ``spaces`` are stretches between white space, as
    tokenisers make them. Either way every character but white space is in one word.
    """
    return text.split() if kind == "spaces" else WORD.findall(text)


def word_spans(text: str, kind: WordKind = "words") -> list[Span]:
    """The places of the words of a text, as :func:`split_words` cuts it."""
    return [found.span() for found in (SPACED if kind == "spaces" else WORD).finditer(text)]
