"""Text that is cut into pieces already: spaces stand between them, and a vocabulary numbers them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from uwaga.decoder import Symbols
from uwaga.errors import DataError


class SpacedPieces:
    """Obeys :class:`uwaga.tokenizers.subwords.Subwords`.

    Args:
        vocabulary: ids by pieces.
        symbols: the special token ids.
        name: where it comes from, for messages.
        before: ids that stand before a source.
        behind: ids that stand behind it.
    """

    def __init__(
        self,
        vocabulary: Mapping[str, int],
        symbols: Symbols,
        name: str,
        before: Sequence[int] = (),
        behind: Sequence[int] = (),
    ) -> None:
        self._ids = vocabulary
        self._pieces = {number: piece for piece, number in vocabulary.items()}
        self._symbols, self._name = symbols, name
        self._dropped = frozenset((symbols.start, symbols.end, symbols.pad))
        self._before, self._behind = list(before), list(behind)

    @property
    def symbols(self) -> Symbols:
        """The special token ids."""
        return self._symbols

    @property
    def model_bytes(self) -> bytes:
        """The vocabulary and what stands around a source."""
        return json.dumps([self._ids, self._before, self._behind], sort_keys=True).encode()

    def encode(self, text: str) -> list[int]:
        """The ids of a text's pieces, without what stands around them."""
        return [self._ids.get(piece, self._symbols.unknown) for piece in text.split(" ") if piece]

    def add_special_tokens(self, ids: Sequence[int]) -> list[int]:
        """The ids with the special tokens around them."""
        return [*self._before, *ids, *self._behind]

    def language_prefix(self, text: str) -> str:
        """Nothing: a mark of a language is a piece like others."""
        return ""

    def decode(self, ids: Sequence[int]) -> str:
        """The pieces of ids with spaces between them, without special symbols.

        Raises:
            DataError: an id is outside the vocabulary.
        """
        return " ".join(self.pieces([token for token in ids if token not in self._dropped]))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The pieces of ids.

        Raises:
            DataError: an id is outside the vocabulary.
        """
        for token in ids:
            if token not in self._pieces:
                raise DataError(f"{self._name}: token id {token} is outside the vocabulary")
        return [self._pieces[token] for token in ids]
