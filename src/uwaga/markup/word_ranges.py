"""Choice of the words of a translation that each pair of tags encloses, and of the positions of unpaired
tags.

A pair encloses the sequence of words with the fewest expected errors (missing and extra words), given the
probability that each pair of words is linked. A nested pair is limited to the words of its parent. Of
adjacent pairs that compete for the same words, the one with the higher gain takes precedence.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from uwaga.markup.strip_tags import Mark, Node
from uwaga.markup.words import LINK_THRESHOLD, Links, overlapping
from uwaga.results.translation import Span

UNLINKED_COST = 0.05
"""Cost of an unlinked word inside a pair: low, but enough to include it only if necessary."""

MAX_PAIR_DEPTH = 32
"""Maximum depth of nested pairs; a deeper pair encloses all words of its parent."""


EXTRA_WORD_COST = 1.5
"""Cost of including a word of other pairs, relative to omitting a word of this pair."""


@dataclass(frozen=True)
class LinkedWords:
    """The words of a source and their links to the words of its translation.

    Attributes:
        spans: the span of each source word.
        starts: the start offset of each source word.
        links: the links of each source word.
        partners: for each target word, the source words that it may be linked to, with probabilities.
        linked: (target words + 1,) number of linked target words before each position.
        costs: (target words + 1,) total cost of the target words before each position if they are extra
            words.
        ends: for each source word, the end of the translation of the nearest linked word at or before it.
        begins: for each source word, the start of the translation of the nearest linked word at or after it.
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
    def from_links(cls, spans: Sequence[Span], links: Links, targets: int) -> LinkedWords:
        """Return the linked words for the spans of the source words, their links, and the number of
        target words.
        """
        partners: list[list[tuple[int, float]]] = [[] for _ in range(targets)]
        for word, word_links in enumerate(links):
            for target, probability in word_links.items():
                partners[target].append((word, probability))
        is_linked = [
            any(probability >= LINK_THRESHOLD for _, probability in word_partners)
            for word_partners in partners
        ]
        costs = [_extra_word_cost(_link_probability(word_partners)) for word_partners in partners]
        sums = list(accumulate(is_linked, initial=0)), list(accumulate(costs, initial=0.0))
        certain_targets = [
            [target for target, probability in word_links.items() if probability >= LINK_THRESHOLD]
            for word_links in links
        ]
        ends = _fill_forward([targets[-1] + 1 if targets else None for targets in certain_targets])
        begins = _fill_forward([targets[0] if targets else None for targets in reversed(certain_targets)])[
            ::-1
        ]
        return cls(spans, [start for start, _ in spans], links, partners, *sums, ends, begins)

    def inside(self, start: int, end: int) -> range:
        """Return the indices of the source words that overlap the characters from ``start`` to ``end``."""
        return overlapping(self.spans, self.starts, start, end) if end > start else range(0)

    def cost(self, low: int, high: int) -> float:
        """Return the total cost of the target words from ``low`` to ``high`` if they are extra words."""
        return self.costs[high] - self.costs[low]


def _fill_forward(values: Iterable[int | None]) -> list[int | None]:
    """Return the values with each None replaced by the preceding value."""
    filled_values, last_value = list[int | None](), None
    for value in values:
        last_value = last_value if value is None else value
        filled_values.append(last_value)
    return filled_values


def _extra_word_cost(probability: float) -> float:
    """Return the cost of an extra word inside a pair, given the probability that it belongs to
    another pair.
    """
    return EXTRA_WORD_COST * probability + UNLINKED_COST * (1.0 - probability)


def _link_probability(
    partners: Sequence[tuple[int, float]], source_words: range | None = None, *, invert: bool = False
) -> float:
    """Return the probability that a target word is linked to at least one of the selected source words.

    If a word has several certain links, each has an equal share of its probability.

    Args:
        partners: the source words that the target word may be linked to, with probabilities.
        source_words: the selected source words; None for all.
        invert: whether to select all words except ``source_words`` instead.
    """
    selected_probabilities = [
        probability
        for word, probability in partners
        if source_words is None or (word in source_words) is not invert
    ]
    certain_count = sum(probability >= 1.0 for _, probability in partners)
    unlinked_probability = 1.0 - sum(probability >= 1.0 for probability in selected_probabilities) / max(
        certain_count, 1
    )
    for probability in selected_probabilities:
        unlinked_probability *= 1.0 if probability >= 1.0 else 1.0 - probability
    return 1.0 - unlinked_probability


