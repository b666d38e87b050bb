"""Vocabulary shortlists: the target tokens allowed for each source token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from uwaga.decoder import Ids
from uwaga.errors import ModelError

Tokens = NDArray[np.int32]


@dataclass(frozen=True)
class Shortlist:
    """The target tokens allowed in a sentence: common tokens, and the tokens listed for each source token.

    Probabilities are normalised over the list of a sentence, so they don't depend on other sentences.

    Attributes:
        common: (common,) tokens allowed in every sentence, ascending.
        first: (source vocabulary + 1,) offsets: ``targets[first[s] : first[s + 1]]`` are the target tokens of
            source token ``s``.
        targets: (entries,) target tokens, ascending for each source token.
        vocabulary: number of target tokens.
        allow_source: whether each source token is allowed in the target, if both share a vocabulary.
        multiple: lists are padded to a multiple of this length with the lowest tokens not in the list.
    """

    common: Tokens
    first: Tokens
    targets: Tokens
    vocabulary: int
    allow_source: bool = False
    multiple: int = 1

    def __post_init__(self) -> None:
        for name in ("common", "first", "targets"):
            array = getattr(self, name)
            if array.ndim != 1 or array.dtype != np.int32:
                raise ModelError(
                    f"{name}: must be int32 with one axis, not {array.dtype.name} of shape {array.shape}"
                )
        if not len(self.common):
            raise ModelError("common: at least one token is required")
        if len(self.first) < 2 or self.first[0] != 0 or self.first[-1] != len(self.targets):
            raise ModelError(
                f"first: the offsets must start at 0 and end at {len(self.targets)}, the number of targets"
            )
        if (self.first[1:] < self.first[:-1]).any():  # a difference may overflow
            raise ModelError("first: the offsets must not decrease")
        boundaries = self.first[(self.first > 0) & (self.first < len(self.targets))]
        # (entries - 1,): True if an entry and the next one belong to the same source token.
        same_source = np.ones(max(len(self.targets) - 1, 0), dtype=bool)
        same_source[boundaries - 1] = False
        for name, tokens, is_ascending in (
            ("common", self.common, self.common[1:] > self.common[:-1]),
            ("targets", self.targets, (self.targets[1:] > self.targets[:-1]) | ~same_source),
        ):
            if len(tokens) and (tokens.min() < 0 or tokens.max() >= self.vocabulary):
                raise ModelError(f"{name}: a token is outside the vocabulary of {self.vocabulary} tokens")
            if not is_ascending.all():
                raise ModelError(f"{name}: token ids are not in ascending order")

    @property
    def source_vocabulary(self) -> int:
        """Number of source tokens."""
        return len(self.first) - 1

    def allowed_tokens(self, source: Sequence[int]) -> Ids:
        """Return the target tokens allowed for a sentence of source tokens, ascending."""
        parts = [self.targets[self.first[token] : self.first[token + 1]] for token in set(source)]
        tokens = np.unique(np.concatenate([self.common, *parts, source if self.allow_source else []])).astype(
            np.int64
        )
        padding = np.setdiff1d(np.arange(self.vocabulary), tokens)[: -len(tokens) % self.multiple]
        return np.union1d(tokens, padding)

    def with_tokens(self, tokens: Sequence[int]) -> Shortlist:
        """Return the shortlist with additional common tokens."""
        # np.union1d would import numpy.ma, which takes longer than reading most shortlists.
        common_tokens = np.array(sorted({*self.common.tolist(), *tokens}), dtype=np.int32)
        return replace(self, common=common_tokens)
