"""What a target must contain, as an automaton that reads its tokens (M27).

The alternatives of all phrases of a sentence stand in one automaton (Aho and Corasick 1975). A hypothesis
is at the longest beginning of an alternative that it ends with, so that a phrase that fails goes on with
whatever other beginning is left of it (Hu 2019 unwinds to the root). A phrase is met where one of its
alternatives stands in the target, so often as it is asked for; phrases may overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from uwaga.decoder import Ids, PhraseTables, Symbols
from uwaga.errors import SettingsError
from uwaga.settings.options import check_between, check_whole

Number = TypeVar("Number", bound=np.generic)
MOST_TIMES = 1 << 16
STRONGEST = 100.0
"""The largest bonus, in nats."""


@dataclass(frozen=True)
class Phrase:
    """What a target must contain: one of the ``alternatives``, tokens each, ``times`` times.

    ``whole``: the word that it ends with ends with it; what goes on with a word, ``Phrases`` says.
    """

    alternatives: tuple[tuple[int, ...], ...]
    times: int = 1
    whole: bool = False


class Phrases:
    """All phrases of one sentence, ready for the search.

    Axes: ``nodes`` of the automaton, 0 its root; ``edges`` sorted by node and token; ``phrases``.

    Attributes:
        first: (nodes + 1,) where the edges of each node begin. Those of the node's endings are among them,
            but the root's are only its own.
        tokens: (edges,) rising within a node.
        targets: (edges,) the node that each leads to.
        serves: (edges, phrases) whether the edge leads towards an end of the phrase.
        ends: (nodes, phrases) 1 where an alternative of the phrase ends at the node.
        progress: (nodes, phrases) tokens of the phrase that the node holds, without what has ended there.
        sizes: (phrases,) tokens of the phrase's shortest alternative.
        times: (phrases,) how often it is asked for.
        whole: (phrases,) whether its last word must end with it.
        total: tokens to be met: ``sizes`` times ``times``, summed.
        inside: (vocabulary,) tokens that go on with the word before them; empty where that is not known.
        bonus: None where the phrases are forced; else what each token of them adds to a score, in nats.

    Args:
        phrases: what the target must contain.
        inside: as the attribute.
        bonus: likewise.

    Raises:
        SettingsError: a phrase without alternatives, an alternative without tokens, or an impossible number.
    """

    def __init__(
        self,
        phrases: Sequence[Phrase],
        inside: NDArray[np.bool_] | None = None,
        bonus: float | None = None,
    ) -> None:
        for number, phrase in enumerate(phrases, start=1):
            if not phrase.alternatives or not all(phrase.alternatives):
                raise SettingsError(f"phrase {number}: one token at least is wanted of each alternative")
            check_whole(f"phrase {number}: times", phrase.times, 1, MOST_TIMES)
        if bonus is not None:
            check_between("bonus", bonus, 0.0, STRONGEST)
        self.phrases = tuple(phrases)
        self.bonus = bonus
        self.inside: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_) if inside is None else inside
        self.sizes: Ids = np.array([min(map(len, one.alternatives)) for one in phrases], dtype=np.int64)
        self.times: Ids = np.array([one.times for one in phrases], dtype=np.int64)
        self.whole: NDArray[np.bool_] = np.array([one.whole for one in phrases], dtype=np.bool_)
        self.total = int((self.sizes * self.times).sum())
        self._build(*_trie(phrases))

    def _build(self, children: list[dict[int, int]], ends: list[set[int]]) -> None:
        """The automaton of a trie whose nodes stand in the order of their depths.

        Sentences have a few phrases of a few tokens: dictionaries are filled, and arrays made of them.
        """
        back = [0] * len(children)  # the longest proper ending of a node that is a node too
        edges: list[dict[int, int]] = [{} for _ in children]
        ended = list(ends)
        for node in range(len(children)):
            if node:
                ended[node] = ends[node] | ended[back[node]]
                edges[node] = {**(edges[back[node]] if back[node] else {}), **children[node]}
            for token, child in children[node].items():
                at = back[node]
                while node and at and token not in children[at]:
                    at = back[at]
                back[child] = children[at].get(token, 0) if node else 0
        edges[0] = children[0]
        below = _below(children, ends)
        served = [own.keys() | ends[node] for node, own in enumerate(below)]
        sizes: list[int] = self.sizes.tolist()
        progress: list[dict[int, int]] = []
        for node, ahead in enumerate(below):
            held = {number: sizes[number] - far for number, far in ahead.items() if far < sizes[number]}
            for number, size in progress[back[node]].items() if node else ():
                held[number] = max(held.get(number, 0), size)
            progress.append(held)
        self._edges, self._ended = edges, ended
        self.ends: NDArray[np.uint8] = self._table([dict.fromkeys(own, 1) for own in ended], np.uint8)
        self.progress: Ids = self._table(progress, np.int64)
        rows = [sorted(each.items()) for each in edges]
        self.first: Ids = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        flat = np.array([edge for row in rows for edge in row], dtype=np.int64).reshape(-1, 2)
        self.tokens: Ids = np.ascontiguousarray(flat[:, 0])
        self.targets: Ids = np.ascontiguousarray(flat[:, 1])
        serves = self._table([dict.fromkeys(own, 1) for own in served], np.bool_)
        self.serves: NDArray[np.bool_] = serves[self.targets]

    def _table(self, rows: list[dict[int, int]], kind: type[Number]) -> NDArray[Number]:
        """(nodes, phrases) an array of the values that each node has by phrase, 0 elsewhere."""
        made: NDArray[Number] = np.zeros((len(rows), len(self.phrases)), dtype=kind)
        places = [(node, number, value) for node, row in enumerate(rows) for number, value in row.items()]
        if places:
            nodes, numbers, values = zip(*places, strict=True)
            made[list(nodes), list(numbers)] = values
        return made

    def met(self, tokens: Sequence[int]) -> list[int]:
        """How often each phrase stands in a target, no more than it is asked for."""
        node, counts = 0, [0] * len(self.phrases)
        for token in [*tokens, None]:
            goes_on = token is not None and len(self.inside) > 0 and bool(self.inside[token])
            for number in self._ended[node] if node else ():
                counts[number] += not (goes_on and self.phrases[number].whole)
            node = self._edges[node].get(token, self._edges[0].get(token, 0)) if token is not None else 0
        return [min(count, one.times) for count, one in zip(counts, self.phrases, strict=True)]

    def possible(self, never: Ids) -> Phrases | None:
        """Those that can be met without tokens that are never produced; None where there are none."""
        banned = set(never.tolist())
        left = [
            replace(one, alternatives=ways)
            for one in self.phrases
            if (ways := tuple(way for way in one.alternatives if banned.isdisjoint(way)))
        ]
        if tuple(left) == self.phrases:
            return self if left else None
        return Phrases(left, self.inside, self.bonus) if left else None

    @property
    def tables(self) -> PhraseTables:
        """The attributes, each in a row, for a search of a decoder's own; a bonus of -1: forced."""

        def row(values: NDArray[np.generic]) -> Ids:
            return np.ascontiguousarray(values, dtype=np.int64).ravel()

        every = (self.sizes, self.times, self.whole, self.tokens, self.first)
        wide = (self.targets, self.serves, self.ends, self.progress)
        sizes, times, whole, tokens, first = map(row, every)
        targets, serves, ends, progress = map(row, wide)
        bonus = -1.0 if self.bonus is None else self.bonus
        return sizes, times, whole, tokens, first, targets, serves, ends, progress, bonus

    @classmethod
    def of_tables(cls, tables: PhraseTables, inside: NDArray[np.bool_]) -> Phrases:
        """The phrases that tables tell of: all that the search looks at, ``phrases`` apart.

        Args:
            tables: as the attribute of other phrases.
            inside: as the attribute.
        """
        sizes, times, whole, tokens, first, targets, serves, ends, progress, bonus = tables
        made = cls.__new__(cls)
        made.phrases, made.inside, made.bonus = (), inside, None if bonus < 0 else bonus
        made.sizes, made.times, made.whole = sizes, times, whole.astype(np.bool_)
        made.total = int((sizes * times).sum())
        made.tokens, made.first, made.targets = tokens, first, targets
        shape = len(first) - 1, len(sizes)
        made.serves = serves.reshape(-1, len(sizes)).astype(np.bool_)
        made.ends, made.progress = ends.reshape(shape).astype(np.uint8), progress.reshape(shape)
        return made

    def check(self, symbols: Symbols, vocabulary: int, where: str) -> None:
        """Refuse phrases that no target of a model can contain.

        Raises:
            SettingsError: a token is outside the vocabulary, or is the end symbol or padding.
        """
        for token in self.tokens.tolist():
            if not 0 <= token < vocabulary:
                raise SettingsError(
                    f"{where}: token {token} of a phrase is outside the vocabulary of {vocabulary}"
                )
            if token in (symbols.end, symbols.pad):
                raise SettingsError(f"{where}: a phrase holds the special token {token}: leave it out")
        if len(self.inside) not in (0, vocabulary):
            raise SettingsError(f"{where}: inside has {len(self.inside)} tokens, not {vocabulary}")


