"""The decoder-only Transformer (M18; Radford 2019), which continues a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from uwaga.decoder import Choice, Ids, Memory, Step, Symbols
from uwaga.errors import TextTooLongError
from uwaga.models.base import OutputLayer, Seq2Seq, pad
from uwaga.models.blocks import EncoderBlock, Recording, norm
from uwaga.models.layers.attention import causal_mask
from uwaga.models.layers.choose import choose
from uwaga.models.layers.dropout import Dropout
from uwaga.models.layers.multihead import KeysValues
from uwaga.models.layers.positions import LearnedPositions
from uwaga.results.attention import Attentions
from uwaga.settings import DecoderOnlySettings


@dataclass(frozen=True)
class PromptMemory:
    """Encoded prompts: keys and values of all tokens except the last (M21).

    ``last`` (sentences,) the last token, which the first step feeds; ``mask`` (sentences, read) bool, True
    on tokens; ``layers`` (sentences, heads, read, head width), none where all prompts are of one token.
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
    """The cache of each row: ``mask`` (rows, past) bool and ``layers`` (rows, heads, past, head width).

    ``first`` (rows,) the tokens that the first step feeds, None after it; ``positions`` (rows,) the positions
    of the next tokens, ``furthest`` the largest of them. Between a prompt and its continuation there may be
    padding, which ``mask`` hides.
    """

    beams: int
    first: Tensor | None
    positions: Tensor
    furthest: int
    mask: Tensor
    layers: tuple[KeysValues, ...]

    def reorder(self, rows: Ids) -> PromptState:
        """See :meth:`uwaga.decoder.State.reorder`."""
        return self._rows(torch.from_numpy(rows).to(self.mask.device))

    def select(self, sentences: Ids) -> PromptState:
        """See :meth:`uwaga.decoder.State.select`."""
        rows = (sentences[:, None] * self.beams + np.arange(self.beams)).reshape(-1)
        return self.reorder(rows)

    def _rows(self, rows: Tensor) -> PromptState:
        layers = tuple(
            KeysValues(layer.keys.index_select(0, rows), layer.values.index_select(0, rows))
            for layer in self.layers
        )
        first = None if self.first is None else self.first[rows]
        return replace(self, first=first, positions=self.positions[rows], mask=self.mask[rows], layers=layers)


