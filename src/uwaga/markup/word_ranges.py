"""Choose the words of a translation that each pair of tags is put around, and the places of unpaired tags.

A pair is put around the run of words with the fewest expected errors, missing words and extra words, given
the probability that each pair of words is linked. A pair inside another is limited to the words of that one;
of adjacent pairs that compete for the same words, the one with the higher gain comes first.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from uwaga.markup.strip_tags import Mark, Node
from uwaga.markup.words import LINKED, Links, overlapping
from uwaga.results.translation import Span

UNLINKED = 0.05
"""Cost of a word without links inside a pair: low, but no reason to include it."""

DEEPEST = 32
"""Most pairs inside each other; a deeper one is put around all words of the pair around it."""


TOO_MANY = 1.5
"""Cost of a word of other pairs, relative to leaving out a word of this pair."""


@dataclass(frozen=True)
class Words:
    """The words of a source and the links to those of its translation.

    ``starts`` are the first characters of ``spans``. ``partners`` are for each target word the source words
    that it may be linked to, and how likely. ``linked`` (target words + 1) counts the linked words before
    each, and ``costs`` sums what those before each cost where they belong to others. ``ends`` and ``begins``
    are for each source word where the translation of the nearest linked word ends or begins: of that word or
    one before it, and of that word or one after it.
    """

    spans: Sequence[Span]
    starts: Sequence[int]
    links: Links
    partners: Sequence[Sequence[tuple[int, float]]]
    linked: Sequence[int]
    costs: Sequence[float]
    ends: Sequence[int | None]
    begins: Sequence[int | None]

    @classmethod
    def of(cls, spans: Sequence[Span], links: Links, targets: int) -> Words:
        """Build it from the source words, their links, and the number of target words."""
        partners: list[list[tuple[int, float]]] = [[] for _ in range(targets)]
        for word, own in enumerate(links):
            for other, chance in own.items():
                partners[other].append((word, chance))
        taken = [any(chance >= LINKED for _, chance in one) for one in partners]
        costs = [_cost(_meant(one)) for one in partners]
        sums = list(accumulate(taken, initial=0)), list(accumulate(costs, initial=0.0))
        sure = [[other for other, chance in own.items() if chance >= LINKED] for own in links]
        ends = _carried([own[-1] + 1 if own else None for own in sure])
        begins = _carried([own[0] if own else None for own in reversed(sure)])[::-1]
        return cls(spans, [start for start, _ in spans], links, partners, *sums, ends, begins)

    def inside(self, start: int, end: int) -> range:
        """Return the words that have a character between two positions."""
        return overlapping(self.spans, self.starts, start, end) if end > start else range(0)

    def cost(self, low: int, high: int) -> float:
        """Return the cost of the target words between two positions."""
        return self.costs[high] - self.costs[low]


def _carried(values: Iterable[int | None]) -> list[int | None]:
    """Return the same values, each None replaced by the value before it."""
    carried, last = list[int | None](), None
    for value in values:
        last = last if value is None else value
        carried.append(last)
    return carried


def _cost(others: float) -> float:
    """Return the cost of another word inside a pair; ``others`` is the probability that it has an owner."""
    return TOO_MANY * others + UNLINKED * (1.0 - others)


def _meant(partners: Sequence[tuple[int, float]], own: range | None = None, *, others: bool = False) -> float:
    """Return how likely a target word is linked to some source words (or all), or to the others.

    Several certain links of one word share it: none of them is more important than the others.
    """
    mine = [chance for word, chance in partners if own is None or (word in own) is not others]
    certain = sum(chance >= 1.0 for _, chance in partners)
    missed = 1.0 - sum(chance >= 1.0 for chance in mine) / max(certain, 1)
    for chance in mine:
        missed *= 1.0 if chance >= 1.0 else 1.0 - chance
    return 1.0 - missed


def choose_places(root: Node, marks: Sequence[Mark], words: Words) -> None:
    """Choose ``low`` and ``high`` of every node.

    Args:
        root: the tree of the tags, from :func:`uwaga.markup.strip_tags.tag_tree`.
        marks: the tags.
        words: the words of the text and its translation.
    """
    root.low, root.high = 0, len(words.partners)
    waiting = [(root, range(len(words.spans)), 0)]
    while waiting:
        parent, around, level = waiting.pop()
        inside = {
            child.opens: words.inside(marks[child.opens].at, marks[child.closes].at)
            for child in parent.children
            if child.paired
        }
        taken = _pairs(parent, around, inside, words, level)
        for child in parent.children:
            if child.opens not in taken.nodes:
                child.low = child.high = _alone(child, marks, inside, words, parent, taken)
        waiting += [(child, inside[child.opens], level + 1) for child in parent.children if child.children]


@dataclass
class _Taken:
    """The taken words, as disjoint ascending ranges; ``nodes`` are the numbers of the pairs around them."""

    lows: list[int]
    highs: list[int]
    opens: list[int]
    nodes: set[int]

    def add(self, node: Node) -> None:
        at = bisect_left(self.lows, node.low)
        self.lows.insert(at, node.low)
        self.highs.insert(at, node.high)
        self.opens.insert(at, node.opens)
        self.nodes.add(node.opens)

    def holds(self, word: int) -> bool:
        at = bisect_right(self.lows, word) - 1
        return at >= 0 and word < self.highs[at]

    def begins(self, place: int) -> bool:
        """Return whether a pair begins at a place."""
        at = bisect_left(self.lows, place)
        return at < len(self.lows) and self.lows[at] == place

    def gap(self, word: int) -> int:
        """Return the number of the gap between pairs that a free word is in."""
        return bisect_right(self.lows, word)

    def beside(self, place: int, number: int) -> int:
        """Move a place out of any pair, to the side of it that the tag was on in the source."""
        at = bisect_right(self.lows, place) - 1
        if at < 0 or place >= self.highs[at]:
            return place
        return self.lows[at] if number < self.opens[at] else self.highs[at]


def _pairs(parent: Node, around: range, inside: dict[int, range], words: Words, level: int) -> _Taken:
    """Choose the words of the pairs inside another."""
    taken = _Taken([], [], [], set())
    wanted: list[tuple[float, Node, dict[int, float]]] = []
    for child in parent.children:
        own = inside.get(child.opens, range(0))
        if not own:
            continue
        if own == around or level > DEEPEST:
            child.low, child.high = parent.low, parent.high
            taken.add(child)
            return taken
        gains = _gains(own, words, parent.low, parent.high)
        if gains:
            wanted.append((_best_run(gains, words, taken)[0], child, gains))
    for _, child, gains in sorted(wanted, key=lambda one: (-one[0], one[1].opens)):
        free = {word: gain for word, gain in gains.items() if not taken.holds(word)}
        if not free:
            continue
        _, child.low, child.high = _best_run(free, words, taken)
        _reach_ends(child, parent, inside[child.opens], around, words, taken)
        taken.add(child)
    return taken


def _gains(own: range, words: Words, low: int, high: int) -> dict[int, float]:
    """Return the gain of each target word that may belong to a pair: the probability that it does, minus the
    cost of its belonging to others alone.
    """
    found = {other for word in own for other in words.links[word] if low <= other < high}
    gains = {}
    for other in sorted(found):
        wanted = _meant(words.partners[other], own)
        others = _meant(words.partners[other], own, others=True)
        gains[other] = wanted - (1.0 - wanted) * _cost(others)
    return gains


def _best_run(gains: dict[int, float], words: Words, taken: _Taken) -> tuple[float, int, int]:
    """Return gain, start and end of the run of words with the highest gain; the longest in a tie."""
    best = (float("-inf"), 0, 0)
    run = (0.0, -1, -1)
    gap = -1
    for word, gain in gains.items():
        here = taken.gap(word)
        longer = run[0] - words.cost(run[2], word) if run[1] >= 0 and here == gap else float("-inf")
        run = (longer + gain, run[1], word + 1) if longer >= 0 else (gain, word, word + 1)
        gap = here
        if run[0] > best[0] or (run[0] == best[0] and run[2] - run[1] > best[2] - best[1]):
            best = run
    return best


def _reach_ends(child: Node, parent: Node, own: range, around: range, words: Words, taken: _Taken) -> None:
    """Extend a pair to the start or end of the pair around it, if both start or end together in the source
    and only words without links are in between.
    """
    low, high = parent.low, parent.high
    if own[0] == around[0] and words.linked[child.low] == words.linked[low]:
        child.low = low if taken.gap(low) == taken.gap(child.low) and not taken.holds(low) else child.low
    if own[-1] == around[-1] and words.linked[child.high] == words.linked[high]:
        same = high > child.high and taken.gap(high - 1) == taken.gap(child.high - 1)
        child.high = high if same and not taken.holds(high - 1) else child.high


def _alone(
    node: Node, marks: Sequence[Mark], inside: dict[int, range], words: Words, parent: Node, taken: _Taken
) -> int:
    """Return the place of a tag around no word; a pair whose words are taken goes next to their owner."""
    for word in inside.get(node.opens, ()):
        for other in words.links[word]:
            if taken.holds(other):
                return taken.beside(other, node.opens)
    place = _between(marks[node.opens].at, words, parent)
    return place if taken.begins(place) else taken.beside(place, node.opens)


def _between(at: int, words: Words, parent: Node) -> int:
    """Return the place of a tag by its neighbours: after the translation of the word before it, or before
    that of the next word, if it touches that one only.
    """
    spans, starts = words.spans, words.starts
    after = bisect_left(starts, at)  # the first word behind it
    before = after - 1
    ends = words.ends[before] if before >= 0 else None
    begins = words.begins[after] if after < len(spans) else None
    places = [place for place in (ends, begins) if place is not None]
    if before < 0 or not places:
        return parent.low if before < 0 else parent.high
    if after >= len(spans):
        return parent.high
    inside = [min(max(place, parent.low), parent.high) for place in places]
    if len(inside) == 2 and inside[0] != inside[1]:
        glued = spans[before][1] == at
        follows = spans[after][0] == at
        return inside[0] if glued or not follows else inside[1]
    return inside[0]
