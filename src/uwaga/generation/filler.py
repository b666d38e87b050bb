"""Filling of gaps in texts with an encoder that predicts masked tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, Unpack, overload

import numpy as np

from uwaga.decoder import Choice
from uwaga.errors import DataError, ModelError, SettingsError, TextTooLongError
from uwaga.results.attention import Floats
from uwaga.results.translation import JsonRecord, equal_fields, json_number, shorten
from uwaga.search.length_batching import map_batches
from uwaga.tokenizers.framed import FramedTokeniser
from uwaga.translator.attention import AttendedText

if TYPE_CHECKING:
    from torch import Tensor

    from uwaga.models.masked import MaskedEncoder
    from uwaga.translator.call_options import FillerFields

Value = TypeVar("Value")

MASK = "[MASK]"
"""The token that marks a gap in a text."""
CONTINUATION_MARK = "##"
"""The prefix of a piece that continues a word."""

BATCH_TOKENS = 4096
"""Maximum number of tokens of a batch, counting padding."""


@dataclass(frozen=True)
class Filling(JsonRecord):
    """A candidate for a gap.

    Attributes:
        token: the token.
        probability: the probability of the token.
        text: the text with the token in the gap.
    """

    token: str
    probability: float
    text: str

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, object]:
        """Return the fields as JSON values, with the probability rounded to six decimals."""
        return {"token": self.token, "probability": json_number(self.probability), "text": self.text}


@dataclass(frozen=True, eq=False, repr=False)
class Encoding:
    """The tokens of a text, with the encoder's last state for each token.

    Attributes:
        tokens: the tokens, special tokens included.
        states: the states (tokens, width).
    """

    tokens: tuple[str, ...]
    states: Floats

    def __repr__(self) -> str:
        return f"Encoding({shorten(' '.join(self.tokens))!r}, states {self.states.shape})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Encoding) and equal_fields(self, other)

    def __hash__(self) -> int:
        return hash(self.tokens)


class MaskFiller:
    """An encoder with its tokeniser, which fills gaps in texts and returns the states of their tokens.

    The result for a text does not depend on the other texts of a call.

    Args:
        model: the encoder.
        tokeniser: the tokeniser of the model.
    """

    def __init__(self, model: MaskedEncoder, tokeniser: FramedTokeniser) -> None:
        self.model, self.tokeniser = model, tokeniser

    def __repr__(self) -> str:
        return f"MaskFiller({self.model.description})"

    @classmethod
    def load(cls, name: str | Path, **options: Unpack[FillerFields]) -> MaskFiller:
        """Load a BERT model.

        Args:
            name: a model folder or a Hugging Face name.
            **options: ``device``, ``dtype`` (not int8) and ``threads`` of
                :class:`uwaga.settings.LoadOptions`.

        Raises:
            ModelError: there is no such model, or it is incomplete, damaged or of another kind.
            SettingsError: an option is unknown or has an invalid value.
            MissingExtraError: torch is not installed.
        """
        from uwaga.settings.load_options import LoadOptions
        from uwaga.translator.loading import load_filler

        return cls(*load_filler(name, LoadOptions.from_mapping(options)))

    @overload
    def fill(  # type: ignore[overload-overlap]  # a str is a Sequence[str] too; it comes first
        self, text: str, k: int = ...
    ) -> list[list[Filling]]: ...

    @overload
    def fill(self, text: Sequence[str], k: int = ...) -> list[list[list[Filling]]]: ...

    def fill(self, text: str | Sequence[str], k: int = 5) -> list[list[Filling]] | list[list[list[Filling]]]:
        """Return the most probable tokens for each ``[MASK]`` in one or more texts.

        Args:
            text: a text, or a sequence of texts. A text may have several gaps, each of which is filled
                independently.
            k: number of candidates for each gap.

        Returns:
            a list with, for each gap of a text, the ``k`` most probable tokens, best first; for a sequence of
            texts, a list of such lists.

        Raises:
            DataError: a text has no gap, or is not valid Unicode.
            TextTooLongError: a text is longer than the model accepts.
            SettingsError: ``k`` is not between 1 and the size of the vocabulary.
            ModelError: the model does not predict tokens.
        """
        if isinstance(text, str):
            return self.fill_all([text], k, ["the text"])[0]
        return self.fill_all(text, k, [f"text {number}" for number in range(1, len(text) + 1)])

    def fill_all(self, texts: Sequence[str], k: int, names: Sequence[str]) -> list[list[list[Filling]]]:
        """Return the candidates for the gaps of texts, as :meth:`fill` does.

        ``names`` are the names of the texts in error messages.
        """
        head = self.model.head
        if head is None:
            raise ModelError(
                f"{self.tokeniser.name}: the model returns states but cannot predict tokens, since its "
                f"folder has no 'cls.predictions' weights"
            )
        if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= self.model.vocabulary:
            raise SettingsError(f"k must be a whole number from 1 to {self.model.vocabulary}, not {k!r}")
        mask = self.tokeniser.token_id(MASK)
        if mask is None:
            raise ModelError(f"{self.tokeniser.name}: the tokeniser has no {MASK}")
        ids = [self._ids(text, name) for text, name in zip(texts, names, strict=True)]
        positions = [[position for position, token in enumerate(row) if token == mask] for row in ids]
        for gaps, name in zip(positions, names, strict=True):
            if not gaps:
                raise DataError(f"{name} has no {MASK}: replace a word with it")
        encodings = zip(texts, self._run_batches(self.model.encode, ids), positions, strict=True)
        return [self._fillings(text, head(states[gaps]), k) for text, states, gaps in encodings]

    @overload
    def encode(  # type: ignore[overload-overlap]
        self, text: str
    ) -> Encoding: ...

    @overload
    def encode(self, text: Sequence[str]) -> list[Encoding]: ...

    def encode(self, text: str | Sequence[str]) -> Encoding | list[Encoding]:
        """Return the tokens of one or more texts, with the encoder's last state of each token.

        Raises:
            TextTooLongError: a text is longer than the model accepts.
            DataError: a text is not valid Unicode.
        """
        texts = [text] if isinstance(text, str) else list(text)
        ids = [self._ids(text, f"text {number}") for number, text in enumerate(texts, start=1)]
        encodings = [
            Encoding(tuple(self.tokeniser.pieces(row)), states.float().cpu().numpy())
            for row, states in zip(ids, self._run_batches(self.model.encode, ids), strict=True)
        ]
        return encodings[0] if isinstance(text, str) else encodings

    @overload
    def attend(  # type: ignore[overload-overlap]
        self, text: str
    ) -> AttendedText: ...

    @overload
    def attend(self, text: Sequence[str]) -> list[AttendedText]: ...

    def attend(self, text: str | Sequence[str]) -> AttendedText | list[AttendedText]:
        """Return all self-attention matrices of one or more texts.

        Returns:
            the tokens, special tokens included, and ``attentions``, whose ``encoder`` (layers, heads, query,
            key) has a query and a key for each token.

        Raises:
            TextTooLongError: a text is longer than the model accepts.
            DataError: a text is not valid Unicode.
        """
        texts = [text] if isinstance(text, str) else list(text)
        ids = [self._ids(text, f"text {number}") for number, text in enumerate(texts, start=1)]
        attentions = self._run_batches(self.model.attentions, ids)
        attended_texts = [
            AttendedText(text, tuple(self.tokeniser.pieces(row)), matrices)
            for text, row, matrices in zip(texts, ids, attentions, strict=True)
        ]
        return attended_texts[0] if isinstance(text, str) else attended_texts

    def _run_batches(
        self, function: Callable[[list[list[int]]], list[Value]], ids: Sequence[list[int]]
    ) -> list[Value]:
        """Return a model function's result for each text, calling the function with texts of similar length
        together.
        """
        return map_batches(
            lambda indices: function([ids[index] for index in indices]), list(map(len, ids)), BATCH_TOKENS
        )

    def _ids(self, text: str, name: str) -> list[int]:
        if not isinstance(text, str):
            raise DataError(f"{name} is not a string but {type(text).__name__}")
        ids = self.tokeniser.add_special_tokens(self.tokeniser.encode(text))
        limit = self.model.settings.max_length
        if len(ids) > limit:
            raise TextTooLongError(
                f"{name} has {len(ids)} tokens, special tokens included, but the model accepts "
                f"at most {limit}: shorten it"
            )
        return ids

    def _fillings(self, text: str, logits: Tensor, k: int) -> list[list[Filling]]:
        from uwaga.models.layers.choose import choose

        tokens, log_probs = choose(logits, Choice(k))  # (gaps, k)
        rows = zip(tokens.tolist(), np.exp(log_probs.astype(np.float64)).tolist(), strict=True)
        return [
            [
                Filling(piece, probability, _fill_gap(text, gap, piece))
                for piece, probability in zip(self.tokeniser.pieces(row), probabilities, strict=True)
            ]
            for gap, (row, probabilities) in enumerate(rows)
        ]


def _fill_gap(text: str, gap: int, piece: str) -> str:
    """Return the text with a piece in one of its gaps; a piece that continues a word is joined to
    the word.
    """
    parts = text.split(MASK)
    text_before, text_after = MASK.join(parts[: gap + 1]), MASK.join(parts[gap + 1 :])
    if piece.startswith(CONTINUATION_MARK):
        text_before, piece = text_before.rstrip(), piece.removeprefix(CONTINUATION_MARK)
    return text_before + piece + text_after
