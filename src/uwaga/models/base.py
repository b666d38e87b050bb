"""Base class of trainable torch models, for training, scoring and search."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from uwaga.decoder import Choice, Ids, Memory, State, Step, Symbols, Verify
from uwaga.errors import SettingsError
from uwaga.models.layers.choose import at_least_float32
from uwaga.models.layers.scores import soft_cap
from uwaga.results.attention import Attentions, Floats, require_cross_attention, select_head
from uwaga.search.length_batching import map_batches

RECORDED_TOKENS = 256
"""Tokens of a batch, counted on its longer side with padding, whose attention is recorded at once."""


class OutputLayer(NamedTuple):
    """``logits = weight · features + bias`` (M20): weight (vocabulary, width), bias (vocabulary,) or None.

    With a ``cap`` they become ``cap tanh(logits / cap)`` (M41).
    """

    weight: Tensor
    bias: Tensor | None
    cap: float | None = None

    def logits(self, features: Tensor) -> Tensor:
        """Return logits (..., vocabulary) of features (..., width), in float32 or float64."""
        logits = at_least_float32(nn.functional.linear(features, self.weight, self.bias))
        return logits if self.cap is None else soft_cap(logits, self.cap)


class Seq2Seq(nn.Module):
    """A trainable torch model that is a :class:`uwaga.decoder.Decoder`.

    ``features`` excludes the output layer, so that the loss can process the vocabulary in chunks.
    """

    symbols: Symbols
    vocabulary: int
    max_source: int | None
    max_target: int | None
    join: None = None
    """Torch models decode all sentences of a batch at the same position."""
    beam_search: None = None
    recording: None = None

    @abstractmethod
    def features(self, source: Tensor, target_in: Tensor) -> Tensor:
        """Return decoder outputs (sentences, target, width) for complete targets (teacher forcing).

        Args:
            source: (sentences, source) ids, padded, each with its end symbol.
            target_in: (sentences, target) ids, padded, each beginning with the start symbol.
        """

    def guided_features(self, source: Tensor, target_in: Tensor) -> tuple[Tensor, Tensor]:
        """Return :meth:`features` and the attention (sentences, target, source) trained to align.

        In a Transformer, it is that of the head ``guided_head``.

        Raises:
            SettingsError: the model has no such attention.
        """
        raise SettingsError(
            "training.guided_alignment: the decoder has no attention to the source; "
            "choose a model that has it, or omit guided_alignment"
        )

    def training_features(self, source: Tensor, target_in: Tensor) -> Sequence[tuple[Tensor, float]]:
        """Return the outputs for the loss, each with its weight.

        The first are those of :meth:`features`; models that predict more than the next token add more.
        """
        return ((self.features(source, target_in), 1.0),)

    @property
    @abstractmethod
    def output(self) -> OutputLayer:
        """The layer from features to logits."""

    @abstractmethod
    def encode(self, sources: Sequence[Sequence[int]]) -> Memory: ...

    @abstractmethod
    def start(self, memory: Memory, beams: int) -> State: ...

    @abstractmethod
    def step(self, tokens: Ids, state: State, choice: Choice) -> Step: ...

    @property
    def verify(self) -> Verify | None:
        """See :attr:`uwaga.decoder.Decoder.verify`; equal to steps up to rounding. None if unsupported."""
        return None

    def attentions(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[Attentions]:
        """See :attr:`uwaga.decoder.Decoder.attentions`; sentences are batched by length."""
        lengths = [max(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]

        def record(indices: list[int]) -> list[Attentions]:
            return self.record([sources[index] for index in indices], [targets[index] for index in indices])

        return map_batches(record, lengths, RECORDED_TOKENS)

    def cross_attention(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], layer: int, head: int | None
    ) -> list[Floats]:
        """See :attr:`uwaga.decoder.Decoder.cross_attention`.

        Raises:
            SettingsError: the model has no cross-attention, or no such layer or head.
        """
        return [select_head(cross, layer, head) for cross in self.cross_attentions(sources, targets)]

    def cross_attentions(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[Floats]:
        """See :attr:`uwaga.decoder.Decoder.cross_attentions`.

        Raises:
            SettingsError: the model has no cross-attention.
        """
        return [require_cross_attention(attentions.cross) for attentions in self.attentions(sources, targets)]

    @abstractmethod
    def record(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Attentions]:
        """Return the :meth:`attentions` of a padded batch, computed as in training."""

    def forward(self, source: Tensor, target_in: Tensor) -> Tensor:
        """Return log-probabilities (sentences, target, vocabulary) of every next token (M20)."""
        return torch.log_softmax(self.logits(self.features(source, target_in)), dim=-1)

    def logits(self, features: Tensor) -> Tensor:
        """Return logits (..., vocabulary) of features (..., width), in float32 or float64."""
        return self.output.logits(features)

    @property
    def description(self) -> str:
        """Class, engine, number format, device and threads of a call, for display."""
        return describe_model(self)

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return next(self.parameters()).device


def describe_model(model: nn.Module) -> str:
    """Return a one-line description of a torch model."""
    weight = next(model.parameters())
    threads = getattr(model, "threads", 0) or torch.get_num_threads()
    name = getattr(model, "title", type(model).__name__)
    description = f"{name}, torch {str(weight.dtype).removeprefix('torch.')} on {weight.device}"
    return (
        f"{description}, {threads} thread{'s' if threads > 1 else ''}"
        if weight.device.type == "cpu"
        else description
    )


def pad(rows: Sequence[Sequence[int]], filler: int, device: torch.device) -> Tensor:
    """Return the ids (sentences, longest), with shorter rows padded with ``filler``."""
    width = max(map(len, rows))
    return torch.tensor([[*row, *[filler] * (width - len(row))] for row in rows], device=device)
