"""The characters that a tokeniser knows; others reach a model as unknown symbols or as bytes."""

from __future__ import annotations

import re
import unicodedata

from uwaga.tokenizers.subwords import Subwords

BYTE_PIECE = re.compile(r"<0x[0-9A-F]{2}>")
ELLIPSIS = "…"


class Characters:
    """The characters that a tokeniser knows.

    A character that the tokeniser normalises is known if that preserves its meaning: not ½, ², ™ or ….

    Args:
        tokeniser: the tokeniser of a model's source side.
        knows_bytes: whether the model can read characters that are spelled in bytes.
    """

    def __init__(self, tokeniser: Subwords, knows_bytes: bool = False) -> None:
        self._tokeniser, self._knows_bytes = tokeniser, knows_bytes
        self._known: set[str] = set()
        self._unknown: set[str] = set()

    def unknown(self, text: str) -> set[str]:
        """Return the characters of a text that the tokeniser does not know."""
        characters = set(text) - self._known
        if not characters:
            return characters
        for character in characters - self._unknown:
            (self._known if self._is_known(character) else self._unknown).add(character)
        return characters & self._unknown

    def _is_known(self, character: str) -> bool:
        category = unicodedata.category(character)
        if category[0] in "CZM" and category != "Co":
            return True  # white space, controls, joiners and marks: normalisation removes or combines them
        if "\uff00" < character < "\uffef":
            return True  # full-width forms, which normalisation makes ordinary characters
        if character in "-'":
            return True  # a word would be cut at it
        ids = self._tokeniser.encode(character)
        if self._tokeniser.symbols.unknown in ids:
            return False
        pieces = self._tokeniser.pieces(ids)
        if not self._knows_bytes and any(map(BYTE_PIECE.fullmatch, pieces)):
            return False
        is_normalised = character not in "".join(pieces)
        return not is_normalised or not (category == "No" or category[0] == "S" or character == ELLIPSIS)
