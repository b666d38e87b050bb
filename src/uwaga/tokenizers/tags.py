"""Tags: pieces that stand before a source and say what is wanted of it, such as its target language.

``>>deu<<`` is OPUS-MT's form, ``<2de>`` that of Johnson et al. 2017 (section 3); both are of a language. Any
other, such as ``<BT>`` for back-translated sources (Caswell et al. 2019), says what its corpus is.
"""

from __future__ import annotations

import re

from uwaga.languages.codes import TAG

LANGUAGE_TAG = re.compile(r">>([^<>\s]+)<<|<2([^<>\s]+)>")
_CANDIDATE = re.compile(rb">>[^<>\s]{1,60}<<|<[^<>\s]{1,60}>")


def tag_language(tag: str) -> str | None:
    """The code of the language that a tag is of, None for another tag."""
    found = LANGUAGE_TAG.fullmatch(tag)
    return (found[1] or found[2]) if found else None


def tag_like_pieces(model: bytes) -> list[str]:
    """The pieces of a serialised SentencePiece model that look like tags, special ones too, sorted."""
    found = set()
    for match in _CANDIDATE.finditer(model):
        piece = match.group()
        if model[max(0, match.start() - 2) : match.start()] == bytes(
            (0x0A, len(piece))
        ):  # a field of its own
            found.add(piece.decode("utf-8", "replace"))
    return sorted(piece for piece in found if TAG.fullmatch(piece))


def language_tags(model: bytes) -> list[str]:
    """The languages' tags of a serialised SentencePiece model, sorted."""
    return [piece for piece in tag_like_pieces(model) if LANGUAGE_TAG.fullmatch(piece)]
