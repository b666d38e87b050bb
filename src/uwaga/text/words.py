"""Words of a text, for what is said word by word: alignments, which count words from 0."""

from __future__ import annotations

import re
from typing import Literal

WORD = re.compile(r"\w+(?:[-'’]\w+)*|[^\w\s]")
"""Letters and digits, also with hyphens and apostrophes within; any other character but a space alone."""
WordKind = Literal["words", "spaces"]


def split_words(text: str, kind: WordKind = "words") -> list[str]:
    """The words of a text.

    ``words`` is by :data:`WORD`, which cuts punctuation off; ``spaces`` are stretches between white space, as
    tokenisers make them. Either way every character but white space is in one word.
    """
    return text.split() if kind == "spaces" else WORD.findall(text)
