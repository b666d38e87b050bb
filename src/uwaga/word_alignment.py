"""Which words of a translation stand for which of its source."""

from __future__ import annotations

from dataclasses import dataclass

from uwaga.records import JsonRecord

Span = tuple[int, int]
"""The first character of a word in its text, and the one behind its last, in Unicode code points."""


@dataclass(frozen=True)
class WordAlignment(JsonRecord):
    """Links between the words of two texts.

    ``source`` and ``target`` are the places of the words in their texts, rising and apart; ``links`` are
    (source word, target word), counted from 0, rising. A word may have any number of links, or none.
    """

    source: tuple[Span, ...]
    target: tuple[Span, ...]
    links: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        """The links as Moses writes them: ``0-0 1-2``."""
        return " ".join(f"{source}-{target}" for source, target in self.links)

    def to_dict(self) -> dict[str, object]:
        """What JSON can hold of it, under the same names."""
        return {name: [list(pair) for pair in getattr(self, name)] for name in ("source", "target", "links")}
