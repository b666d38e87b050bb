"""Base class of the recurrent models, and their memory, state and attention.

A model implements :meth:`Recurrent.encode_ids`, and :meth:`Recurrent.unroll`, which runs its decoder over any
number of inputs from any state. Training unrolls a complete target, search one token at a time; both use the
same code.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from uwaga.decoder import Choice, Ids, Memory, Step, Symbols
from uwaga.errors import SettingsError
from uwaga.models.base import OutputLayer, Seq2Seq, pad
from uwaga.models.blocks import Recording
from uwaga.models.layers.attention import Adjustments, attend, masked_softmax
from uwaga.models.layers.choose import choose, requested_features
from uwaga.models.layers.dropout import SequenceDropout
from uwaga.models.layers.kernels import StepProduct
from uwaga.models.layers.local import MonotonicWindow, PredictiveWindow
from uwaga.models.layers.recurrent import LstmState
from uwaga.models.layers.scores import AttentionScore
from uwaga.results.attention import Attentions
from uwaga.settings.recurrent import RecurrentSettings

Tensors = tuple[Tensor, ...]


@dataclass(frozen=True)
class RecurrentMemory:
    """Encoded sources.

    Attributes:
        source_lengths: (sentences,) number of tokens of each source.
        initial_state: state of the decoder before the first token, each part (sentences, units). Without
            attention, the decoder knows nothing else about the source (E3).
        values: (sentences, source, width) annotations, or None without attention.
        prepared: result of ``score.prepare`` (M21), or None without attention.
        mask: (sentences, 1, source), False on padding; None if there is no padding or no attention.
    """

    source_lengths: Tensor
    initial_state: Tensors
    values: Tensor | None = None
    prepared: Tensor | None = None
    mask: Tensor | None = None

    @property
    def sentences(self) -> int:
        return self.source_lengths.shape[0]

    @property
    def lengths(self) -> Ids:
        return self.source_lengths.cpu().numpy().astype(np.int64)

    def select(self, sentences: Tensor) -> RecurrentMemory:
        """Return the memory of the given sentences, cropped to the longest of their sources."""
        lengths = self.source_lengths[sentences]
        longest = int(lengths.max())

        def crop(table: Tensor | None) -> Tensor | None:
            return None if table is None else table[sentences, :longest]

        mask = None if self.mask is None else self.mask[sentences, :, :longest]
        initial_state = tuple(part[sentences] for part in self.initial_state)
        return RecurrentMemory(lengths, initial_state, crop(self.values), crop(self.prepared), mask)


@dataclass(frozen=True)
class RecurrentState:
    """State of a recurrent decoder; each of ``parts`` is (rows, units)."""

    memory: RecurrentMemory
    beams: int
    position: int
    parts: Tensors

    def reorder(self, rows: Ids) -> RecurrentState:
        """See :meth:`uwaga.decoder.State.reorder`."""
        return replace(self, parts=self._rows(rows))

    def select(self, sentences: Ids) -> RecurrentState:
        """See :meth:`uwaga.decoder.State.select`."""
        rows = (sentences[:, None] * self.beams + np.arange(self.beams)).reshape(-1)
        indices = torch.from_numpy(sentences).to(self.memory.source_lengths.device)
        return replace(self, memory=self.memory.select(indices), parts=self._rows(rows))

    def _rows(self, rows: Ids) -> Tensors:
        index = torch.from_numpy(rows).to(self.memory.source_lengths.device)
        return tuple(part.index_select(0, index) for part in self.parts)


class DecoderOutput(NamedTuple):
    """The result of :meth:`Recurrent.unroll`.

    Attributes:
        features: (rows, time, width) inputs of the output layer.
        parts: state after the last input, each part (rows, units).
        weights: (rows, time, source) attention weights; None if not requested or without attention.
    """

    features: Tensor
    parts: Tensors
    weights: Tensor | None


class Recurrent(Seq2Seq):
    """A recurrent encoder-decoder; subclasses define :meth:`encode_ids` and :meth:`unroll`.

    Raises:
        SettingsError: the embeddings of both sides are tied, but the vocabularies differ.
    """

    def __init__(
        self, settings: RecurrentSettings, symbols: Symbols, source_vocabulary: int, target_vocabulary: int
    ) -> None:
        super().__init__()
        if settings.tie == "all" and source_vocabulary != target_vocabulary:
            raise SettingsError(
                f"model.tie: all needs one embedding table, but the vocabularies differ ({source_vocabulary} "
                f"and {target_vocabulary} tokens); set tie: decoder, or text.joint: true"
            )
        self.settings, self.symbols, self.vocabulary = settings, symbols, target_vocabulary
        self.max_source = self.max_target = settings.max_length
        self.source_embedding = nn.Embedding(source_vocabulary, settings.embedding)
        self.target_embedding = (
            self.source_embedding
            if settings.tie == "all"
            else nn.Embedding(target_vocabulary, settings.embedding)
        )
        self.output_weight = (
            nn.Parameter(torch.empty(target_vocabulary, settings.features))
            if settings.tie == "none"
            else self.target_embedding.weight
        )
        self.output_bias = nn.Parameter(torch.zeros(target_vocabulary))
        self.dropout = SequenceDropout(settings.dropout, settings.variational)
        for table in dict.fromkeys(
            (self.source_embedding.weight, self.target_embedding.weight, self.output_weight)
        ):
            nn.init.uniform_(table, -0.1, 0.1)  # Luong 2015 §4.1

    @abstractmethod
    def encode_ids(self, source: Tensor) -> RecurrentMemory:
        """Return the memory of padded sources, given as ids (sentences, source)."""

    @abstractmethod
    def unroll(
        self,
        embedded_target: Tensor,
        memory: RecurrentMemory,
        parts: Tensors,
        position: int = 0,
        need_weights: bool = False,
    ) -> DecoderOutput:
        """Return the outputs of the decoder for a sequence of inputs, and its final state.

        Args:
            embedded_target: (rows, time, embedding) inputs; ``rows`` is a multiple of the number of
                sentences.
            memory: encoded sources, one row per sentence.
            parts: state before the first input.
            position: number of earlier inputs.
            need_weights: whether to return the attention weights.
        """

    @property
    def output(self) -> OutputLayer:
        return OutputLayer(self.output_weight, self.output_bias)

    def features(self, source: Tensor, target_in: Tensor) -> Tensor:
        # In 16 bits, the rounding errors of each step would propagate to later steps: only the output layer
        # is cast.
        with torch.autocast(source.device.type, enabled=False):
            memory = self.encode_ids(source)
            return self.unroll(self._embed_target(target_in), memory, memory.initial_state).features

    def guided_features(self, source: Tensor, target_in: Tensor) -> tuple[Tensor, Tensor]:
        with torch.autocast(source.device.type, enabled=False):
            memory = self.encode_ids(source)
            if memory.values is None:
                return super().guided_features(source, target_in)  # raises SettingsError
            unrolled = self.unroll(
                self._embed_target(target_in), memory, memory.initial_state, need_weights=True
            )
        assert unrolled.weights is not None
        return unrolled.features, unrolled.weights

    @torch.inference_mode()
    def record(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Attentions]:
        recording, memory = Recording(), self.encode(sources)
        embedded_target = self._embed_target(pad(targets, self.symbols.pad, self.device))
        weights = self.unroll(embedded_target, memory, memory.initial_state, need_weights=True).weights
        if weights is not None:
            recording.cross.append(weights[:, None])  # one head
        return recording.sentences(list(map(len, sources)), list(map(len, targets)))

    @torch.inference_mode()
    def encode(self, sources: Sequence[Sequence[int]]) -> RecurrentMemory:
        return self.encode_ids(pad(sources, self.symbols.pad, self.device))

    def start(self, memory: Memory, beams: int) -> RecurrentState:
        assert isinstance(memory, RecurrentMemory)
        parts = tuple(part.repeat_interleave(beams, dim=0) for part in memory.initial_state)
        return RecurrentState(memory, beams, 0, parts)

    @torch.inference_mode()
    def step(self, tokens: Ids, state: RecurrentState, choice: Choice) -> Step:  # type: ignore[override]
        ids = torch.from_numpy(tokens).to(self.device)[:, None]  # (rows, 1)
        unrolled = self.unroll(
            self._embed_target(ids), state.memory, state.parts, state.position, choice.attention
        )
        candidates, log_probs = choose(self.logits(unrolled.features[:, 0]), choice)
        attention = None if unrolled.weights is None else unrolled.weights[:, 0].float().cpu().numpy()
        next_state = replace(state, position=state.position + 1, parts=unrolled.parts)
        features = requested_features(unrolled.features[:, 0], choice)
        return Step(candidates, log_probs, next_state, attention, features)

    def _lengths(self, source: Tensor) -> Tensor:
        return (source != self.symbols.pad).sum(dim=1)  # (sentences,)

    def _embed_source(self, source: Tensor) -> Tensor:
        return self.dropout(self.source_embedding(source))  # type: ignore[no-any-return]

    def _embed_target(self, ids: Tensor) -> Tensor:
        return self.dropout(self.target_embedding(ids))  # type: ignore[no-any-return]


def make_attention_memory(
    score: AttentionScore, values: Tensor, lengths: Tensor, initial_parts: Tensors
) -> RecurrentMemory:
    """Return the memory of a model that attends to annotations, ``values`` (sentences, source, width)."""
    mask = torch.arange(values.shape[1], device=values.device) < lengths[:, None]
    values = values.masked_fill(~mask[..., None], 0.0)
    memory_mask = None if bool(mask.all()) else mask[:, None]
    return RecurrentMemory(lengths, initial_parts, values, score.prepare(values), memory_mask)


def attend_memory(
    score: AttentionScore,
    query: Tensor,
    memory: RecurrentMemory,
    position: int = 0,
    window: MonotonicWindow | PredictiveWindow | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the contexts (rows, time, width) and weights (rows, time, source) of queries.

    ``query`` is (rows, time, units). The beams of a sentence are treated as additional queries, so that the
    sentence's memory is not copied.
    """
    assert memory.values is not None
    assert memory.prepared is not None
    rows, time, units = query.shape
    beams, source = rows // memory.sentences, memory.values.shape[1]
    query = query.reshape(memory.sentences, beams * time, units)
    mask, gain = memory.mask, None
    if window is not None:
        steps = torch.arange(position, position + time, device=query.device).repeat(beams)
        mask, gain = window(query, steps, memory.source_lengths, source)
    context, weights = attend(
        query,
        memory.prepared,
        memory.values,
        score,
        mask,
        need_weights=True,
        adjustments=Adjustments(hook=None if gain is None else gain.mul),
    )
    assert weights is not None
    return context.reshape(rows, time, -1), weights.reshape(rows, time, source)


