"""SentencePiece models (Kudo and Richardson 2018), which the native engine uses to split and join texts."""

from __future__ import annotations

from pathlib import Path

from uwaga.engine import _core
from uwaga.errors import ModelError
from uwaga.tokenizers.pretrained_files import read_bytes

MARK = "\u2581"
"""SentencePiece's character for spaces."""


class SentencePieceModel(_core.SentencePiece):
    """A SentencePiece model, and the bytes of its file."""

    def __init__(self, content: bytes, name: str, remedy: str = "fetch it again") -> None:
        try:
            super().__init__(content)
        except ValueError as error:
            raise ModelError(f"{name}: damaged or not a SentencePiece model ({error}); {remedy}") from None
        self.content = content

    @property
    def unknown(self) -> int:
        """The id of the unknown symbol."""
        return self.symbols[3]

    def all_pieces(self) -> list[str]:
        """Return the pieces, in the order of their ids."""
        return list(map(self.piece, range(len(self))))


def read_sentencepiece(path: Path) -> SentencePieceModel:
    """Read a SentencePiece model."""
    return SentencePieceModel(read_bytes(path), str(path))
