"""Tokenisers of pretrained models for training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from uwaga.decoder import Symbols
from uwaga.errors import SettingsError
from uwaga.tokenizers.marian import MarianTokeniser
from uwaga.tokenizers.subwords import Subwords

_TEXT_PLACEHOLDER = -1  # placeholder for the text between special tokens


@dataclass(frozen=True)
class RowTokeniser:
    """A :class:`uwaga.tokenizers.subwords.TrainingSubwords` of one side of a pretrained model.

    Attributes:
        subwords: tokeniser of the model.
        symbols: special token ids; ``end`` is the last token of a row on this side.
        size: number of rows of the embeddings.
        before: ids added before a text, such as its language token.
        after: ids added after a text, except for the end symbol.
        name: the name of the model, for messages.
    """

    subwords: Subwords
    symbols: Symbols
    size: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    name: str = ""

    @classmethod
    def for_side(
        cls,
        subwords: Subwords,
        size: int,
        side: Literal["source", "target"],
        first_token: int | None = None,
        name: str = "",
    ) -> RowTokeniser:
        """Return a tokeniser of rows like those that the model was trained on.

        Args:
            subwords: the subword model of the side, with its language selected.
            size: number of rows of the embeddings.
            side: the side. A target row ends with the end symbol, without the special tokens that follow it
                in a source row.
            first_token: id of the token that begins every target, or None if there is none.
            name: the name of the model, for messages.
        """
        framed_ids = subwords.add_special_tokens([_TEXT_PLACEHOLDER])
        position = framed_ids.index(_TEXT_PLACEHOLDER)
        prefix, suffix = tuple(framed_ids[:position]), tuple(framed_ids[position + 1 :])
        symbols = subwords.symbols
        if side == "target":
            suffix = suffix[: suffix.index(symbols.end)] if symbols.end in suffix else suffix
            prefix = prefix if first_token is None or prefix[:1] == (first_token,) else (first_token, *prefix)
        elif suffix:
            symbols, suffix = replace(symbols, end=suffix[-1]), suffix[:-1]
        return cls(subwords, symbols, size, prefix, suffix, name)

    @property
    def special_token_count(self) -> int:
        """Number of special tokens in a row, including the last."""
        return len(self.before) + len(self.after) + 1

    @property
    def tags(self) -> Mapping[str, int]:
        """Ids of the target-language tokens of a Marian model (``>>deu<<``)."""
        if not isinstance(self.subwords, MarianTokeniser):
            return {}
        return {tag: self.subwords.encode(tag)[0] for tag in self.subwords.languages}

    @property
    def model_bytes(self) -> bytes:
        """Serialisation of everything that determines the rows."""
        return self.subwords.model_bytes + repr((self.symbols, self.size, self.before, self.after)).encode()

    def encode(self, text: str) -> list[int]:
        """Return the row of a text, without its last token."""
        return [*self.before, *self.subwords.encode(text), *self.after]

    def add_special_tokens(self, ids: Sequence[int]) -> list[int]:
        """Return a row with the end symbol appended."""
        return [*ids, self.symbols.end]

    def encode_batch(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        """Return the row of each text, without its last token; ``threads`` is ignored."""
        return [self.encode(text) for text in texts]

    def sample(self, texts: Sequence[str], alpha: float, seed: int) -> list[list[int]]:
        """Raise SettingsError, because tokenisers of other libraries have no reproducible sampling."""
        raise SettingsError(
            "data.subword_sampling: the tokeniser of the model named by init cannot sample segmentations; "
            "set data.subword_sampling to 0, or adapt.vocabulary to new"
        )

    def language_prefix(self, text: str) -> str:
        """Return the language prefix of the model's tokeniser."""
        return self.subwords.language_prefix(text)

    def decode(self, ids: Sequence[int]) -> str:
        """Decode ids to text, without special tokens."""
        return self.subwords.decode(ids)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the vocabulary pieces for the given ids."""
        return self.subwords.pieces(ids)