class StepAttention:
    """Attention of successive decoder states over the same memory.

    ``weights`` contains the attention weights of each step so far, (rows, source). If each sentence has one
    row, as in training, the gradients of all steps are computed together
    (:class:`uwaga.models.layers.kernels.StepProduct`).
    """

    def __init__(
        self,
        score: AttentionScore,
        memory: RecurrentMemory,
        rows: int,
        time: int,
        position: int = 0,
        window: MonotonicWindow | PredictiveWindow | None = None,
    ) -> None:
        assert memory.values is not None
        assert memory.prepared is not None
        self.score, self.memory, self.position, self.window = score, memory, position, window
        self.weights: list[Tensor] = []
        self.has_single_beam = rows == memory.sentences
        if self.has_single_beam:
            self.source = memory.values.shape[1]
            self.scores = score.steps(memory.prepared, time)
            zeros = memory.values.new_zeros(()).expand(rows, time, memory.values.shape[2])
            self.sums = StepProduct(zeros, memory.values.transpose(1, 2))

    def __call__(self, query: Tensor) -> Tensor:
        """Return the context (rows, width) of the next query (rows, units)."""
        position = self.position + len(self.weights)
        if not self.has_single_beam:
            context, weights = attend_memory(self.score, query[:, None], self.memory, position, self.window)
            self.weights.append(weights[:, 0])
            return context[:, 0]
        mask, gain = self.memory.mask, None
        if self.window is not None:
            steps = torch.full((1,), position, device=query.device)
            mask, gain = self.window(query[:, None], steps, self.memory.source_lengths, self.source)
        weights = masked_softmax(self.scores(query)[:, None], mask)
        weights = (weights if gain is None else weights * gain)[:, 0]  # (rows, source)
        self.weights.append(weights)
        return self.sums(weights)