def choose_ranges(root: Node, marks: Sequence[Mark], words: LinkedWords) -> None:
    """Set ``low`` and ``high`` of every node to the chosen target words.

    Args:
        root: the tree of the tags, from :func:`uwaga.markup.strip_tags.tag_tree`.
        marks: the tags.
        words: the words of the text and its translation.
    """
    root.low, root.high = 0, len(words.partners)
    stack = [(root, range(len(words.spans)), 0)]
    while stack:
        parent, parent_words, level = stack.pop()
        child_words = {
            child.opening: words.inside(marks[child.opening].position, marks[child.closing].position)
            for child in parent.children
            if child.is_pair
        }
        pair_ranges = _choose_pairs(parent, parent_words, child_words, words, level)
        for child in parent.children:
            if child.opening not in pair_ranges.placed:
                child.low = child.high = _place_without_words(
                    child, marks, child_words, words, parent, pair_ranges
                )
        stack += [
            (child, child_words[child.opening], level + 1) for child in parent.children if child.children
        ]


@dataclass
class _PairRanges:
    """The target words that pairs of tags already enclose, as disjoint ascending ranges.

    Attributes:
        starts: the start of each range.
        ends: the end of each range.
        opening: the index of the opening mark of each range's pair.
        placed: the indices of the opening marks of all these pairs.
    """

    starts: list[int]
    ends: list[int]
    opening: list[int]
    placed: set[int]

    def add(self, node: Node) -> None:
        index = bisect_left(self.starts, node.low)
        self.starts.insert(index, node.low)
        self.ends.insert(index, node.high)
        self.opening.insert(index, node.opening)
        self.placed.add(node.opening)

    def contains(self, word: int) -> bool:
        index = bisect_right(self.starts, word) - 1
        return index >= 0 and word < self.ends[index]

    def has_range_at(self, position: int) -> bool:
        """Return whether one of the ranges begins at a position."""
        index = bisect_left(self.starts, position)
        return index < len(self.starts) and self.starts[index] == position

    def gap(self, word: int) -> int:
        """Return the index of the gap between two ranges in which a word outside all ranges lies."""
        return bisect_right(self.starts, word)

    def outside_pairs(self, position: int, number: int) -> int:
        """Return a position outside all ranges: a position inside a range is moved to the side of the range
        on which the tag ``number`` is in the source.
        """
        index = bisect_right(self.starts, position) - 1
        if index < 0 or position >= self.ends[index]:
            return position
        return self.starts[index] if number < self.opening[index] else self.ends[index]


def _choose_pairs(
    parent: Node, parent_words: range, child_words: dict[int, range], words: LinkedWords, level: int
) -> _PairRanges:
    """Choose the words that each pair inside ``parent`` encloses, and return the ranges of these words."""
    pair_ranges = _PairRanges([], [], [], set())
    candidates: list[tuple[float, Node, dict[int, float]]] = []
    for child in parent.children:
        pair_words = child_words.get(child.opening, range(0))
        if not pair_words:
            continue
        if pair_words == parent_words or level > MAX_PAIR_DEPTH:
            child.low, child.high = parent.low, parent.high
            pair_ranges.add(child)
            return pair_ranges
        gains = _gains(pair_words, words, parent.low, parent.high)
        if gains:
            candidates.append((_best_run(gains, words, pair_ranges)[0], child, gains))
    for _, child, gains in sorted(candidates, key=lambda candidate: (-candidate[0], candidate[1].opening)):
        free_gains = {word: gain for word, gain in gains.items() if not pair_ranges.contains(word)}
        if not free_gains:
            continue
        _, child.low, child.high = _best_run(free_gains, words, pair_ranges)
        _extend_to_ends(child, parent, child_words[child.opening], parent_words, words, pair_ranges)
        pair_ranges.add(child)
    return pair_ranges


