"""Counts of translated texts by similarity to pairs of a translation memory, as in translation tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import typer

from uwaga.results.translation import MemoryUse
from uwaga.translator.memories import SIMILARITY_CLASSES, MemoryArgument, similarity_class


@dataclass
class MemoryCounts:
    """Counts of texts by similarity to the pair found in the memory, and by how that pair was used."""

    classes: Counter[str] = field(default_factory=Counter)
    used: Counter[str] = field(default_factory=Counter)

    def add(self, uses: Iterable[MemoryUse]) -> None:
        """Count the pairs that were used for a translation."""
        for use in uses:
            self.classes[similarity_class(use.score)] += 1
            self.used[use.used] += 1

    def line(self, text_count: int) -> str:
        """Return a line with the counts, such as ``memory: exact: 3, none: 7``.

        Args:
            text_count: the number of translated texts.
        """
        counts = [f"{name}: {self.classes[name]}" for name in SIMILARITY_CLASSES if self.classes[name]]
        usage_counts = [f"{count} {name}" for name, count in self.used.items()]
        unmatched_count = text_count - self.classes.total()
        parts = [*counts, *([f"none: {unmatched_count}"] if unmatched_count > 0 else [])]
        return f"memory: {', '.join(parts)}" + (f" ({', '.join(usage_counts)})" if usage_counts else "")


def print_memory_note(memory: MemoryArgument) -> None:
    """Print the note, if any, about the file that a temporary memory was read from."""
    if note := getattr(memory, "note", ""):
        typer.echo(f"memory: {note}", err=True)
