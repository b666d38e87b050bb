"""The text of a sentence's translation from its tokens, and its final punctuation."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from uwaga.tokenizers.subwords import Subwords
from uwaga.translator.text import Sentence

LINE_BREAK = re.compile(r"[\r\n]")
REPLACEMENT_CHARACTER = "\ufffd"
"""The character to which invalid bytes are decoded."""
STOPS = ".!。！"
"""Final punctuation that models trained on sentences add to labels and headings."""
MIN_LAST_WORD_LETTERS = 3
"""Minimum number of letters of a last word before a full stop; shorter words may be abbreviations."""


def lacks_final_punctuation(text: str) -> bool:
    """Return True if a text ends with a letter or a digit instead of a punctuation mark."""
    text = text.rstrip()
    return bool(text) and unicodedata.category(text[-1])[0] in "LMN"


def without_stop(text: str) -> str:
    """Return a translation without the final full stop or exclamation mark that its source lacks."""
    stripped = text.rstrip()
    last = stripped[:-1].rpartition(" ")[2]
    return (
        stripped[:-1]
        if stripped[-1:] in STOPS and last.isalpha() and len(last) >= MIN_LAST_WORD_LETTERS
        else text
    )


def decode(tokens: Sequence[int], target: Subwords) -> str:
    """Return the text of tokens, without bytes that do not form a character."""
    return target.decode(tokens).replace(REPLACEMENT_CHARACTER, "")


def sentence_text(tokens: Sequence[int], target: Subwords, sentence: Sentence | None = None) -> str:
    """Return the text of a translated sentence; line breaks that a model spelled in bytes become spaces.

    Args:
        tokens: the tokens of the translation.
        target: the target tokeniser.
        sentence: the source sentence; if it lacks final punctuation, a full stop is removed from the text.
    """
    text = LINE_BREAK.sub(" ", decode(tokens, target))
    return without_stop(text) if sentence is not None and sentence.lacks_final_punctuation else text
