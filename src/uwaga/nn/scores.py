"""Attention scores: one class each, found by name in a registry.

A score is the F of generalised attention, ``f_ij = F(s_i, h_j)`` (M1). ``prepare`` runs once per
sentence on the keys; ``forward`` runs for every query. Adding a score means adding a class here with
the ``@register`` line: settings, the command line and the law tests read the registry.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn

from uwaga.errors import SettingsError


class Score(nn.Module):
    """A score between queries and keys."""

    def __init__(self, query_width: int, key_width: int) -> None:
        super().__init__()
        self.query_width = query_width
        self.key_width = key_width

    def prepare(self, keys: Tensor) -> Tensor:
        """Do the work that depends on the keys alone.

        Args:
            keys: (..., source, key width).
        """
        return keys

    def forward(self, query: Tensor, prepared: Tensor) -> Tensor:
        """Scores (..., target, source) of queries (..., target, query width)."""
        raise NotImplementedError


Kind = TypeVar("Kind", bound=type[Score])
SCORES: dict[str, type[Score]] = {}


def register(name: str) -> Callable[[Kind], Kind]:
    """Enter a score class into the registry under a name."""

    def enter(kind: Kind) -> Kind:
        SCORES[name] = kind
        return kind

    return enter


def make_score(name: str, query_width: int, key_width: int) -> Score:
    """The registered score of that name.

    Raises:
        SettingsError: no score has that name; the message lists those there are.
    """
    if name not in SCORES:
        raise SettingsError(f"no attention score is called {name!r}; there are: {', '.join(sorted(SCORES))}")
    return SCORES[name](query_width, key_width)


@register("dot")
class DotScore(Score):
    """``sᵀ h`` (M3; Luong 2015 eq. 8). Queries and keys have the same width."""

    def __init__(self, query_width: int, key_width: int) -> None:
        if query_width != key_width:
            raise SettingsError(
                f"the dot score needs queries and keys of one width, not {query_width} and {key_width}; "
                "use `general`"
            )
        super().__init__(query_width, key_width)

    def forward(self, query: Tensor, prepared: Tensor) -> Tensor:
        return torch.matmul(query, prepared.transpose(-1, -2))  # (..., target, source)


@register("scaled_dot")
class ScaledDotScore(DotScore):
    """``q kᵀ / √d_k`` (M7; Vaswani 2017 §3.2.1), of variance 1 for entries of variance 1."""

    def forward(self, query: Tensor, prepared: Tensor) -> Tensor:
        # Scaling the query costs target·width products instead of target·source.
        return super().forward(query * (1.0 / math.sqrt(self.query_width)), prepared)


@register("general")
class GeneralScore(Score):
    """``sᵀ W h`` (M4; Luong 2015 eq. 8)."""

    def __init__(self, query_width: int, key_width: int) -> None:
        super().__init__(query_width, key_width)
        self.weight = nn.Linear(key_width, query_width, bias=False)

    def prepare(self, keys: Tensor) -> Tensor:
        return self.weight(keys)  # type: ignore[no-any-return]  # (..., source, query width)

    def forward(self, query: Tensor, prepared: Tensor) -> Tensor:
        return torch.matmul(query, prepared.transpose(-1, -2))  # (..., target, source)