def word_parts(phrases: Sequence[Phrases | None]) -> NDArray[np.bool_]:
    """(vocabulary,) the tokens that go on with a word, which those of a search agree on; empty if none says.

    Raises:
        SettingsError: they do not agree.
    """
    said = [one.inside for one in phrases if one is not None and len(one.inside)]
    if any(one is not said[0] and not np.array_equal(one, said[0]) for one in said):
        raise SettingsError("phrases: inside must be the same for all sentences of a search")
    return said[0] if said else np.zeros(0, dtype=np.bool_)


def _below(children: list[dict[int, int]], ends: list[set[int]]) -> list[dict[int, int]]:
    """Of each node of a trie, by phrase, how many tokens below it the nearest end is; none where none is."""
    below: list[dict[int, int]] = [{} for _ in children]
    for node in range(len(children) - 1, -1, -1):
        row = below[node]
        for child in children[node].values():
            for number, far in below[child].items():
                row[number] = min(row.get(number, far + 1), far + 1)
            row |= dict.fromkeys(ends[child], 1)
    return below


def _trie(phrases: Sequence[Phrase]) -> tuple[list[dict[int, int]], list[set[int]]]:
    """The children of each node by token, and the phrases that end at each; nodes by their depth."""
    children: list[dict[int, int]] = [{}]
    ends: list[set[int]] = [set()]
    level = [(0, 0, number, tokens) for number, one in enumerate(phrases) for tokens in one.alternatives]
    while level:  # (node, tokens read, phrase, tokens)
        deeper = []
        for node, read, number, tokens in level:
            child = children[node].get(tokens[read])
            if child is None:
                child = children[node][tokens[read]] = len(children)
                children.append({})
                ends.append(set())
            if read + 1 == len(tokens):
                ends[child].add(number)
            else:
                deeper.append((child, read + 1, number, tokens))
        level = deeper
    return children, ends
