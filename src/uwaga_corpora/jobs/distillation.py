"""Sequence-level knowledge distillation (Kim & Rush 2016): a teacher's translations as a student's targets.

The student is trained on ``-log p(ŷ | x)`` with the teacher's best translation ``ŷ`` instead of the reference
(their §3.2), or with the candidate of the teacher's n-best list ``T`` that is most similar to the reference
``y``, ``ỹ = argmax_{t ∈ T} sim(t, y)`` (sequence-level interpolation, §3.3). Without references, the
candidate with the minimum Bayes risk can be used (:mod:`uwaga.search.mbr`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from uwaga.errors import SettingsError
from uwaga.results.translation import Translation
from uwaga.search import SearchOptions
from uwaga.search.mbr import rank_by_utility, utilities
from uwaga.search.options import Utility
from uwaga.settings.options import check_choice

Choose = Literal["reference", "mbr", "model"]
TARGET_CHOICES: tuple[Choose, ...] = get_args(Choose)


@dataclass(frozen=True)
class TargetChoice:
    """The method of choosing the target from the teachers' candidates.

    Attributes:
        choose: ``reference`` is the candidate most similar to any reference of the line; ``mbr`` is the
            candidate with the highest expected utility, where all teachers have equal weight; ``model`` is
            the teacher's best candidate.
        utility: the measure of similarity; None means ``chrf`` for ``mbr`` and ``bleu`` otherwise.
        nbest: number of candidates per teacher; 1 for ``model``.
        pool: whether several models are separate teachers whose candidates are pooled, instead of an
            ensemble; for models that do not share a vocabulary.

    Raises:
        SettingsError: ``choose`` is unknown, or ``pool`` is combined with ``model``: the scores of different
            models are not comparable.
    """

    choose: Choose = "reference"
    utility: Utility | None = None
    nbest: int = 8
    pool: bool = False

    def __post_init__(self) -> None:
        """Check the choice and fill in the defaults that depend on it."""
        check_choice("choose", self.choose, TARGET_CHOICES)
        if self.choose == "model" and self.pool:
            raise SettingsError(
                "a pool of models has no best candidate by score, as scores of different models are not "
                "comparable: choose by reference or mbr"
            )
        object.__setattr__(self, "utility", self.utility or ("chrf" if self.choose == "mbr" else "bleu"))
        object.__setattr__(self, "nbest", 1 if self.choose == "model" else self.nbest)

    def search_options(self, options: SearchOptions) -> SearchOptions:
        """Return search options that give ``nbest`` candidates, with a beam of at least this size."""
        beam = options.beam if options.sample else max(options.beam, self.nbest)
        return replace(options, nbest=self.nbest, beam=beam)


def choose_target(
    choice: TargetChoice, translations: Sequence[Translation], references: Sequence[str], is_sampled: bool
) -> Translation:
    """Choose the target from the candidates; return a failed translation if every teacher failed.

    Args:
        choice: how to choose.
        translations: (teachers,) the translation of the line by each teacher, with its alternatives.
        references: the references of the line.
        is_sampled: whether the candidates were sampled, so that all have the same weight.
    """
    lists = [[best, *best.alternatives] for best in translations if best.error is None]
    candidates = [candidate for nbest in lists for candidate in nbest]
    if not candidates:
        return translations[0]
    if choice.choose == "model" or len(candidates) == 1:
        return candidates[0]
    assert choice.utility is not None
    texts = [candidate.text for candidate in candidates]
    if choice.choose == "reference":
        return candidates[int(utilities(texts, references, choice.utility).max(axis=1).argmax())]
    weights = [weight for nbest in lists for weight in _weights(nbest, is_sampled)]
    return candidates[rank_by_utility(texts, weights, choice.utility)[0][0]]


def _weights(nbest: Sequence[Translation], is_sampled: bool) -> list[float]:
    """Return the weight of each candidate: its probability in the n-best list, or 1 for samples."""
    if is_sampled:
        return [1.0] * len(nbest)
    max_log_prob = max(candidate.log_prob for candidate in nbest)
    if not math.isfinite(max_log_prob):
        return [1 / len(nbest)] * len(nbest)
    shares = [math.exp(candidate.log_prob - max_log_prob) for candidate in nbest]
    return [share / sum(shares) for share in shares]
