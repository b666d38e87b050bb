"""The decoder-only Transformer (M18; Radford 2019, Touvron 2023), which continues a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from uwaga.decoder import Choice, Ids, Memory, State, Step, Symbols, Verify
from uwaga.errors import TextTooLongError
from uwaga.models.base import OutputLayer, Seq2Seq, pad
from uwaga.models.blocks import CausalBlock, Recording, make_norm
from uwaga.models.layers.attention import mask_or_none
from uwaga.models.layers.choose import choose, requested_features
from uwaga.models.layers.dropout import Dropout
from uwaga.models.layers.multihead import KeysValues
from uwaga.models.layers.positions import LearnedPositions
from uwaga.models.layers.rotary import RotaryPositions, Rotation
from uwaga.results.attention import Attentions, Floats
from uwaga.settings import DecoderOnlySettings

PADDING_POSITION = torch.iinfo(torch.int64).max // 2
"""Position assigned to padding; it is after all tokens, so that no token attends to padding."""


@dataclass(frozen=True)
class PromptMemory:
    """Encoded prompts: keys and values of all tokens except the last (M21).

    ``last`` (sentences,) are the last tokens, which the first step reads; ``mask`` (sentences, read) is False
    on padding; ``layers`` are the keys and values (sentences, groups, read, head width) of each layer, or an
    empty tuple if all prompts have one token.
    """

    last: Tensor
    mask: Tensor
    layers: tuple[KeysValues, ...]

    @property
    def sentences(self) -> int:
        return self.last.shape[0]

    @property
    def lengths(self) -> Ids:
        return (self.mask.sum(-1) + 1).cpu().numpy().astype(np.int64)


@dataclass(frozen=True)
class PromptState:
    """The state of a decoder-only model.

    Attributes:
        beams: number of rows per sentence.
        first: (rows,) tokens that the first step reads; None after the first step.
        positions: (rows,) positions of the next tokens.
        furthest: the largest of these positions.
        mask: (rows, past), True at cached tokens, False at padding, including that between prompt and
            continuation.
        layers: cached keys and values of each layer, (rows, groups, past, head width).
        cache_rows: (rows,) row of ``layers`` that each row uses. After a draft is read (M42), several rows
            share a cache until some of these rows are selected; None if no cache is shared.
    """

    beams: int
    first: Tensor | None
    positions: Tensor
    furthest: int
    mask: Tensor
    layers: tuple[KeysValues, ...]
    cache_rows: Tensor | None = None

    def reorder(self, rows: Ids) -> PromptState:
        """See :meth:`uwaga.decoder.State.reorder`."""
        return self._rows(torch.from_numpy(rows).to(self.mask.device))

    def select(self, sentences: Ids) -> PromptState:
        """See :meth:`uwaga.decoder.State.select`."""
        rows = (sentences[:, None] * self.beams + np.arange(self.beams)).reshape(-1)
        return self.reorder(rows)

    def unshare(self) -> PromptState:
        """Return the state with a separate cache for each row."""
        return (
            self
            if self.cache_rows is None
            else self._rows(torch.arange(len(self.cache_rows), device=self.cache_rows.device))
        )

    def _rows(self, rows: Tensor) -> PromptState:
        cached_rows = rows if self.cache_rows is None else self.cache_rows[rows]
        layers = tuple(
            KeysValues(layer.keys.index_select(0, cached_rows), layer.values.index_select(0, cached_rows))
            for layer in self.layers
        )
        mask, positions = self.mask[rows], self.positions[rows]
        furthest = self.furthest
        if len(rows) < len(self.positions):  # the furthest row may have been dropped
            furthest = int(positions.max())
        if self.cache_rows is not None:
            layers, mask = pack_caches(layers, mask)
        first = None if self.first is None else self.first[rows]
        return PromptState(self.beams, first, positions, furthest, mask, layers)


class DecoderOnly(Seq2Seq):
    """The decoder-only Transformer (M18), with learned or rotary positions (M37).

    A source is a prompt of at least one token without an end symbol. A target is the prompt's continuation;
    its start symbol represents the prompt's last token.
    """

    def __init__(self, settings: DecoderOnlySettings, symbols: Symbols, vocabulary: int) -> None:
        super().__init__()
        self.settings, self.symbols, self.vocabulary = settings, symbols, vocabulary
        self.max_source = self.max_target = self.shared_positions = settings.max_length
        self.scale = settings.width**0.5 if settings.embedding_scale else 1.0
        self.embedding = nn.Embedding(vocabulary, settings.width)
        self.positions = (
            LearnedPositions(settings.max_length, settings.width, settings.position_offset)
            if settings.positions == "learned"
            else None
        )
        rotary = {layer: settings.layer_rotary(layer) for layer in range(settings.layers)}
        self.rotary = {
            kind: RotaryPositions(kind, settings.head_size, settings.max_length)
            for kind in rotary.values()
            if kind is not None
        }
        self.embedding_norm = make_norm(settings) if settings.embedding_norm else None
        self.decoder = nn.ModuleList(CausalBlock(settings) for _ in range(settings.layers))
        self.decoder_norm = make_norm(settings) if settings.norm != "post" else nn.Identity()
        self.output_weight = (
            self.embedding.weight
            if settings.tie_output
            else nn.Parameter(torch.empty(vocabulary, settings.width))
        )
        self.output_bias = nn.Parameter(torch.zeros(vocabulary)) if settings.output_bias else None
        self.dropout = Dropout(settings.dropout)
        for table in dict.fromkeys((self.embedding.weight, self.output_weight)):
            nn.init.normal_(table, std=settings.width**-0.5)

    @property
    def output(self) -> OutputLayer:
        return OutputLayer(self.output_weight, self.output_bias, self.settings.logit_cap)

    def read(self, tokens: Tensor) -> Tensor:
        """Return the features (sentences, length, width) of right-padded texts (sentences, length)."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)[None]
        return self._run(tokens, positions, None, positions)[0]

    def features(self, source: Tensor, target_in: Tensor) -> Tensor:
        lengths = _unpadded_lengths(source, self.symbols.pad)  # (sentences,)
        needed_rows = int(lengths.max()) + target_in.shape[1] - 1
        if needed_rows > self.settings.max_length:
            raise _too_long_error(needed_rows, self.settings.max_length)
        memory = self._read_prompts(source, lengths)
        tokens = torch.cat([memory.last[:, None], target_in[:, 1:]], dim=1)  # (sentences, target)
        positions = lengths[:, None] - 1 + torch.arange(tokens.shape[1], device=tokens.device)
        keys = torch.cat([key_positions(memory.mask), positions], dim=1)  # (sentences, read + target)
        return self._run(tokens, positions, memory.layers, keys)[0]

    @torch.inference_mode()
    def record(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Attentions]:
        texts = [[*source, *target[1:]] for source, target in zip(sources, targets, strict=True)]
        lengths, recording = [len(text) for text in texts], Recording()
        longest = max(lengths)
        if longest > self.settings.max_length:
            raise _too_long_error(longest, self.settings.max_length)
        positions = torch.arange(longest, device=self.device)[None]
        tokens = pad(texts, self.symbols.pad, self.device)  # right-padded: no real token attends to it
        self._run(tokens, positions, None, positions, recording.decoder)
        return recording.sentences(lengths, lengths)

    def cross_attentions(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[Floats]:
        """Return the attention to the prompts; see :attr:`uwaga.decoder.Decoder.cross_attentions`."""
        attentions = self.attentions(sources, targets)
        return [
            attention.to_prompt(len(source)) for source, attention in zip(sources, attentions, strict=True)
        ]

    @torch.inference_mode()
    def encode(self, sources: Sequence[Sequence[int]]) -> PromptMemory:
        lengths = torch.tensor([len(source) for source in sources], device=self.device)
        longest = int(lengths.max())
        if longest > self.settings.max_length:
            raise _too_long_error(longest, self.settings.max_length)
        return self._read_prompts(pad(sources, self.symbols.pad, self.device), lengths)

    def start(self, memory: Memory, beams: int) -> PromptState:
        assert isinstance(memory, PromptMemory)
        repeated_tensors = [tensor.repeat_interleave(beams, 0) for tensor in (memory.last, memory.mask)]
        layers = memory.layers
        if beams > 1:
            layers = tuple(
                KeysValues(*(part.repeat_interleave(beams, 0) for part in layer)) for layer in layers
            )
        positions = repeated_tensors[1].sum(-1)  # (rows,)
        return PromptState(
            beams, repeated_tensors[0], positions, memory.mask.shape[1], repeated_tensors[1], layers
        )

    @torch.inference_mode()
    def step(self, tokens: Ids, state: PromptState, choice: Choice) -> Step:  # type: ignore[override]
        state = state.unshare()
        if state.furthest >= self.settings.max_length:
            raise _too_long_error(state.furthest + 1, self.settings.max_length)
        ids = torch.from_numpy(tokens).to(self.device) if state.first is None else state.first  # (rows,)
        mask = torch.cat([state.mask, state.mask.new_ones(len(state.mask), 1)], dim=1)  # (rows, past + 1)
        x, layers = self._run(ids[:, None], state.positions[:, None], state.layers, key_positions(mask))
        candidates, log_probs = choose(self.logits(x[:, 0]), choice)
        next_state = replace(
            state,
            first=None,
            positions=state.positions + 1,
            furthest=state.furthest + 1,
            mask=mask,
            layers=layers,
        )
        return Step(candidates, log_probs, next_state, features=requested_features(x[:, 0], choice))

    @property
    def verify(self) -> Verify | None:
        """See :attr:`uwaga.decoder.Decoder.verify`. Results equal those of :meth:`step` up to rounding."""
        return self._verify

    @torch.inference_mode()
    def _verify(self, tokens: Sequence[Sequence[int]], state: State, choice: Choice) -> Step:
        assert isinstance(state, PromptState)
        state = state.unshare()
        ids = pad(tokens, self.symbols.pad, self.device)  # (sentences, new)
        if state.first is not None:
            ids[:, 0] = state.first
        columns = torch.arange(ids.shape[1], device=self.device)
        # (sentences, new)
        token_mask = columns < torch.tensor([[len(sentence)] for sentence in tokens], device=self.device)
        mask = torch.cat([state.mask, token_mask], dim=1)  # (sentences, past + new)
        keys = key_positions(mask)
        furthest = int((state.positions + token_mask.sum(dim=1)).max())
        if furthest > self.settings.max_length:
            raise _too_long_error(furthest, self.settings.max_length)
        # Padding follows all tokens of its row, so they do not attend to it.
        positions = (state.positions[:, None] + columns).clamp_max(self.settings.max_length - 1)
        x, layers = self._run(ids, positions, state.layers, keys)
        row_indices, last_columns = token_mask.nonzero(as_tuple=True)  # (tokens,)
        candidates, log_probs = choose(self.logits(x[row_indices, last_columns]), choice)
        row_mask = torch.cat([state.mask[row_indices], columns <= last_columns[:, None]], dim=1)
        next_state = PromptState(
            1, None, state.positions[row_indices] + last_columns + 1, furthest, row_mask, layers, row_indices
        )
        return Step(candidates, log_probs, next_state)

    def _read_prompts(self, prompts: Tensor, lengths: Tensor) -> PromptMemory:
        """Return the memory of padded prompts (sentences, longest), whose last tokens are not read yet."""
        read_count = prompts.shape[1] - 1
        last_tokens = prompts.gather(1, lengths[:, None] - 1)[:, 0]
        positions = torch.arange(read_count, device=prompts.device)
        mask = positions < lengths[:, None] - 1  # (sentences, read)
        if read_count == 0:
            return PromptMemory(last_tokens, mask, ())
        # Right-padded, so causal attention of real tokens does not reach the padding.
        _, layers = self._run(prompts[:, :read_count], positions[None], None, positions[None])
        return PromptMemory(last_tokens, mask, layers)

    def _run(
        self,
        tokens: Tensor,
        positions: Tensor,
        past: tuple[KeysValues, ...] | None,
        keys: Tensor,
        recorded_weights: list[Tensor] | None = None,
    ) -> tuple[Tensor, tuple[KeysValues, ...]]:
        """Return the features of new tokens (rows, new, width), and the extended caches.

        Args:
            tokens: (rows, new) ids.
            positions: (rows or 1, new) positions of the new tokens.
            past: caches of earlier tokens.
            keys: (rows or 1, past + new) positions of all tokens, ``PADDING_POSITION`` for padding.
            recorded_weights: list to which the attention weights of each layer are appended.
        """
        x = self.embedding(tokens)  # (rows, new, width)
        if self.settings.embedding_scale:
            x = x * self.scale
        if self.positions is not None:
            x = x + self.positions.lookup(positions)
        x = self.dropout(x if self.embedding_norm is None else self.embedding_norm(x))
        rotations = {kind: rotary(positions, x.dtype) for kind, rotary in self.rotary.items()}
        masks = self._masks(positions, keys)
        caches = []
        for layer, block in enumerate(cast(list[CausalBlock], list(self.decoder))):
            kind = self.settings.layer_rotary(layer)
            rotation: Rotation | None = None if kind is None else rotations[kind]
            mask = masks[self.settings.is_local(layer)]
            x, cache = block(x, past[layer] if past else None, mask, rotation, recorded_weights)
            caches.append(cache)
        return self.decoder_norm(x), tuple(caches)

    def _masks(self, positions: Tensor, keys: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return the mask of global layers and that of local layers (M8, M41).

        Each is (rows or 1, 1, new, past + new), True where a token may attend, or None if nothing is masked.
        """
        distance = (positions[:, :, None] - keys[:, None, :])[:, None]  # (rows or 1, 1, new, past + new)
        visible_keys = distance >= 0
        window = self.settings.window
        in_window = visible_keys if window is None else visible_keys & (distance < window)
        if positions.shape[1] > 1:  # some token follows another
            return visible_keys, in_window
        return mask_or_none(visible_keys), mask_or_none(in_window)


def key_positions(mask: Tensor) -> Tensor:
    """Return the positions (rows, past) of cached tokens, counted where ``mask`` (rows, past) is True.

    The position of padding is :data:`PADDING_POSITION`.
    """
    return torch.where(mask, mask.cumsum(dim=1) - 1, PADDING_POSITION)


def _unpadded_lengths(source: Tensor, filler: int) -> Tensor:
    """Return the lengths (sentences,) of prompts without trailing padding.

    A prompt may contain the padding symbol before its end.
    """
    real = source != filler
    positions = torch.arange(1, source.shape[1] + 1, device=source.device)
    return (real * positions).amax(dim=1).clamp_min(1)


def _too_long_error(tokens: int, limit: int) -> TextTooLongError:
    return TextTooLongError(
        f"prompt and continuation need {tokens} positions, but the model has {limit}; "
        "shorten the prompt or lower max_length"
    )


def pack_caches(layers: tuple[KeysValues, ...], mask: Tensor) -> tuple[tuple[KeysValues, ...], Tensor]:
    """Return caches and their mask with used positions moved to the front, cropped to the longest row.

    Args:
        layers: keys and values of each layer, (rows, groups, past, head width).
        mask: (rows, past) bool, True at used positions.
    """
    key_counts = mask.sum(dim=1)
    longest = int(key_counts.max())
    cropped_mask = mask[:, :longest]
    if bool((cropped_mask.sum(dim=1) == key_counts).all()):
        cropped = (KeysValues(layer.keys[:, :, :longest], layer.values[:, :, :longest]) for layer in layers)
        return tuple(cropped), cropped_mask
    order = (~mask).byte().argsort(dim=1, stable=True)[:, :longest]  # (rows, longest)

    def pack(part: Tensor) -> Tensor:
        rows, groups, _, width = part.shape
        return part.gather(2, order[:, None, :, None].expand(rows, groups, longest, width))

    return tuple(KeysValues(pack(layer.keys), pack(layer.values)) for layer in layers), mask.gather(1, order)
