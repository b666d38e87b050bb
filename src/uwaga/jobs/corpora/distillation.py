"""Sequence-level knowledge distillation (Kim & Rush 2016): a teacher's translations as the student's targets.

The student is trained on ``-log p(ŷ | x)`` with the teacher's best ``ŷ`` in the place of the reference
(their §3.2), or with that of the teacher's n-best list ``T`` which is most like the reference ``y``, ``ỹ =
argmax_{t ∈ T} sim(t, y)`` (sequence-level interpolation, §3.3). Where there is no reference, the one that is
most like the teacher's others can stand for it (:mod:`uwaga.search.mbr`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from uwaga.errors import SettingsError
from uwaga.jobs.corpora.in_batches import Way, in_batches
from uwaga.jobs.corpora.job import Made
from uwaga.jobs.corpora.lines import JobLine
from uwaga.results.translation import Translation
from uwaga.search.mbr import Utility, rank_by_utility, utilities
from uwaga.settings.checks import check_one_of

Choose = Literal["reference", "mbr", "model"]
CHOICES: tuple[Choose, ...] = get_args(Choose)


def check_choice(choose: Choose, teachers: int) -> None:
    """Refuse to choose in a way that there is none, or by scores of several teachers.

    Raises:
        SettingsError: names the choices.
    """
    check_one_of("choose", choose, CHOICES)
    if choose == "model" and teachers > 1:
        raise SettingsError(
            "a pool of models has no best of its own, as their scores do not compare: choose by "
            "reference or mbr"
        )


@dataclass(frozen=True)
class Distillation:
    """A worker that gives every source a teacher's target.

    Several ways are a pool: what each of them finds is put together, as models can that share no vocabulary.

    Attributes:
        ways: the teachers.
        choose: ``reference``: the candidate most like any of the line's references; ``mbr``: the one of the
            highest expected utility among all, each teacher's weighing as much; ``model``: the teacher's own
            first.
        utility: what "like" means.

    Raises:
        SettingsError: a pool is asked for its first: scores of different models do not compare.
    """

    ways: Sequence[Way]
    choose: Choose = "reference"
    utility: Utility = "bleu"

    def __post_init__(self) -> None:
        """Check that they go together."""
        check_choice(self.choose, len(self.ways))

    def __call__(self, lines: Sequence[JobLine], advance: Callable[[int], None]) -> list[Made]:
        """Give every line a target."""
        return in_batches(self.ways, lines, self.pair, advance)

    def pair(self, line: JobLine, translations: Sequence[Translation]) -> Made:
        """The source with the candidate that is chosen.

        Args:
            line: the source and its references.
            translations: of each teacher, with its alternatives.
        """
        if self.choose == "reference" and not line.references:
            return Made(line.text, "", f"line {line.number} has no reference to choose by")
        lists = [[one, *one.alternatives] for one in translations if one.error is None]
        candidates = [one for ways in lists for one in ways]
        if not candidates:
            return Made(line.text, "", str(translations[0].error))
        best = candidates[self._best(line, candidates, lists)]
        if not best.text.strip():
            return Made(line.text, "", f"line {line.number}: the translation is empty")
        return Made(line.text, best.text, cut=best.truncated)

    def _best(
        self, line: JobLine, candidates: Sequence[Translation], lists: Sequence[Sequence[Translation]]
    ) -> int:
        if self.choose == "model" or len(candidates) == 1:
            return 0
        texts = [one.text for one in candidates]
        if self.choose == "reference":
            return int(utilities(texts, line.references, self.utility).max(axis=1).argmax())
        weights = [weight for ways in lists for weight in self._weights(ways)]
        return rank_by_utility(texts, weights, self.utility)[0][0]

    def _weights(self, candidates: Sequence[Translation]) -> list[float]:
        """How probable each candidate of a teacher is among its own: samples alike, others by score."""
        if self.ways[0].options.sample:
            return [1.0] * len(candidates)
        top = max(one.log_prob for one in candidates)
        if not math.isfinite(top):
            return [1 / len(candidates)] * len(candidates)
        shares = [math.exp(one.log_prob - top) for one in candidates]
        return [share / sum(shares) for share in shares]
