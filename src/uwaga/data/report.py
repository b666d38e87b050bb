"""A report on the lines of a corpus: counts of kept and of dropped lines, by the reason for dropping."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

Fault = Literal[
    "empty source",
    "empty target",
    "bad UTF-8",
    "NUL character",
    "missing column",
    "missing language",
    "line over 1 MiB",
    "not a JSON object",
    "too few tokens",
    "too many tokens",
    "too unequal lengths",
    "equal sides",
]
MAX_LISTED_LINES = 5
"""Maximum number of line numbers that are stored for each fault."""


@dataclass
class CorpusReport:
    """Counts of the lines of a corpus that were read, kept and dropped.

    Attributes:
        name: the name of the corpus.
        read: number of lines read.
        kept: number of pairs kept.
        faults: number of dropped lines by fault; each line counts under its first fault only.
        lines: numbers of the first few lines with each fault, counted from 1.
        warnings: warnings about the corpus.
    """

    name: str = ""
    read: int = 0
    kept: int = 0
    faults: dict[Fault, int] = field(default_factory=dict)
    lines: dict[Fault, list[int]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def add(self, fault: Fault, line: int) -> None:
        """Count a dropped line under its fault; the numbers of the first few lines are stored."""
        self.faults[fault] = self.faults.get(fault, 0) + 1
        first_lines = self.lines.setdefault(fault, [])
        if len(first_lines) < MAX_LISTED_LINES:
            first_lines.append(line)

    @property
    def skipped(self) -> int:
        """The number of dropped lines."""
        return sum(self.faults.values())

    def summary(self) -> list[str]:
        """Return lines of text: the totals, each fault with its first line numbers, and the warnings."""
        prefix = f"{self.name}: " if self.name else ""
        lines = [f"{prefix}{self.read} lines read, {self.kept} pairs kept, {self.skipped} skipped"]
        for fault in get_args(Fault):
            if count := self.faults.get(fault, 0):
                first_lines = self.lines[fault]
                ellipsis = ", ..." if count > len(first_lines) else ""
                lines.append(f"  {fault}: {count} (line {', '.join(map(str, first_lines))}{ellipsis})")
        return [*lines, *(f"warning: {warning}" for warning in self.warnings)]

    def update(self, other: CorpusReport) -> None:
        """Replace the contents of this report with a copy of another report."""
        self.name, self.read, self.kept = other.name, other.read, other.kept
        self.faults = dict(other.faults)
        self.lines = {fault: list(first_lines) for fault, first_lines in other.lines.items()}
        self.warnings = list(other.warnings)
