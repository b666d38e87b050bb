"""What a cleaning took out: each rule's count, with examples."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from uwaga.cleaning.blocks import FAULTS, LineBlock, Verdicts
from uwaga.cleaning.pairs import mixed
from uwaga.cleaning.rule import RULES
from uwaga.results.html import details, heading, page, paragraph, table

EXAMPLES = 5
"""Examples of each count."""
LONGEST_EXAMPLE = 300
"""Characters of a side of an example."""


@dataclass(frozen=True)
class Example:
    """A line (its number from 1) that went."""

    line: int
    source: str
    target: str


@dataclass
class RuleCount:
    """How many pairs a rule, or a fault of a line, took, of those that came as far as it."""

    name: str
    summary: str
    pairs: int = 0
    examples: list[Example] = field(default_factory=list)


@dataclass
class CleaningReport:
    """Counts of a cleaning: ``read`` lines, ``kept`` pairs, and the counts in the order of the rules.

    ``settings`` is what was asked for, ``seconds`` what it took.
    """

    name: str
    settings: dict[str, Any]
    counts: list[RuleCount]
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
                    "rule": count.name,
                    "summary": count.summary,
                    "pairs": count.pairs,
                    "examples": [
                        {"line": one.line, "source": one.source, "target": one.target}
                        for one in count.examples
                    ],
                }
                for count in self.counts
            ],
            "settings": self.settings,
        }


class Collector:
    """Counts verdicts and draws examples.

    The examples of a rule are those of its lines whose numbers have the smallest hashes: spread over the
    whole corpus, and the same however the work was shared out.
    """

    def __init__(self, name: str, settings: dict[str, Any], rules: list[str]) -> None:
        counts = [RuleCount(fault, "the line is no pair") for fault in FAULTS]
        counts += [RuleCount(rule, RULES[rule].summary) for rule in rules]
        self.report = CleaningReport(name, settings, counts)
        self._drawn: list[list[tuple[int, Example]]] = [[] for _ in counts]
        self._bounds = np.full(len(counts) + 1, np.iinfo(np.uint64).max, np.uint64)
        self._bounds[0] = 0

    def add(self, block: LineBlock, verdicts: Verdicts) -> None:
        """Count the lines of a block."""
        counts = np.bincount(verdicts, minlength=len(self._bounds))
        self.report.read += len(block)
        self.report.kept += int(counts[0])
        for rule, pairs in zip(self.report.counts, counts[1:].tolist(), strict=True):
            rule.pairs += pairs
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
        for count, drawn in zip(report.counts, self._drawn, strict=True):
            count.examples = sorted((one for _, one in drawn), key=lambda one: one.line)
        report.counts = [count for count in report.counts if count.pairs or count.name in RULES]
        report.seconds = seconds
        return report


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_EXAMPLE else text[:LONGEST_EXAMPLE] + "…"


def report_page(report: CleaningReport) -> str:
    """Each rule's count, with its examples."""
    share = 100 * report.kept / max(1, report.read)
    parts = [
        paragraph(
            f"{report.read:,} lines read, {report.kept:,} pairs kept ({share:.2f}%), "
            f"{report.read - report.kept:,} taken out; {report.speed:,.0f} pairs per second."
        ),
        heading("What went"),
        table(
            ["rule", "what it takes out", "pairs", "% of all"],
            [
                (count.name, count.summary, count.pairs, 100 * count.pairs / max(1, report.read))
                for count in report.counts
            ],
        ),
        heading("Examples"),
    ]
    for count in report.counts:
        if count.examples:
            rows = [(one.line, one.source, one.target) for one in count.examples]
            parts.append(details(f"{count.name}: {count.pairs:,}", table(["line", "source", "target"], rows)))
    languages, rules = report.settings["languages"], report.settings["rules"]
    asked = [
        (name, ", ".join(f"{key} {value}" for key, value in group.items())) for name, group in rules.items()
    ]
    parts += [
        heading("Settings"),
        paragraph(f"Languages: {' → '.join(languages)}"),
        table(["rule", "settings"], asked),
    ]
    return page(f"Cleaning of {report.name}", parts)
