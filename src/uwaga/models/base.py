"""What every trainable torch model gives the trainer, the scorer and the search."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from uwaga.decoder import Choice, Ids, Memory, State, Step, Symbols
from uwaga.errors import SettingsError
from uwaga.models.layers.precision import at_least_float32
from uwaga.results.attention import Attentions, Floats, all_heads, one_head
from uwaga.search.length_batching import length_batches

RECORDED_TOKENS = 256
"""Tokens of the longer side, padding counted, whose attentions are recorded together: more would pad more."""


class OutputLayer(NamedTuple):
    """``logits = weight · features + bias`` (M20): weight (vocabulary, width), bias (vocabulary,) or None."""

    weight: Tensor
    bias: Tensor | None


class Seq2Seq(nn.Module):
    """A torch model that obeys :class:`uwaga.decoder.Decoder` and can be trained.

    ``features`` stops before the output layer, so that the loss can go over the vocabulary in chunks.
    """

    symbols: Symbols
    vocabulary: int
    max_source: int | None
    max_target: int | None
    join: None = None
    """All sentences stand at the same position: a model in torch decodes them in step."""
    beam_search: None = None
    recording: None = None

    @abstractmethod
    def features(self, source: Tensor, target_in: Tensor) -> Tensor:
        """Decoder outputs (sentences, target, width) for a whole known target (teacher forcing).

        Args:
            source: (sentences, source) ids, padded, each with its end symbol.
            target_in: (sentences, target) ids, padded, each beginning with the start symbol.
        """

    def guided_features(self, source: Tensor, target_in: Tensor) -> tuple[Tensor, Tensor]:
        """What :meth:`features` gives, and weights (sentences, target, source) that learn to align.

        Of a Transformer that of the head which :func:`uwaga.models.watched.watch_head` has chosen.

        Raises:
            SettingsError: the model has no such attention.
        """
        raise SettingsError(
            "training.guided_alignment: there is no attention to guide, as the decoder has none to "
            "the source; choose a model that has any, or leave it out"
        )

    def training_features(self, source: Tensor, target_in: Tensor) -> Sequence[tuple[Tensor, float]]:
        """What the loss is taken of: outputs as :meth:`features` gives them, each with its share of the loss.

        The first are those of :meth:`features`; a model that predicts more than the next token has others.
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

    def attentions(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[Attentions]:
        """See :attr:`uwaga.decoder.Decoder.attentions`: sentences of like length together."""
        lengths = [max(len(source), len(fed)) for source, fed in zip(sources, targets, strict=True)]
        found: dict[int, Attentions] = {}
        for indices in length_batches(lengths, 1, RECORDED_TOKENS):
            made = self.record([sources[at] for at in indices], [targets[at] for at in indices])
            found |= zip(indices, made, strict=True)
        return [found[at] for at in range(len(sources))]

    def cross_attention(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], layer: int, head: int | None
    ) -> list[Floats]:
        """See :attr:`uwaga.decoder.Decoder.cross_attention`.

        Raises:
            SettingsError: the model has no cross-attention, or no such layer or head.
        """
        seen = [one.cross for one in self.attentions(sources, targets)]
        return [one_head(cross, layer, head) for cross in seen]

    def cross_attentions(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[Floats]:
        """See :attr:`uwaga.decoder.Decoder.cross_attentions`.

        Raises:
            SettingsError: the model has no cross-attention.
        """
        return [all_heads(one.cross) for one in self.attentions(sources, targets)]

    @abstractmethod
    def record(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Attentions]:
        """What all layers look at on the training path: :meth:`attentions` of one padded batch."""

    def forward(self, source: Tensor, target_in: Tensor) -> Tensor:
        """Log-probabilities (sentences, target, vocabulary) of every next token (M20)."""
        return torch.log_softmax(self.logits(self.features(source, target_in)), dim=-1)

    def logits(self, features: Tensor) -> Tensor:
        """(..., vocabulary) from features (..., width): in float32, or in float64 where these are."""
        layer = self.output
        return at_least_float32(nn.functional.linear(features, layer.weight, layer.bias))

    @property
    def described(self) -> str:
        """What it is: its class, engine and number format, device, threads of a call."""
        return on_torch(self)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device


def on_torch(model: nn.Module) -> str:
    """What a model in torch is, in a line."""
    weight = next(model.parameters())
    threads = getattr(model, "threads", 0) or torch.get_num_threads()
    line = f"{type(model).__name__}, torch {str(weight.dtype).removeprefix('torch.')} on {weight.device}"
    return f"{line}, {threads} thread{'s' if threads > 1 else ''}" if weight.device.type == "cpu" else line


def pad(rows: Sequence[Sequence[int]], filler: int, device: torch.device) -> Tensor:
    """(sentences, longest) ids with ``filler`` behind the shorter rows."""
    width = max(map(len, rows))
    return torch.tensor([[*row, *[filler] * (width - len(row))] for row in rows], device=device)
