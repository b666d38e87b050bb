"""Vocabulary shortlists: which target tokens each source token lets a sentence become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from uwaga.decoder import Ids
from uwaga.engine import _core
from uwaga.errors import ModelError

Tokens = NDArray[np.int32]


def lexical_checksum(words: NDArray[np.uint64]) -> int:
    """The checksum (64 bits) that Marian puts into its binary shortlists, of the words behind it."""
    return _core.lexical_checksum(words)


@dataclass(frozen=True)
class Shortlist:
    """The target tokens that a sentence may become: the common ones and those of each of its source tokens.

    ``common`` (common,) rises. Those of source token ``s`` are ``targets[first[s] : first[s + 1]]``, rising;
    ``first`` (source vocabulary + 1,), ``targets`` (entries,). ``vocabulary`` is the number of target tokens.
    With ``own`` the sides share their tokens, and a source token may stay what it is. A list is filled up to
    a ``multiple`` of tokens with the lowest that are not in it.
    A sentence's probabilities are shared among its own list alone, so they depend on no other sentence.

    Raises:
        ModelError: tokens out of range or order, or offsets that are not those of ``targets``.
    """

    common: Tokens
    first: Tokens
    targets: Tokens
    vocabulary: int
    own: bool = False
    multiple: int = 1

    def __post_init__(self) -> None:
        for name in ("common", "first", "targets"):
            array = getattr(self, name)
            if array.ndim != 1 or array.dtype != np.int32:
                raise ModelError(f"{name}: {array.dtype.name} of shape {array.shape}, not int32 in a row")
        if not len(self.common):
            raise ModelError("common: no token that every sentence may become")
        if len(self.first) < 2 or self.first[0] != 0 or self.first[-1] != len(self.targets):
            raise ModelError(f"first: it does not lead from 0 to the {len(self.targets)} entries of targets")
        if (self.first[1:] < self.first[:-1]).any():  # a difference may overflow
            raise ModelError("first: the offsets fall")
        inner = self.first[(self.first > 0) & (self.first < len(self.targets))]
        within = np.ones(
            max(len(self.targets) - 1, 0), dtype=bool
        )  # (entries - 1,): both of one source token
        within[inner - 1] = False
        for name, tokens, rising in (
            ("common", self.common, self.common[1:] > self.common[:-1]),
            ("targets", self.targets, (self.targets[1:] > self.targets[:-1]) | ~within),
        ):
            if len(tokens) and (tokens.min() < 0 or tokens.max() >= self.vocabulary):
                raise ModelError(f"{name}: a token outside the vocabulary of {self.vocabulary}")
            if not rising.all():
                raise ModelError(f"{name}: the tokens do not rise")

    @property
    def source_vocabulary(self) -> int:
        """Number of source tokens."""
        return len(self.first) - 1

    def of(self, source: Sequence[int]) -> Ids:
        """The list of a sentence of source tokens, rising."""
        parts = [self.targets[self.first[token] : self.first[token + 1]] for token in set(source)]
        found = np.unique(np.concatenate([self.common, *parts, source if self.own else []])).astype(np.int64)
        lacking = np.setdiff1d(np.arange(self.vocabulary), found)[: -len(found) % self.multiple]
        return np.union1d(found, lacking)

    def including(self, tokens: Sequence[int]) -> Shortlist:
        """The same with further common tokens."""
        # np.union1d would import numpy.ma, which takes longer than reading most shortlists.
        common = np.array(sorted({*self.common.tolist(), *tokens}), dtype=np.int32)
        return replace(self, common=common)
