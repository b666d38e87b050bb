"""SentencePiece with a vocabulary of its own, and any special tokens around a source, or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sentencepiece import SentencePieceProcessor

from uwaga.decoder import Symbols
from uwaga.tokenizers.marian import MarianTokeniser


class FramedPieces(MarianTokeniser):
    """As Marian's tokeniser, but what stands around a source is said: ``before`` and ``behind`` it, ids."""

    def __init__(
        self,
        model: SentencePieceProcessor,
        vocabulary: Mapping[str, int],
        symbols: Symbols,
        name: str,
        before: Sequence[int] = (),
        behind: Sequence[int] = (),
    ) -> None:
        super().__init__(model, vocabulary, symbols, name)
        self._before, self._behind = list(before), list(behind)

    @property
    def model_bytes(self) -> bytes:
        """The SentencePiece model, the vocabulary and what stands around a source."""
        return super().model_bytes + repr((self._before, self._behind)).encode()

    def add_special_tokens(self, ids: Sequence[int]) -> list[int]:
        """The ids with the special tokens around them."""
        return [*self._before, *ids, *self._behind]
