"""Base classes of the cleaning rules, and their registry.

A new rule is one class in ``uwaga/cleaning/rules``: settings, the command line and the law tests read the
registry only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from uwaga.cleaning.pairs import Keys, Mask, PairBlock
from uwaga.settings.parsing import StrictModel

Settings = TypeVar("Settings", bound=StrictModel)


class Rule(ABC, Generic[Settings]):
    """Rejects pairs by the content of each pair alone."""

    name: ClassVar[str]
    summary: ClassVar[str]
    """Description of the rejected pairs, for reports and help."""
    settings_type: ClassVar[type[StrictModel]]
    needs_languages: ClassVar[bool] = False
    expensive: ClassVar[bool] = False
    """Whether to apply it only to the pairs that are left, because it is slow."""
    default: ClassVar[bool] = True
    """Whether it belongs to the default rules."""

    def __init__(self, settings: Settings, languages: tuple[str, str]) -> None:
        self.settings, self.languages = settings, languages

    def prepare(self) -> None:
        """Load the rule's resources; called once in every process before the first pair.

        Raises:
            MissingExtraError: a library is not installed.
            SettingsError: the rule does not support these languages.
        """

    @abstractmethod
    def rejects(self, pairs: PairBlock) -> Mask:
        """Return the mask (pairs,) of rejected pairs, in which each pair is judged independently of the
        others.
        """


class OrderedRule(Rule[Settings]):
    """Rejects pairs by those before them: keys are made in any process, and checked in the order of the
    lines.
    """

    @abstractmethod
    def keys(self, pairs: PairBlock) -> Keys:
        """Return the keys (pairs,), which hold all that the rule needs of each pair."""

    @abstractmethod
    def rejects_keys(self, keys: Keys) -> Mask:
        """Return the mask (pairs,) of rejected pairs by their keys; called for all pairs in order."""

    def rejects(self, pairs: PairBlock) -> Mask:
        """Reject by the keys of the pairs."""
        return self.rejects_keys(self.keys(pairs))


class ScoredRule(Rule[Settings]):
    """Scores each pair in the main process, where it has its own threads; lower is better.

    Attributes:
        share: keeps this share of the best among all pairs that reach the rule; None for no such limit.
        max: keeps the pairs with at most this score; None for no such limit.
    """

    share: float | None = None
    max: float | None = None

    @abstractmethod
    def scores(self, pairs: PairBlock) -> NDArray[np.float32]:
        """Return the scores (pairs,)."""

    def rejects(self, pairs: PairBlock) -> Mask:
        """Reject by ``max`` alone; the best share is known only when all pairs have a score."""
        return self.beyond(self.scores(pairs))

    def beyond(self, scores: NDArray[np.float32]) -> Mask:
        """Return the mask (pairs,) of scores above ``max`` or NaN."""
        above = np.isnan(scores)
        return above if self.max is None else above | (scores > self.max)


AnyRule = Rule[Any]
AnyOrderedRule = OrderedRule[Any]
AnyScoredRule = ScoredRule[Any]
RULES: dict[str, type[AnyRule]] = {}
"""The rules by name, in their default order: cheap ones first."""
Kind = TypeVar("Kind", bound=type[AnyRule])


def register(name: str, summary: str, settings: type[StrictModel]) -> Callable[[Kind], Kind]:
    """Return a decorator that enters a rule into the registry.

    Args:
        name: in settings files, on the command line and in reports.
        summary: what the rule rejects, in a few words.
        settings: its settings, each with a default and a description.
    """

    def enter(kind: Kind) -> Kind:
        kind.name, kind.summary, kind.settings_type = name, summary, settings
        RULES[name] = kind
        return kind

    return enter
