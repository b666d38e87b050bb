"""What text is turned into before it is cut into subwords."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from sentencepiece import SentencePieceNormalizer

if TYPE_CHECKING:
    from uwaga.settings import TextSettings


def normalise(text: str, settings: TextSettings) -> str:
    """The text that a tokeniser with these settings keeps: ``decode(encode(text))``.

    ``identity`` changes nothing. ``nfkc`` is SentencePiece's table of Unicode NFKC (compatibility
    composition), which the model file carries, so that it means the same wherever the file is read.
    Spaces are kept as they are, at both ends too.
    """
    if settings.normalisation == "identity":
        return text
    normalised: str = _nfkc().normalize(text)
    return normalised


@cache
def _nfkc() -> SentencePieceNormalizer:
    return SentencePieceNormalizer(
        rule_name="nfkc", add_dummy_prefix=False, escape_whitespaces=False, remove_extra_whitespaces=False
    )


def in_capitals(text: str) -> bool:
    """Whether a text is shouted: two words or more with upper-case letters and no lower-case one."""
    return text.isupper() and sum(word.isupper() for word in text.split()) >= 2