class DecoderOnly(Seq2Seq):
    """Token embeddings and learned positions, followed by blocks of causal self-attention (M18).

    A source is a prompt, of one token at least and without an end symbol; a target is its continuation,
    and the start symbol stands for the prompt's last token.
    """

    def __init__(self, settings: DecoderOnlySettings, symbols: Symbols, vocabulary: int) -> None:
        super().__init__()
        self.settings, self.symbols, self.vocabulary = settings, symbols, vocabulary
        self.max_source = self.max_target = settings.max_length
        self.scale = settings.width**0.5 if settings.embedding_scale else 1.0
        self.embedding = nn.Embedding(vocabulary, settings.width)
        self.positions = LearnedPositions(settings.max_length, settings.width, settings.position_offset)
        self.embedding_norm = norm(settings) if settings.embedding_norm else None
        self.decoder = nn.ModuleList(EncoderBlock(settings) for _ in range(settings.layers))
        self.decoder_norm = norm(settings) if settings.norm == "pre" else nn.Identity()
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
        return OutputLayer(self.output_weight, self.output_bias)

    def read(self, tokens: Tensor) -> Tensor:
        """Return features (sentences, length, width) of whole texts (sentences, length), right-padded."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        return self._run(tokens, positions, None, self._causal(tokens.shape[1]))[0]

    def features(self, source: Tensor, target_in: Tensor) -> Tensor:
        lengths = _real_lengths(source, self.symbols.pad)  # (sentences,)
        needed = int(lengths.max()) + target_in.shape[1] - 1
        if needed > self.settings.max_length:
            raise _too_long(needed, self.settings.max_length)
        memory = self._read_prompts(source, lengths)
        tokens = torch.cat([memory.last[:, None], target_in[:, 1:]], dim=1)  # (sentences, target)
        target = tokens.shape[1]
        positions = lengths[:, None] - 1 + torch.arange(target, device=tokens.device)
        hidden = memory.mask[:, None, None, :].expand(-1, 1, target, -1)  # (sentences, 1, target, read)
        own = self._causal(target).expand(len(tokens), 1, target, target)
        return self._run(tokens, positions, memory.layers, torch.cat([hidden, own], dim=3))[0]

    @torch.inference_mode()
    def record(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Attentions]:
        texts = [[*source, *fed[1:]] for source, fed in zip(sources, targets, strict=True)]
        lengths, seen = [len(text) for text in texts], Recording()
        longest = max(lengths)
        if longest > self.settings.max_length:
            raise _too_long(longest, self.settings.max_length)
        positions = torch.arange(longest, device=self.device)
        tokens = pad(texts, self.symbols.pad, self.device)  # right-padded, where no real token attends
        self._run(tokens, positions, None, self._causal(longest), seen.decoder)
        return seen.sentences(lengths, lengths)

    @torch.inference_mode()
    def encode(self, sources: Sequence[Sequence[int]]) -> PromptMemory:
        lengths = torch.tensor([len(source) for source in sources], device=self.device)
        longest = int(lengths.max())
        if longest > self.settings.max_length:
            raise _too_long(longest, self.settings.max_length)
        return self._read_prompts(pad(sources, self.symbols.pad, self.device), lengths)

    def start(self, memory: Memory, beams: int) -> PromptState:
        assert isinstance(memory, PromptMemory)
        each = [tensor.repeat_interleave(beams, 0) for tensor in (memory.last, memory.mask)]
        layers = memory.layers
        if beams > 1:
            layers = tuple(KeysValues(*(part.repeat_interleave(beams, 0) for part in one)) for one in layers)
        positions = each[1].sum(-1)  # (rows,)
        return PromptState(beams, each[0], positions, memory.mask.shape[1], each[1], layers)

    @torch.inference_mode()
    def step(self, tokens: Ids, state: PromptState, choice: Choice) -> Step:  # type: ignore[override]
        if state.furthest >= self.settings.max_length:
            raise _too_long(state.furthest + 1, self.settings.max_length)
        ids = torch.from_numpy(tokens).to(self.device) if state.first is None else state.first  # (rows,)
        mask = torch.cat([state.mask, torch.ones_like(state.mask[:, :1])], dim=1)  # (rows, past + 1)
        visible = None if bool(mask.all()) else mask[:, None, None, :]
        x, layers = self._run(ids[:, None], state.positions[:, None], state.layers, visible)
        candidates, log_probs = choose(self.logits(x[:, 0]), choice)
        following = replace(
            state,
            first=None,
            positions=state.positions + 1,
            furthest=state.furthest + 1,
            mask=mask,
            layers=layers,
        )
        return Step(candidates, log_probs, following)

    def _read_prompts(self, prompts: Tensor, lengths: Tensor) -> PromptMemory:
        """Return keys and values of padded prompts (sentences, longest) without their last tokens."""
        read = prompts.shape[1] - 1
        last = prompts.gather(1, lengths[:, None] - 1)[:, 0]
        positions = torch.arange(read, device=prompts.device)
        mask = positions < lengths[:, None] - 1  # (sentences, read)
        if read == 0:
            return PromptMemory(last, mask, ())
        # Right-padded, where causal attention of real tokens does not reach.
        _, layers = self._run(prompts[:, :read], positions, None, self._causal(read))
        return PromptMemory(last, mask, layers)

    def _run(
        self,
        tokens: Tensor,
        positions: Tensor,
        past: tuple[KeysValues, ...] | None,
        mask: Tensor | None,
        seen: list[Tensor] | None = None,
    ) -> tuple[Tensor, tuple[KeysValues, ...]]:
        """Return features of new tokens (rows, new) at ``positions``, and the extended caches; fill
        ``seen``.
        """
        x = self.embedding(tokens)  # (rows, new, width)
        if self.settings.embedding_scale:
            x = x * self.scale
        x = x + self.positions.at(positions)
        x = self.dropout(x if self.embedding_norm is None else self.embedding_norm(x))
        caches = []
        for index, block in enumerate(cast(list[EncoderBlock], list(self.decoder))):
            x, cache = block.extended(x, past[index] if past else None, mask, seen=seen)
            caches.append(cache)
        return self.decoder_norm(x), tuple(caches)

    def _causal(self, length: int) -> Tensor:
        return causal_mask(length, length, self.device)


def _real_lengths(source: Tensor, filler: int) -> Tensor:
    """Return (sentences,) tokens before trailing padding; a prompt may contain the padding symbol."""
    real = source != filler
    positions = torch.arange(1, source.shape[1] + 1, device=source.device)
    return (real * positions).amax(dim=1).clamp_min(1)


def _too_long(tokens: int, limit: int) -> TextTooLongError:
    return TextTooLongError(
        f"prompt and continuation take {tokens} positions, and the model has {limit}: "
        "shorten the prompt or lower max_length"
    )