def _gains(pair_words: range, words: LinkedWords, low: int, high: int) -> dict[int, float]:
    """Return the gain of each target word that may belong to a pair.

    The gain is the probability that the word belongs to the pair, minus its expected cost as an extra word.
    """
    candidates = {target for word in pair_words for target in words.links[word] if low <= target < high}
    gains = {}
    for target in sorted(candidates):
        probability = _link_probability(words.partners[target], pair_words)
        other_probability = _link_probability(words.partners[target], pair_words, invert=True)
        gains[target] = probability - (1.0 - probability) * _extra_word_cost(other_probability)
    return gains


def _best_run(
    gains: dict[int, float], words: LinkedWords, pair_ranges: _PairRanges
) -> tuple[float, int, int]:
    """Return the gain, start and end of the sequence of words with the highest gain, the longest in a tie."""
    best_run = (float("-inf"), 0, 0)
    run = (0.0, -1, -1)
    gap = -1
    for word, gain in gains.items():
        word_gap = pair_ranges.gap(word)
        extended_gain = (
            run[0] - words.cost(run[2], word) if run[1] >= 0 and word_gap == gap else float("-inf")
        )
        run = (extended_gain + gain, run[1], word + 1) if extended_gain >= 0 else (gain, word, word + 1)
        gap = word_gap
        if run[0] > best_run[0] or (run[0] == best_run[0] and run[2] - run[1] > best_run[2] - best_run[1]):
            best_run = run
    return best_run


def _extend_to_ends(
    child: Node,
    parent: Node,
    pair_words: range,
    parent_words: range,
    words: LinkedWords,
    pair_ranges: _PairRanges,
) -> None:
    """Extend a pair to the start or end of its parent if only unlinked words are in between.

    This requires that the pair and its parent start, or end, at the same word of the source.
    """
    low, high = parent.low, parent.high
    if pair_words[0] == parent_words[0] and words.linked[child.low] == words.linked[low]:
        child.low = (
            low
            if pair_ranges.gap(low) == pair_ranges.gap(child.low) and not pair_ranges.contains(low)
            else child.low
        )
    if pair_words[-1] == parent_words[-1] and words.linked[child.high] == words.linked[high]:
        can_extend = high > child.high and pair_ranges.gap(high - 1) == pair_ranges.gap(child.high - 1)
        child.high = high if can_extend and not pair_ranges.contains(high - 1) else child.high


def _place_without_words(
    node: Node,
    marks: Sequence[Mark],
    child_words: dict[int, range],
    words: LinkedWords,
    parent: Node,
    pair_ranges: _PairRanges,
) -> int:
    """Return the position of a tag that encloses no words.

    A pair whose words another pair already encloses is placed next to that pair.
    """
    for word in child_words.get(node.opening, ()):
        for target in words.links[word]:
            if pair_ranges.contains(target):
                return pair_ranges.outside_pairs(target, node.opening)
    position = _position_between_words(marks[node.opening].position, words, parent)
    return (
        position if pair_ranges.has_range_at(position) else pair_ranges.outside_pairs(position, node.opening)
    )


def _position_between_words(offset: int, words: LinkedWords, parent: Node) -> int:
    """Return the position of a tag, as determined by the words around it.

    The tag follows the translation of the preceding word or, if it touches only the following word, precedes
    the translation of that word.
    """
    spans, starts = words.spans, words.starts
    next_word = bisect_left(starts, offset)  # the first word after the tag
    previous_word = next_word - 1
    preceding_end = words.ends[previous_word] if previous_word >= 0 else None
    following_start = words.begins[next_word] if next_word < len(spans) else None
    neighbours = [position for position in (preceding_end, following_start) if position is not None]
    if previous_word < 0 or not neighbours:
        return parent.low if previous_word < 0 else parent.high
    if next_word >= len(spans):
        return parent.high
    limited_positions = [min(max(position, parent.low), parent.high) for position in neighbours]
    if len(limited_positions) == 2 and limited_positions[0] != limited_positions[1]:
        touches_previous = spans[previous_word][1] == offset
        touches_next = spans[next_word][0] == offset
        return limited_positions[0] if touches_previous or not touches_next else limited_positions[1]
    return limited_positions[0]
