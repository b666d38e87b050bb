"""What a rule of cleaning is, and the registry of them.

A new rule is one class in one file of ``uwaga/cleaning/rules``: settings, the command line and the law tests
read the registry and nothing else.
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
    """Tells which pairs are to go, by what is in each pair alone."""

    name: ClassVar[str]
    summary: ClassVar[str]
    """What goes, as reports and help say it."""
    settings_type: ClassVar[type[StrictModel]]
    needs_languages: ClassVar[bool] = False
    expensive: ClassVar[bool] = False
    """Whether it pays to show it none but the pairs that are left."""
    default: ClassVar[bool] = True
    """Whether the rule is asked where nobody says which are."""

    def __init__(self, settings: Settings, languages: tuple[str, str]) -> None:
        self.settings, self.languages = settings, languages

    def prepare(self) -> None:
        """Load what the rule needs; called once before the first pair, in every process.

        Raises:
            MissingExtraError: a library is not installed.
            SettingsError: it cannot judge these languages.
        """

    @abstractmethod
    def rejects(self, pairs: PairBlock) -> Mask:
        """(pairs,) which of them go. What it says of a pair must not depend on the other pairs."""


class OrderedRule(Rule[Settings]):
    """RuleWorkers by what came before: keys are made in any process, and looked at in the order of the
    lines.
    """

    @abstractmethod
    def keys(self, pairs: PairBlock) -> Keys:
        """(pairs,) all that the rule has to know of each pair."""

    @abstractmethod
    def rejects_keys(self, keys: Keys) -> Mask:
        """(pairs,) which pairs go, by their keys; called for all pairs in their order."""

    def rejects(self, pairs: PairBlock) -> Mask:
        """The two together."""
        return self.rejects_keys(self.keys(pairs))


class ScoredRule(Rule[Settings]):
    """Gives each pair a number, in the process that cleans (it has threads of its own); lower is better.

    ``share`` of the settings, where it is not None, keeps that share of the best of all pairs that come
    this far, and ``max`` those up to a number.
    """

    share: float | None = None
    max: float | None = None

    @abstractmethod
    def scores(self, pairs: PairBlock) -> NDArray[np.float32]:
        """(pairs,) the number of each."""

    def rejects(self, pairs: PairBlock) -> Mask:
        """By ``max`` alone; which share is the best is known when all have a number."""
        return self.beyond(self.scores(pairs))

    def beyond(self, scores: NDArray[np.float32]) -> Mask:
        """(pairs,) which numbers are over ``max``, or no numbers."""
        above = np.isnan(scores)
        return above if self.max is None else above | (scores > self.max)


AnyRule = Rule[Any]
AnyOrderedRule = OrderedRule[Any]
AnyScoredRule = ScoredRule[Any]
RULES: dict[str, type[AnyRule]] = {}
"""The rules by name, in the order in which they are asked unless told otherwise: cheap ones first."""
Kind = TypeVar("Kind", bound=type[AnyRule])


def register(name: str, summary: str, settings: type[StrictModel]) -> Callable[[Kind], Kind]:
    """Enter a class into the registry.

    Args:
        name: as settings files, the command line and reports have it.
        summary: what goes, in a few words.
        settings: its group of settings, each with a default and a description.
    """

    def enter(kind: Kind) -> Kind:
        kind.name, kind.summary, kind.settings_type = name, summary, settings
        RULES[name] = kind
        return kind

    return enter
