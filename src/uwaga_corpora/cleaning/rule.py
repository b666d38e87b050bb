"""Base classes of the cleaning rules, and their registry.

Settings, the command line and the tests read the registry. A plugin adds a rule with
``@RULES.register(name)``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from uwaga.plugins import Registry
from uwaga.settings.parsing import StrictModel
from uwaga_corpora.cleaning.pairs import Keys, Mask, PairBlock

Settings = TypeVar("Settings", bound=StrictModel)


class Rule(ABC, Generic[Settings]):
    """A rule that rejects pairs, each independently of all other pairs."""

    summary: ClassVar[str]
    """A description of the rejected pairs, for reports and help."""
    settings_type: ClassVar[type[StrictModel]]
    """The settings of the rule, each with a default and a description."""
    needs_languages: ClassVar[bool] = False
    expensive: ClassVar[bool] = False
    """Whether the rule is slow, so that it is applied only to the remaining pairs."""
    default: ClassVar[bool] = True
    """Whether the rule is one of the default rules."""

    def __init__(self, settings: Settings, languages: tuple[str, str]) -> None:
        self.settings, self.languages = settings, languages

    def prepare(self) -> None:
        """Load the rule's resources; called once in each process before the first pair.

        Raises:
            MissingExtraError: a library is not installed.
            SettingsError: the rule does not support these languages.
        """

    @abstractmethod
    def rejects(self, pairs: PairBlock) -> Mask:
        """Return the mask (pairs,) of rejected pairs; each pair is judged independently of all others."""


class OrderedRule(Rule[Settings]):
    """A rule that rejects pairs depending on earlier pairs.

    The keys of pairs are computed in any process, and checked in the order of the pairs.
    """

    @abstractmethod
    def keys(self, pairs: PairBlock) -> Keys:
        """Return the keys (pairs,), which contain all that the rule needs to know about each pair."""

    @abstractmethod
    def rejects_keys(self, keys: Keys) -> Mask:
        """Return the mask (pairs,) of rejected pairs, given their keys; called for all pairs in order."""

    def rejects(self, pairs: PairBlock) -> Mask:
        """Return the mask (pairs,) of rejected pairs, by their keys."""
        return self.rejects_keys(self.keys(pairs))


class ScoredRule(Rule[Settings]):
    """A rule that scores each pair, in the main process with multiple threads; a lower score is better.

    Attributes:
        share: share of the pairs to keep: the best of the pairs that no earlier rule rejected; None to keep
            all.
        max: maximum score of a pair that is kept; None for no limit.
    """

    share: float | None = None
    max: float | None = None

    @abstractmethod
    def scores(self, pairs: PairBlock) -> NDArray[np.float32]:
        """Return the scores (pairs,)."""

    def rejects(self, pairs: PairBlock) -> Mask:
        """Return the mask (pairs,) of pairs rejected by ``max``.

        The best share is known only when all pairs have a score.
        """
        return self.above_limit(self.scores(pairs))

    def above_limit(self, scores: NDArray[np.float32]) -> Mask:
        """Return the mask (pairs,) of scores above ``max`` or NaN."""
        is_rejected = np.isnan(scores)
        return is_rejected if self.max is None else is_rejected | (scores > self.max)


AnyRule = Rule[Any]
AnyOrderedRule = OrderedRule[Any]
AnyScoredRule = ScoredRule[Any]
RULES: Registry[type[AnyRule]] = Registry(
    "cleaning rule",
    "uwaga.cleaning_rules",
    {
        "length": "uwaga_corpora.cleaning.rules.shape:Length",
        "ratio": "uwaga_corpora.cleaning.rules.shape:Ratio",
        "long_words": "uwaga_corpora.cleaning.rules.shape:LongWords",
        "characters": "uwaga_corpora.cleaning.rules.shape:Characters",
        "letters": "uwaga_corpora.cleaning.rules.shape:Letters",
        "script": "uwaga_corpora.cleaning.rules.shape:Script",
        "identical": "uwaga_corpora.cleaning.rules.content:Identical",
        "punctuation": "uwaga_corpora.cleaning.rules.content:Punctuation",
        "numbers": "uwaga_corpora.cleaning.rules.content:Numbers",
        "addresses": "uwaga_corpora.cleaning.rules.content:Addresses",
        "mojibake": "uwaga_corpora.cleaning.rules.content:Mojibake",
        "markup": "uwaga_corpora.cleaning.rules.content:Markup",
        "duplicates": "uwaga_corpora.cleaning.rules.duplicates:Duplicates",
        "language": "uwaga_corpora.cleaning.rules.models:Language",
        "score": "uwaga_corpora.cleaning.rules.models:DualCrossEntropy",
    },
)
"""The rules by name, in their default order: cheap rules first."""
