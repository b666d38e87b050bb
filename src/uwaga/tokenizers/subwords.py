"""Protocols that the tokenisers of all libraries implement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from uwaga.decoder import Symbols

UNASSIGNED = "\U0002fa20"
"""An unassigned character, which no vocabulary contains; its UTF-8 bytes are F0 AF A8 A0."""
BYTE_PIECES = [f"<0x{byte:02X}>" for byte in range(256)]


class Subwords(Protocol):
    """A tokeniser of one side of a model: text to ids and back."""

    @property
    def symbols(self) -> Symbols:
        """The special token ids."""
        ...

    @property
    def model_bytes(self) -> bytes:
        """Serialisation of everything that determines the ids, for comparing tokenisers."""
        ...

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without start and end symbols."""
        ...

    def add_special_tokens(self, ids: Sequence[int]) -> list[int]:
        """Return the ids, surrounded by the special tokens that the model expects."""
        ...

    def language_prefix(self, text: str) -> str:
        """Return the prefix of a text that each of its sentences needs, such as a target-language tag."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Decode ids to text, without special tokens."""
        ...

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the vocabulary pieces for the given ids."""
        ...


class TrainingSubwords(Subwords, Protocol):
    """A tokeniser for training, which encodes each text to a row of ids without the end symbol."""

    @property
    def name(self) -> str:
        """Origin of the tokeniser, for messages."""
        ...

    @property
    def size(self) -> int:
        """Size of the vocabulary."""
        ...

    @property
    def tags(self) -> Mapping[str, int]:
        """Ids of the tags that a source may begin with; each tag is one piece."""
        ...

    def encode_batch(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        """Return the ids of each text, without the end symbol, using ``threads`` threads."""
        ...

    def sample(self, texts: Sequence[str], alpha: float, seed: int) -> list[list[int]]:
        """Return the ids of a randomly sampled segmentation of each text; see
        :meth:`uwaga.tokenizers.tokeniser.Tokeniser.sample`.
        """
        ...


def byte_tokens(subwords: Subwords) -> range:
    """Return the ids of the pieces ``<0x80>`` to ``<0xFF>``, which spell characters that are not pieces.

    Every vocabulary trained by SentencePiece contains these pieces in the order of the bytes. For other
    vocabularies, the range is empty.
    """
    ids = subwords.encode(UNASSIGNED)
    pieces = subwords.pieces(ids)
    first_byte_id = ids[pieces.index(BYTE_PIECES[0xF0])] - 0xF0 if BYTE_PIECES[0xF0] in pieces else -1
    tokens = range(first_byte_id, first_byte_id + len(BYTE_PIECES))
    return tokens[0x80:] if first_byte_id >= 0 and subwords.pieces(tokens) == BYTE_PIECES else range(0)


def complete_prefix_length(tokens: Sequence[int], bytes_: range) -> int:
    """Return the number of tokens before the first byte token that is not part of a complete character.

    Args:
        tokens: the ids of a text.
        bytes_: the ids returned by :func:`byte_tokens`.
    """
    if not tokens or min(tokens) >= bytes_.stop:  # almost always, and much faster
        return len(tokens)
    position = 0
    while position < len(tokens):
        end = position
        while end < len(tokens) and tokens[end] in bytes_:
            end += 1
        if end > position:
            run = bytes(token - bytes_.start + 0x80 for token in tokens[position:end])
            try:
                run.decode()
            except UnicodeDecodeError as error:
                return position + error.start
        position = end + 1
    return len(tokens)