def repeat_for_beams(memory: RecurrentMemory, part: Tensor, rows: int) -> Tensor:
    """Return ``part`` (sentences, width) as (rows, width), with each sentence repeated for its beams."""
    return part if rows == memory.sentences else part.repeat_interleave(rows // memory.sentences, dim=0)


def flatten_states(states: Sequence[LstmState]) -> Tensors:
    """Return the states of a stack of LSTM layers as the parts of a :class:`RecurrentState`."""
    return tuple(part for state in states for part in state)


def unflatten_states(parts: Tensors) -> tuple[LstmState, ...]:
    """Return the states of a stack of LSTM layers, given the result of :func:`flatten_states`."""
    return tuple(LstmState(parts[i], parts[i + 1]) for i in range(0, len(parts), 2))


class Maxout(nn.Module):
    """A maxout layer, each unit of which is the maximum of two linear units (Goodfellow 2013)."""

    def __init__(self, inputs: int, units: int) -> None:
        super().__init__()
        self.inner = nn.Linear(inputs, 2 * units)
        nn.init.xavier_uniform_(self.inner.weight)
        nn.init.zeros_(self.inner.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., inputs) to (..., units)."""
        return self.inner(x).unflatten(-1, (-1, 2)).amax(dim=-1)  # type: ignore[no-any-return]
