"""What a cleaning took out: each rule's toll, with examples."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from uwaga.cleaning.blocks import FAULTS, LineBlock, Verdicts
from uwaga.cleaning.pairs import mixed
from uwaga.cleaning.rule import RULES

EXAMPLES = 5
"""Examples of each toll."""
LONGEST_EXAMPLE = 300
"""Characters of a side of an example."""


@dataclass(frozen=True)
class Example:
    """A line (its number from 1) that went."""

    line: int
    source: str
    target: str


@dataclass
class Toll:
    """How many pairs a rule, or a fault of a line, took, of those that came as far as it."""

    name: str
    summary: str
    pairs: int = 0
    examples: list[Example] = field(default_factory=list)


@dataclass
class CleaningReport:
    """Counts of a cleaning: ``read`` lines, ``kept`` pairs, and the tolls in the order of the rules.

    ``settings`` is what was asked for, ``seconds`` what it took.
    """

    name: str
    settings: dict[str, Any]
    tolls: list[Toll]
    read: int = 0
    kept: int = 0
    seconds: float = 0.0

    @property
    def speed(self) -> float:
        """PairBlock read per second."""
        return self.read / self.seconds if self.seconds > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """What JSON can hold of it."""
        return {
            "corpus": self.name,
            "read": self.read,
            "kept": self.kept,
            "seconds": round(self.seconds, 3),
            "pairs_per_second": round(self.speed),
            "rules": [
                {
                    "rule": toll.name,
                    "summary": toll.summary,
                    "pairs": toll.pairs,
                    "examples": [
                        {"line": one.line, "source": one.source, "target": one.target}
                        for one in toll.examples
                    ],
                }
                for toll in self.tolls
            ],
            "settings": self.settings,
        }


class Collector:
    """Counts verdicts and draws examples.

    The examples of a rule are those of its lines whose numbers have the smallest hashes: spread over the
    whole corpus, and the same however the work was shared out.
    """

    def __init__(self, name: str, settings: dict[str, Any], rules: list[str]) -> None:
        tolls = [Toll(fault, "the line is no pair") for fault in FAULTS]
        tolls += [Toll(rule, RULES[rule].summary) for rule in rules]
        self.report = CleaningReport(name, settings, tolls)
        self._drawn: list[list[tuple[int, Example]]] = [[] for _ in tolls]
        self._bounds = np.full(len(tolls) + 1, np.iinfo(np.uint64).max, np.uint64)
        self._bounds[0] = 0

    def add(self, block: LineBlock, verdicts: Verdicts) -> None:
        """Count the lines of a block."""
        counts = np.bincount(verdicts, minlength=len(self._bounds))
        self.report.read += len(block)
        self.report.kept += int(counts[0])
        for toll, count in zip(self.report.tolls, counts[1:].tolist(), strict=True):
            toll.pairs += count
        numbers = np.arange(block.first, block.first + len(block)).astype(np.uint64)
        hashes = mixed(numbers * np.uint64(0x9E3779B97F4A7C15))
        for index in np.flatnonzero(hashes < self._bounds[verdicts]).tolist():
            self._draw(int(verdicts[index]), int(hashes[index]), block, index)

    def _draw(self, verdict: int, number: int, block: LineBlock, index: int) -> None:
        drawn = self._drawn[verdict - 1]
        source, target = (_short(text) for text in block.texts(index))
        drawn.append((number, Example(block.first + index, source, target)))
        drawn.sort(key=lambda one: one[0])
        del drawn[EXAMPLES:]
        if len(drawn) == EXAMPLES:
            self._bounds[verdict] = drawn[-1][0]

    def finish(self, seconds: float) -> CleaningReport:
        """The report of all blocks; faults that no line had are left out."""
        report = self.report
        for toll, drawn in zip(report.tolls, self._drawn, strict=True):
            toll.examples = sorted((one for _, one in drawn), key=lambda one: one.line)
        report.tolls = [toll for toll in report.tolls if toll.pairs or toll.name in RULES]
        report.seconds = seconds
        return report


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_EXAMPLE else text[:LONGEST_EXAMPLE] + "…"
