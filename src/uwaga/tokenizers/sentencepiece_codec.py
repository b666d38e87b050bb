"""SentencePiece models whose pieces a pretrained family numbers in its own way."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from sentencepiece import SentencePieceProcessor

from uwaga.tokenizers.pretrained_files import Special

MARK = "\u2581"
"""SentencePiece writes a space as this."""


class SentencePieceCodec:
    """Obeys :class:`uwaga.tokenizers.framed.Codec`.

    Args:
        model: what cuts the text.
        numbers: the model's id of each piece, in SentencePiece's order; -1 for one that it does not have.
        added: tokens that text may spell, by id.
        unknown: id of pieces that have none.
        more: further pieces that only the vocabulary knows.
        strip: whether decoded text loses the white space at its ends.
    """

    def __init__(
        self,
        model: SentencePieceProcessor,
        numbers: Sequence[int],
        added: Mapping[int, Special],
        unknown: int,
        more: Mapping[str, int] | None = None,
        strip: bool = False,
    ) -> None:
        self._model = model
        self._numbers = [unknown if number < 0 else number for number in numbers]
        self._unknown = unknown
        self._strip = strip
        own = model.id_to_piece(list(range(len(numbers))))
        self._pieces = {number: piece for piece, number in (more or {}).items()}
        self._pieces |= {number: piece for number, piece in zip(numbers, own, strict=True) if number >= 0}
        self._pieces |= {number: token.content for number, token in added.items()}
        self._ids = {piece: number for number, piece in self._pieces.items()}
        self._added = dict(added)
        self._splitter = SpecialSplitter(added)
        self._dropped = {number for number, token in added.items() if token.special} | {unknown}
        self._bytes = any(model.is_byte(number) for number in range(min(len(numbers), 300)))

    @property
    def content(self) -> bytes:
        """The model, and the numbers of its pieces."""
        model: bytes = self._model.serialized_model_proto()
        return model + json.dumps([self._ids, sorted(self._dropped)], sort_keys=True).encode()

    @property
    def size(self) -> int:
        """One more than the largest id."""
        return max(self._pieces) + 1

    @property
    def unknown(self) -> int:
        """The id of characters that the vocabulary lacks."""
        return self._unknown

    @property
    def added(self) -> dict[str, int]:
        """The ids of the tokens that text may spell."""
        return {token.content: number for number, token in self._added.items()}

    def encode(self, text: str) -> list[int]:
        """The ids of a text; a special token that the text spells is one id."""
        ids: list[int] = []
        for part in self._splitter.split(text):
            if isinstance(part, int):
                ids.append(part)
            else:
                ids += [self._numbers[piece] for piece in self._model.encode(part)]
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, without special tokens and ids that have no piece."""
        pieces = [
            self._pieces[token] for token in ids if token not in self._dropped and token in self._pieces
        ]
        if not pieces:
            return ""
        if self._strip or self._bytes:
            text: str = self._model.decode_pieces(pieces)
            return text.strip() if self._strip else text
        return pieces[0].replace(MARK, "") + "".join(pieces[1:]).replace(MARK, " ")

    def piece(self, token: int) -> str | None:
        """The piece of an id, None where it has none."""
        return self._pieces.get(token)

    def number(self, piece: str) -> int | None:
        """The id of a piece, None where it has none."""
        return self._ids.get(piece)


class SpecialSplitter:
    """Cuts a text at the special tokens that it spells; of two that begin alike the longer counts."""

    def __init__(self, tokens: Mapping[int, Special]) -> None:
        self._tokens = {token.content: (number, token) for number, token in tokens.items()}
        longest_first = sorted(self._tokens, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    def split(self, text: str) -> Iterator[str | int]:
        """The parts in order: text, and ids of special tokens."""
        start, strip = 0, False
        for found in self._pattern.finditer(text):
            number, token = self._tokens[found.group()]
            part = text[start : found.start()]
            part = part.lstrip() if strip else part
            part = part.rstrip() if token.lstrip else part
            if part:
                yield part
            yield number
            start, strip = found.end(), token.rstrip
        part = text[start:].lstrip() if strip else text[start:]
        if part:
            yield part
