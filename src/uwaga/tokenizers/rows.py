"""A pretrained model's tokeniser as training reads texts with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from uwaga.decoder import Symbols
from uwaga.errors import SettingsError
from uwaga.tokenizers.marian import MarianTokeniser
from uwaga.tokenizers.subwords import Subwords

_TEXT = -1  # stands for the text between special tokens


@dataclass(frozen=True)
class RowTokeniser:
    """One side of a model; obeys :class:`uwaga.tokenizers.subwords.TrainingSubwords`.

    Attributes:
        subwords: the model's own tokeniser.
        symbols: special token ids, of which ``end`` is what stands last in a row of this side.
        size: rows of the embeddings.
        before: ids that stand before a text, such as its language's.
        behind: ids that stand behind it, the last one aside.
        name: of the model, for messages.
    """

    subwords: Subwords
    symbols: Symbols
    size: int
    before: tuple[int, ...]
    behind: tuple[int, ...]
    name: str = ""

    @classmethod
    def of(
        cls,
        subwords: Subwords,
        size: int,
        side: Literal["source", "target"],
        first: int | None = None,
        name: str = "",
    ) -> RowTokeniser:
        """The rows that a model was trained on.

        Args:
            subwords: of the side, for the language that is meant.
            size: rows of the embeddings.
            side: a target ends with the end symbol, whatever its frame has behind it.
            first: the token that every target begins with, None for none.
            name: of the model, for messages.
        """
        framed = subwords.add_special_tokens([_TEXT])
        at = framed.index(_TEXT)
        before, behind = tuple(framed[:at]), tuple(framed[at + 1 :])
        symbols = subwords.symbols
        if side == "target":
            behind = behind[: behind.index(symbols.end)] if symbols.end in behind else behind
            before = before if first is None or before[:1] == (first,) else (first, *before)
        elif behind:
            symbols, behind = replace(symbols, end=behind[-1]), behind[:-1]
        return cls(subwords, symbols, size, before, behind, name)

    @property
    def added(self) -> int:
        """Tokens of a row that are not of its text, its last one among them."""
        return len(self.before) + len(self.behind) + 1

    @property
    def tags(self) -> Mapping[str, int]:
        """The ids of the target languages' tokens of a Marian model (``>>deu<<``)."""
        if not isinstance(self.subwords, MarianTokeniser):
            return {}
        return {tag: self.subwords.encode(tag)[0] for tag in self.subwords.languages}

    @property
    def model_bytes(self) -> bytes:
        """All that decides the rows."""
        return self.subwords.model_bytes + repr((self.symbols, self.size, self.before, self.behind)).encode()

    def encode(self, text: str) -> list[int]:
        """The row of a text, without its last symbol."""
        return [*self.before, *self.subwords.encode(text), *self.behind]

    def add_special_tokens(self, ids: Sequence[int]) -> list[int]:
        """A row with its last symbol."""
        return [*ids, self.symbols.end]

    def encode_batch(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        """The rows of many texts."""
        return [self.encode(text) for text in texts]

    def sample(self, texts: Sequence[str], alpha: float, seed: int) -> list[list[int]]:
        """Refused: other libraries' tokenisers draw nothing that a run could repeat.

        Raises:
            SettingsError: always.
        """
        raise SettingsError(
            "data.subword_sampling: the tokeniser of the model named by init draws no segmentations; "
            "set it to 0, or take adapt.vocabulary: new"
        )

    def language_prefix(self, text: str) -> str:
        """As the model's own tokeniser has it."""
        return self.subwords.language_prefix(text)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, special tokens dropped."""
        return self.subwords.decode(ids)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The pieces of ids as they stand in the vocabulary."""
        return self.subwords.pieces(ids)
