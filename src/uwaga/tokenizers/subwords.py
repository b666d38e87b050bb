"""What the translator needs of a tokeniser, whatever library stands behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from uwaga.decoder import Symbols


class Subwords(Protocol):
    """Text to ids and back, on one side of a model."""

    @property
    def symbols(self) -> Symbols:
        """The special token ids."""
        ...

    @property
    def model_bytes(self) -> bytes:
        """All that decides the ids; two tokenisers with the same are the same."""
        ...

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without start and end symbols."""
        ...

    def add_special_tokens(self, ids: Sequence[int]) -> list[int]:
        """The ids with the special tokens that the model expects around them."""
        ...

    def language_prefix(self, text: str) -> str:
        """The beginning of a text that each of its sentences needs, such as a target language's token."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, special tokens dropped."""
        ...

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The pieces of ids as they stand in the vocabulary."""
        ...


class TrainingSubwords(Subwords, Protocol):
    """What training needs beside: rows of many texts, which lack the end symbol alone."""

    @property
    def name(self) -> str:
        """Where it came from, for messages."""
        ...

    @property
    def size(self) -> int:
        """Tokens of the vocabulary."""
        ...

    @property
    def tags(self) -> Mapping[str, int]:
        """The ids of the tags, each one piece, that a source may begin with (see ``tokenizers.tags``)."""
        ...

    def encode_batch(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        """The rows of many texts, on ``threads`` threads; :attr:`symbols` says what belongs behind them."""
        ...

    def sample(self, texts: Sequence[str], alpha: float, seed: int) -> list[list[int]]:
        """Rows of segmentations drawn at random; see :meth:`uwaga.tokenizers.tokeniser.Tokeniser.sample`."""
        ...
