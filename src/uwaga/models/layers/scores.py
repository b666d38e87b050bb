"""Attention scores: classes registered by name.

A score is the F of generalised attention, ``f_ij = F(s_i, h_j)`` (M1). ``prepare`` runs once per sentence on
the keys; ``forward`` runs for every query. To add a score, decorate a class with ``@SCORES.register(name)``,
here or in a plugin: models are built from settings by this name, and property tests cover all scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from uwaga.errors import SettingsError, TextTooLongError
from uwaga.models.layers.kernels import StepProduct, energies
from uwaga.plugins import Registry

POSITIONS = 512


class AttentionScore(nn.Module):
    """A score between queries and keys.

    ``positions`` is the maximum source length of a location-based score; other scores do not use it.
    ``reads_keys`` is False for a score that does not depend on the keys.
    """

    reads_keys = True

    def __init__(self, query_width: int, key_width: int, positions: int = POSITIONS) -> None:
        super().__init__()
        self.query_width = query_width
        self.key_width = key_width
        self.positions = positions

    def prepare(self, keys: Tensor) -> Tensor:
        """Return the part of the score that depends only on the keys, (..., source, width).

        Args:
            keys: (..., source, key width).
        """
        return keys

    def forward(self, query: Tensor, prepared_keys: Tensor) -> Tensor:
        """Return the scores (..., target, source) of queries (..., target, query width).

        ``prepared_keys`` is the result of :meth:`prepare`.
        """
        raise NotImplementedError

    def steps(self, prepared_keys: Tensor, time: int) -> Callable[[Tensor], Tensor]:
        """Return a function that maps successive queries (rows, query width) to their scores (rows, source).

        The function's results equal those of :meth:`forward`. Subclasses override this method to make the
        gradients of successive queries cheaper.

        Args:
            prepared_keys: (rows, source, width) result of :meth:`prepare`.
            time: number of times that the function is called.
        """
        return lambda query: self(query[:, None], prepared_keys)[:, 0]


SCORES: Registry[type[AttentionScore]] = Registry("attention score", "uwaga.scores")


def make_score(name: str, query_width: int, key_width: int, positions: int = POSITIONS) -> AttentionScore:
    """Return a new instance of the score class that is registered under ``name``.

    Raises:
        SettingsError: there is no such score, or it does not support these widths.
    """
    return SCORES.find(name)(query_width, key_width, positions)


@SCORES.register("dot")
class DotScore(AttentionScore):
    """The dot product ``sᵀ h`` (M3; Luong 2015 eq. 8). Queries and keys have the same width."""

    def __init__(self, query_width: int, key_width: int, positions: int = POSITIONS) -> None:
        if query_width != key_width:
            raise SettingsError(
                f"the dot score needs queries and keys of equal width, not {query_width} and {key_width}; "
                "use `general`"
            )
        super().__init__(query_width, key_width, positions)

    def forward(self, query: Tensor, prepared_keys: Tensor) -> Tensor:
        return torch.matmul(query, prepared_keys.transpose(-1, -2))  # (..., target, source)

    def steps(self, prepared_keys: Tensor, time: int) -> Callable[[Tensor], Tensor]:
        return _make_key_product(prepared_keys, time)


@SCORES.register("scaled_dot")
class ScaledDotScore(DotScore):
    """The scaled dot product ``q kᵀ / √d_k`` (M7; Vaswani 2017 §3.2.1).

    Its variance is 1 if the elements of queries and keys are independent with variance 1.
    """

    def forward(self, query: Tensor, prepared_keys: Tensor) -> Tensor:
        # Scaling the query costs target·width products instead of target·source.
        return super().forward(query * (1.0 / math.sqrt(self.query_width)), prepared_keys)

    def steps(self, prepared_keys: Tensor, time: int) -> Callable[[Tensor], Tensor]:
        product = super().steps(prepared_keys, time)
        return lambda query: product(query * (1.0 / math.sqrt(self.query_width)))


class CappedScore(AttentionScore):
    """Another score s, capped to values between -c and c: ``c tanh(s / c)`` (M41; Gemma 2 report §2)."""

    def __init__(self, score: AttentionScore, cap: float) -> None:
        super().__init__(score.query_width, score.key_width, score.positions)
        self.score, self.cap = score, cap

    def prepare(self, keys: Tensor) -> Tensor:
        return self.score.prepare(keys)

    def forward(self, query: Tensor, prepared_keys: Tensor) -> Tensor:
        return soft_cap(self.score(query, prepared_keys), self.cap)


def soft_cap(x: Tensor, cap: float) -> Tensor:
    """Return ``cap tanh(x / cap)`` for each number of a tensor."""
    return cap * torch.tanh(x / cap)


@SCORES.register("general")
class GeneralScore(AttentionScore):
    """The bilinear form ``sᵀ W h`` (M4; Luong 2015 eq. 8)."""

    def __init__(self, query_width: int, key_width: int, positions: int = POSITIONS) -> None:
        super().__init__(query_width, key_width, positions)
        self.weight = nn.Linear(key_width, query_width, bias=False)

    def prepare(self, keys: Tensor) -> Tensor:
        return self.weight(keys)  # type: ignore[no-any-return]  # (..., source, query width)

    def forward(self, query: Tensor, prepared_keys: Tensor) -> Tensor:
        return torch.matmul(query, prepared_keys.transpose(-1, -2))  # (..., target, source)

    def steps(self, prepared_keys: Tensor, time: int) -> Callable[[Tensor], Tensor]:
        return _make_key_product(prepared_keys, time)


@SCORES.register("additive")
class AdditiveScore(AttentionScore):
    """The additive score ``vᵀ tanh(W1 h + W2 s)`` (M2; Bahdanau 2014 §A.1.2).

    The hidden layer is as wide as the query. :meth:`prepare` returns ``W1 h``.
    """

    def __init__(self, query_width: int, key_width: int, positions: int = POSITIONS) -> None:
        super().__init__(query_width, key_width, positions)
        self.key = nn.Linear(key_width, query_width, bias=False)  # W1
        self.query = nn.Linear(query_width, query_width, bias=False)  # W2
        self.vector = nn.Parameter(torch.empty(query_width))  # v
        for layer in (self.key, self.query):
            nn.init.xavier_uniform_(layer.weight)
        nn.init.normal_(self.vector, std=query_width**-0.5)

    def prepare(self, keys: Tensor) -> Tensor:
        return self.key(keys)  # type: ignore[no-any-return]  # (..., source, hidden)

    def forward(self, query: Tensor, prepared_keys: Tensor) -> Tensor:
        return energies(self.query(query), prepared_keys, self.vector)  # (..., target, source)

    def steps(self, prepared_keys: Tensor, time: int) -> Callable[[Tensor], Tensor]:
        product = StepProduct(
            prepared_keys.new_zeros(()).expand(len(prepared_keys), time, self.query_width), self.query.weight
        )
        return lambda query: energies(product(query)[:, None], prepared_keys, self.vector)[:, 0]


@SCORES.register("additive_joint")
class JointAdditiveScore(AttentionScore):
    """The additive score with one matrix for the concatenated vectors: ``vᵀ tanh(W [h; s])`` (M2).

    It is computed literally: W multiplies every query-key pair, and nothing is precomputed for the keys.
    """

    def __init__(self, query_width: int, key_width: int, positions: int = POSITIONS) -> None:
        super().__init__(query_width, key_width, positions)
        self.weight = nn.Linear(key_width + query_width, query_width, bias=False)  # W = [W1 W2]
        self.vector = nn.Parameter(torch.empty(query_width))  # v
        nn.init.xavier_uniform_(self.weight.weight)
        nn.init.normal_(self.vector, std=query_width**-0.5)

    def forward(self, query: Tensor, prepared_keys: Tensor) -> Tensor:
        target, source = query.shape[-2], prepared_keys.shape[-2]
        keys = prepared_keys.unsqueeze(-3).expand(*prepared_keys.shape[:-2], target, -1, -1)
        queries = query.unsqueeze(-2).expand(*query.shape[:-2], target, source, -1)
        keys_and_queries = torch.cat([keys, queries], dim=-1)  # (..., target, source, key + query width)
        return torch.matmul(torch.tanh(self.weight(keys_and_queries)), self.vector)  # (..., target, source)


@SCORES.register("concat")
class ConcatScore(AttentionScore):
    """The score ``vᵀ tanh(W [s; h])`` (M5; Luong 2015 eq. 8).

    The columns of W for keys are applied once per sentence, and the columns for queries once per query.
    """

    def __init__(self, query_width: int, key_width: int, positions: int = POSITIONS) -> None:
        super().__init__(query_width, key_width, positions)
        self.weight = nn.Parameter(torch.empty(query_width, query_width + key_width))  # W
        self.vector = nn.Parameter(torch.empty(query_width))  # v
        nn.init.xavier_uniform_(self.weight)
        nn.init.normal_(self.vector, std=query_width**-0.5)

    def prepare(self, keys: Tensor) -> Tensor:
        return nn.functional.linear(keys, self.weight[:, self.query_width :])  # (..., source, hidden)

    def forward(self, query: Tensor, prepared_keys: Tensor) -> Tensor:
        projected_query = nn.functional.linear(
            query, self.weight[:, : self.query_width]
        )  # (..., target, hidden)
        return energies(projected_query, prepared_keys, self.vector)  # (..., target, source)


@SCORES.register("location")
class LocationScore(AttentionScore):
    """The score ``W_a s_t`` of each source position (M6; Luong 2015 eq. 7). The keys are ignored."""

    reads_keys = False

    def __init__(self, query_width: int, key_width: int, positions: int = POSITIONS) -> None:
        super().__init__(query_width, key_width, positions)
        self.weight = nn.Linear(query_width, positions, bias=False)  # W_a

    def forward(self, query: Tensor, prepared_keys: Tensor) -> Tensor:
        source = prepared_keys.shape[-2]
        if source > self.positions:
            raise TextTooLongError(
                f"a source has {source} tokens, but the location score has only {self.positions} positions; "
                "shorten the text"
            )
        return nn.functional.linear(query, self.weight.weight[:source])  # (..., target, source)


def _make_key_product(prepared_keys: Tensor, time: int) -> StepProduct:
    """Return a function for the products ``sᵀ h`` of successive queries with keys (rows, source, width)."""
    rows, source, _ = prepared_keys.shape
    return StepProduct(prepared_keys.new_zeros(()).expand(rows, time, source), prepared_keys)
