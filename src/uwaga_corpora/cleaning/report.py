"""Reports on corpus cleaning: number of pairs that each rule rejected, with examples, as JSON and HTML."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from uwaga.results.html import details, heading, page, paragraph, table
from uwaga_corpora.cleaning.blocks import FAULTS, LineBlock, Verdicts
from uwaga_corpora.cleaning.pairs import mix
from uwaga_corpora.cleaning.rule import RULES

MAX_EXAMPLES = 5
"""Maximum number of examples of a rule."""
MAX_EXAMPLE_LENGTH = 300
"""Maximum number of characters of a side of an example."""


@dataclass(frozen=True)
class Example:
    """A rejected pair with its line number, counted from 1."""

    line: int
    source: str
    target: str


@dataclass
class RuleCount:
    """The number of pairs that a rule or a fault rejected, not counting pairs that were rejected earlier."""

    name: str
    summary: str
    pairs: int = 0
    examples: list[Example] = field(default_factory=list)


@dataclass
class CleaningReport:
    """The result of cleaning a corpus.

    Attributes:
        name: the name of the corpus.
        settings: the languages and the settings of the rules.
        counts: rejected pairs by rule, in the order of the rules.
        read: number of lines.
        kept: number of pairs.
        seconds: duration.
        warnings: warnings about the corpus.
    """

    name: str
    settings: dict[str, Any]
    counts: list[RuleCount]
    read: int = 0
    kept: int = 0
    seconds: float = 0.0
    warnings: list[str] = field(default_factory=list)

    @property
    def speed(self) -> float:
        """The number of pairs read per second."""
        return self.read / self.seconds if self.seconds > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "corpus": self.name,
            "read": self.read,
            "kept": self.kept,
            "seconds": round(self.seconds, 3),
            "pairs_per_second": round(self.speed),
            "warnings": self.warnings,
            "rules": [
                {
                    "rule": count.name,
                    "summary": count.summary,
                    "pairs": count.pairs,
                    "examples": [
                        {"line": example.line, "source": example.source, "target": example.target}
                        for example in count.examples
                    ],
                }
                for count in self.counts
            ],
            "settings": self.settings,
        }


class Collector:
    """A collector that counts verdicts and samples examples of rejected pairs.

    The examples of a rule are the lines whose numbers have the smallest hashes, so that they are spread over
    the corpus and do not depend on the number of processes.
    """

    def __init__(self, name: str, settings: dict[str, Any], rules: list[str]) -> None:
        counts = [RuleCount(fault, "the line is not a pair") for fault in FAULTS]
        counts += [RuleCount(rule, RULES[rule].summary) for rule in rules]
        self.report = CleaningReport(name, settings, counts)
        self._samples: list[list[tuple[int, Example]]] = [[] for _ in counts]
        self._bounds = np.full(len(counts) + 1, np.iinfo(np.uint64).max, np.uint64)
        self._bounds[0] = 0

    def add(self, block: LineBlock, verdicts: Verdicts) -> None:
        """Count the verdicts on a block's lines, and sample examples."""
        counts = np.bincount(verdicts, minlength=len(self._bounds))
        self.report.read += len(block)
        self.report.kept += int(counts[0])
        for rule, pairs in zip(self.report.counts, counts[1:].tolist(), strict=True):
            rule.pairs += pairs
        numbers = np.arange(block.first, block.first + len(block)).astype(np.uint64)
        hashes = mix(numbers * np.uint64(0x9E3779B97F4A7C15))
        for index in np.flatnonzero(hashes < self._bounds[verdicts]).tolist():
            self._sample(int(verdicts[index]), int(hashes[index]), block, index)

    def _sample(self, verdict: int, number: int, block: LineBlock, index: int) -> None:
        samples = self._samples[verdict - 1]
        source, target = (_truncate(text) for text in block.texts(index))
        samples.append((number, Example(block.first + index, source, target)))
        samples.sort(key=lambda entry: entry[0])
        del samples[MAX_EXAMPLES:]
        if len(samples) == MAX_EXAMPLES:
            self._bounds[verdict] = samples[-1][0]

    def finish(self, seconds: float, warnings: list[str]) -> CleaningReport:
        """Return the report of all blocks, without the faults that did not occur."""
        report = self.report
        report.warnings = warnings
        for rule_count, samples in zip(report.counts, self._samples, strict=True):
            rule_count.examples = sorted(
                (example for _, example in samples), key=lambda example: example.line
            )
        report.counts = [
            rule_count for rule_count in report.counts if rule_count.pairs or rule_count.name in RULES
        ]
        report.seconds = seconds
        return report


def _truncate(text: str) -> str:
    return text if len(text) <= MAX_EXAMPLE_LENGTH else text[:MAX_EXAMPLE_LENGTH] + "…"


def report_page(report: CleaningReport) -> str:
    """Return a report as an HTML page."""
    share = 100 * report.kept / max(1, report.read)
    parts = [
        paragraph(
            f"{report.read:,} lines read, {report.kept:,} pairs kept ({share:.2f}%), "
            f"{report.read - report.kept:,} rejected; {report.speed:,.0f} pairs per second."
        ),
        *(paragraph(f"Warning: {warning}") for warning in report.warnings),
        heading("Rejected pairs"),
        table(
            ["rule", "what it rejects", "pairs", "% of all"],
            [
                (count.name, count.summary, count.pairs, 100 * count.pairs / max(1, report.read))
                for count in report.counts
            ],
        ),
        heading("Examples"),
    ]
    for count in report.counts:
        if count.examples:
            rows = [(example.line, example.source, example.target) for example in count.examples]
            parts.append(details(f"{count.name}: {count.pairs:,}", table(["line", "source", "target"], rows)))
    languages, rules = report.settings["languages"], report.settings["rules"]
    settings_rows = [
        (name, ", ".join(f"{key} {value}" for key, value in group.items())) for name, group in rules.items()
    ]
    parts += [
        heading("Settings"),
        paragraph(f"Languages: {' → '.join(languages)}"),
        table(["rule", "settings"], settings_rows),
    ]
    return page(f"Cleaning of {report.name}", parts)
