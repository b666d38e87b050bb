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

RECORDING_BATCH_TOKENS = 256
"""Maximum number of tokens on the longer side of a batch, with padding, when attention is recorded."""


class OutputLayer(NamedTuple):
    """The output layer: ``logits = weight · features + bias`` (M20).

    ``weight`` is (vocabulary, width), ``bias`` (vocabulary,) or None. With a ``cap``, the logits
    become ``cap tanh(logits / cap)`` (M41).
    """

    weight: Tensor
    bias: Tensor | None
    cap: float | None = None

    def logits(self, features: Tensor) -> Tensor:
        """Return the logits (..., vocabulary) of features (..., width), in float32 or float64."""
        logits = at_least_float32(nn.functional.linear(features, self.weight, self.bias))
        return logits if self.cap is None else soft_cap(logits, self.cap)


class Seq2Seq(nn.Module):
    """Base class of trainable torch models, each of which is a :class:`uwaga.decoder.Decoder`.

    ``features`` excludes the output layer, so that the loss can compute logits for a few rows at a time.
    """

    symbols: Symbols
    vocabulary: int
    max_source: int | None
    max_target: int | None
    join: None = None
    """Not supported, because torch models decode all sentences of a batch at the same position."""
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
        """Return the :meth:`features`, and the attention that is trained to align.

        The attention is (sentences, target, source). In a Transformer, it is that of head ``guided_head``.

        Raises:
            SettingsError: the model has no such attention.
        """
        raise SettingsError(
            "training.guided_alignment: the decoder has no attention to the source; "
            "choose a model with attention, or omit guided_alignment"
        )

    def training_features(self, source: Tensor, target_in: Tensor) -> Sequence[tuple[Tensor, float]]:
        """Return the decoder outputs for the loss, each with its weight in the loss.

        The first output is that of :meth:`features`; a model that predicts several tokens adds more.
        """
        return ((self.features(source, target_in), 1.0),)

    @property
    @abstractmethod
    def output(self) -> OutputLayer:
        """The output layer, which maps features to logits."""

    @abstractmethod
    def encode(self, sources: Sequence[Sequence[int]]) -> Memory: ...

    @abstractmethod
    def start(self, memory: Memory, beams: int) -> State: ...

    @abstractmethod
    def step(self, tokens: Ids, state: State, choice: Choice) -> Step: ...

    @property
    def verify(self) -> Verify | None:
        """See :attr:`uwaga.decoder.Decoder.verify`; None if the model does not support it."""
        return None

    def attentions(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[Attentions]:
        """See :attr:`uwaga.decoder.Decoder.attentions`. Sentences of similar length are batched."""
        lengths = [max(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]

        def record(indices: list[int]) -> list[Attentions]:
            return self.record([sources[index] for index in indices], [targets[index] for index in indices])

        return map_batches(record, lengths, RECORDING_BATCH_TOKENS)

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
        """Return the :meth:`attentions` of sentences, computed in a single padded batch as in training."""

    def forward(self, source: Tensor, target_in: Tensor) -> Tensor:
        """Return the log-probabilities (sentences, target, vocabulary) of the next token (M20)."""
        return torch.log_softmax(self.logits(self.features(source, target_in)), dim=-1)

    def logits(self, features: Tensor) -> Tensor:
        """Return the logits (..., vocabulary) of features (..., width), in float32 or float64."""
        return self.output.logits(features)

    @property
    def description(self) -> str:
        """The class, library, number format, device and number of threads, as text for display."""
        return describe_model(self)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.parameters()).device


def describe_model(model: nn.Module) -> str:
    """Return a line of text that describes a torch model: class, number format, device and threads."""
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
    """Return a tensor of ids (rows, longest row), in which shorter rows are padded with ``filler``."""
    width = max(map(len, rows))
    return torch.tensor([[*row, *[filler] * (width - len(row))] for row in rows], device=device)
