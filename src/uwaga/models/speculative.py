"""A Transformer that verifies draft tokens: it reads several tokens per sentence in one pass (M42)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor

from uwaga.decoder import Choice, Ids, State, Step, Verify
from uwaga.errors import TextTooLongError
from uwaga.models.base import pad
from uwaga.models.decoder_only import pack_caches
from uwaga.models.layers.choose import choose
from uwaga.models.layers.multihead import KeysValues
from uwaga.models.layers.positions import RelativePositions
from uwaga.models.transformer import Transformer, TransformerMemory, TransformerState


@dataclass(frozen=True)
class RaggedState(TransformerState):
    """A decoder state whose rows, one per sentence, are at different positions.

    ``mask`` (rows, past) is True at the cached positions that a row uses. After draft tokens are read, there
    is one row per token, and the rows of a sentence share caches and memory until some of these rows are
    selected. ``row_sentences`` (rows,) is then the sentence of each row; otherwise it is None.
    """

    mask: Tensor
    row_sentences: Tensor | None = None

    def reorder(self, rows: Ids) -> TransformerState:
        return self.unshare()._rows(torch.from_numpy(rows).to(self.memory.mask.device), self.memory)

    def select(self, sentences: Ids) -> TransformerState:
        rows = torch.from_numpy(sentences).to(self.memory.mask.device)
        memory = self.memory.select(rows if self.row_sentences is None else self.row_sentences[rows])
        return self._rows(rows, memory)

    def unshare(self) -> TransformerState:
        """Return the state with separate caches and memory for each row."""
        return self if self.row_sentences is None else self.select(np.arange(len(self.row_sentences)))

    def _rows(self, rows: Tensor, memory: TransformerMemory) -> TransformerState:
        """Return the state of some rows, as a plain TransformerState if they are all at one position."""
        cached_rows = rows if self.row_sentences is None else self.row_sentences[rows]
        layers = tuple(
            KeysValues(layer.keys.index_select(0, cached_rows), layer.values.index_select(0, cached_rows))
            for layer in cast(tuple[KeysValues, ...], self.layers)
        )
        layers, mask = pack_caches(layers, self.mask[rows])
        if bool(mask.all()):
            return TransformerState(memory, self.beams, mask.shape[1], layers)
        return RaggedState(memory, self.beams, mask.shape[1], layers, mask)


class SpeculativeTransformer(Transformer):
    """A Transformer that also supports :attr:`uwaga.decoder.Decoder.verify`."""

    title = "Transformer"

    @property
    def verify(self) -> Verify | None:
        """See :attr:`uwaga.decoder.Decoder.verify`. None for SSRU and AAN, which do not support it.

        The results equal those of :meth:`step` up to rounding.
        """
        return self._verify if self.settings.self_attention == "attention" else None

    @torch.inference_mode()
    def step(self, tokens: Ids, state: TransformerState, choice: Choice) -> Step:  # type: ignore[override]
        if isinstance(state, RaggedState):
            state = state.unshare()
        if not isinstance(state, RaggedState):
            return super().step(tokens, state, choice)
        ids = torch.from_numpy(tokens).to(self.device)[:, None]  # (rows, 1)
        return self._read(ids, torch.ones_like(ids, dtype=torch.bool), state, choice)

    @torch.inference_mode()
    def _verify(self, tokens: Sequence[Sequence[int]], state: State, choice: Choice) -> Step:
        assert isinstance(state, TransformerState)
        ids = pad(tokens, self.symbols.pad, self.device)  # (sentences, new)
        counts = torch.tensor([[len(sentence)] for sentence in tokens], device=self.device)
        token_mask = torch.arange(ids.shape[1], device=self.device) < counts  # (sentences, new)
        unshared_state = state.unshare() if isinstance(state, RaggedState) else state
        return self._read(ids, token_mask, unshared_state, choice)

    def _read(self, ids: Tensor, token_mask: Tensor, state: TransformerState, choice: Choice) -> Step:
        """Return the step after reading those ``ids`` (rows, new) for which ``token_mask`` is True."""
        if isinstance(state, RaggedState):
            past = state.mask
        else:
            past = torch.ones(len(ids), state.position, dtype=torch.bool, device=self.device)
        mask = torch.cat([past, token_mask], dim=1)  # (rows, past + new)
        keys = mask.cumsum(dim=1) - 1  # positions; padding is masked
        queries = keys[:, state.position :]
        if self.max_target is not None and int(keys.max()) >= self.max_target:
            raise TextTooLongError(
                f"the target needs {int(keys.max()) + 1} positions, but the model has {self.max_target}; "
                "lower max_length"
            )
        visible_keys = mask[:, None, :] & (keys[:, None, :] <= queries[:, :, None])  # (rows, new, past + new)
        positions = self.target_positions
        if isinstance(positions, RelativePositions):
            vectors, bias = None, positions.pairwise_bias(queries, keys)
        else:
            vectors, bias = positions.lookup(queries), None
        x = self._embed_target(ids, vectors)
        x, layers, weights = self._decode(x, state, visible_keys[:, None], bias, choice.attention)
        sentence_indices, columns = token_mask.nonzero(as_tuple=True)  # (tokens,)
        candidates, log_probs = choose(self.logits(x[sentence_indices, columns]), choice)
        attention = None if weights is None else weights[sentence_indices, columns].float().cpu().numpy()
        row_mask = torch.cat(
            [past[sentence_indices], torch.arange(ids.shape[1], device=self.device) <= columns[:, None]],
            dim=1,
        )
        position = state.position + ids.shape[1]
        next_state = RaggedState(state.memory, state.beams, position, layers, row_mask, sentence_indices)
        return Step(candidates, log_probs, next_state, attention)
