"""Which words of a translation stand for which of its source."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from uwaga.results.record import JsonRecord

Span = tuple[int, int]
"""The first character of a word in its text, and the one behind its last, in Unicode code points."""


@dataclass(frozen=True)
class WordAlignment(JsonRecord):
    """Links between the words of two texts.

    ``source`` and ``target`` are the places of the words in their texts, rising and apart; ``links`` are
    (source word, target word), counted from 0, rising. A word may have any number of links, or none.
    ``likely`` says more where the model can: pairs that may be linked and how likely that is, links among
    them.
    """

    source: tuple[Span, ...]
    target: tuple[Span, ...]
    links: tuple[tuple[int, int], ...]
    likely: tuple[tuple[int, int, float], ...] = field(default=(), compare=False, repr=False)

    def __str__(self) -> str:
        """The links as Moses writes them: ``0-0 1-2``."""
        return " ".join(f"{source}-{target}" for source, target in self.links)

    def to_dict(self) -> dict[str, object]:
        """What JSON can hold of it, under the same names."""
        return {name: [list(pair) for pair in getattr(self, name)] for name in ("source", "target", "links")}

    @property
    def chances(self) -> dict[tuple[int, int], float]:
        """How likely pairs are linked: ``likely`` or, where that is not known, all links for certain."""
        if self.likely:
            return {(source, target): chance for source, target, chance in self.likely}
        return dict.fromkeys(self.links, 1.0)


def either(chances: Iterable[tuple[tuple[int, int], float]]) -> tuple[tuple[int, int, float], ...]:
    """Pairs and how likely each is, rising: of several chances for one pair, that any of them comes true."""
    missed: dict[tuple[int, int], float] = {}
    for pair, chance in chances:
        missed[pair] = missed.get(pair, 1.0) * (1.0 - chance)
    return tuple((*pair, 1.0 - left) for pair, left in sorted(missed.items()))
