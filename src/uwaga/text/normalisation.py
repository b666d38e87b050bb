"""What text is turned into before it is cut into subwords."""

from __future__ import annotations

from functools import cache

from sentencepiece import SentencePieceNormalizer

from uwaga.config import TextSettings


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
