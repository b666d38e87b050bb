"""What the translator needs of a tokeniser, whatever library stands behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from uwaga.contracts import Symbols


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
