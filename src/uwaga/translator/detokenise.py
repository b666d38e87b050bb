"""The text of a sentence's translation from its tokens, without a full stop that its source lacks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from uwaga.tokenizers.subwords import Subwords

LINE_BREAK = re.compile(r"[\r\n]")
REPLACEMENT_CHARACTER = "\ufffd"
"""The character to which invalid bytes are decoded."""
STOPS = ".!。！"
"""Final punctuation that models trained on sentences add to labels and headings."""
MIN_LAST_WORD_LETTERS = 3
"""Minimum number of letters of a last word before a full stop; shorter words may be abbreviations."""


def without_stop(text: str) -> str:
    """Return a translation without the final full stop or exclamation mark that its source lacks."""
    stripped_text = text.rstrip()
    last_word = stripped_text[:-1].rpartition(" ")[2]
    return (
        stripped_text[:-1]
        if stripped_text[-1:] in STOPS and last_word.isalpha() and len(last_word) >= MIN_LAST_WORD_LETTERS
        else text
    )


def decode(tokens: Sequence[int], target: Subwords) -> str:
    """Return the text of tokens, without bytes that do not form a character."""
    return target.decode(tokens).replace(REPLACEMENT_CHARACTER, "")


def sentence_text(tokens: Sequence[int], target: Subwords, lacks_final_punctuation: bool = False) -> str:
    """Return the text of a translated sentence; line breaks that a model spelled in bytes become spaces.

    Args:
        tokens: the tokens of the translation.
        target: the target tokeniser.
        lacks_final_punctuation: whether the source sentence lacks it; a full stop is then removed.
    """
    text = LINE_BREAK.sub(" ", decode(tokens, target))
    return without_stop(text) if lacks_final_punctuation else text
