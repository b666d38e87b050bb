"""How many texts were similar to the pairs of a translation memory, as translation tools count them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import typer

from uwaga.results.translation import MemoryUse
from uwaga.translator.memories import MemoryArgument

BUCKETS = (
    (101.0, "in context"),
    (100.0, "100 %"),
    (95.0, "95-99 %"),
    (85.0, "85-94 %"),
    (75.0, "75-84 %"),
    (50.0, "50-74 %"),
    (0.0, "below 50 %"),
)
"""The least score of each bucket, and its name."""


@dataclass
class MemoryCounts:
    """Counts of texts by the score of the pair that they were translated with, and by how it was used."""

    buckets: Counter[str] = field(default_factory=Counter)
    used: Counter[str] = field(default_factory=Counter)

    def add(self, uses: Iterable[MemoryUse]) -> None:
        """Count the pairs that a translation was made with."""
        for use in uses:
            self.buckets[next(name for least, name in BUCKETS if use.score >= least)] += 1
            self.used[use.used] += 1

    def line(self, texts: int) -> str:
        """Return the counts as a line.

        Args:
            texts: the number of translated texts.
        """
        counts = [f"{name}: {self.buckets[name]}" for _, name in BUCKETS if self.buckets[name]]
        used = [f"{count} {name}" for name, count in self.used.items()]
        none = texts - self.buckets.total()
        parts = [*counts, *([f"none: {none}"] if none > 0 else [])]
        return f"memory: {', '.join(parts)}" + (f" ({', '.join(used)})" if used else "")


def print_memory_note(memory: MemoryArgument) -> None:
    """Print what was read into a temporary memory from a file of translations."""
    if note := getattr(memory, "note", ""):
        typer.echo(f"memory: {note}", err=True)
