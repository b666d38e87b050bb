"""Phrases that a target must contain, as an automaton over its tokens (M27).

One automaton holds the alternatives of all phrases of a sentence (Aho and Corasick 1975). The state of a
hypothesis is the longest prefix of an alternative that is a suffix of the hypothesis, so a match that fails
continues with the next shorter prefix (Hu 2019 returns to the root). A phrase is met if one of its
alternatives occurs in the target as often as required; phrases may overlap.
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
MAX_TIMES = 1 << 16
MAX_BONUS = 100.0
"""In nats."""


@dataclass(frozen=True)
class Phrase:
    """A phrase that a target must contain ``times`` times: any of the ``alternatives``, each a token
    sequence.

    With ``whole`` it must end at the end of a word; see ``inside`` of :class:`Phrases`.
    """

    alternatives: tuple[tuple[int, ...], ...]
    times: int = 1
    whole: bool = False


class Phrases:
    """All phrases of a sentence, compiled for the search.

    Axes: ``nodes`` of the automaton, 0 its root; ``edges`` sorted by node and token; ``phrases``.

    Attributes:
        first: (nodes + 1,) index of the first edge of each node. The edges of a node include those of its
            suffixes, except those of the root.
        tokens: (edges,) ascending within a node.
        targets: (edges,) target nodes.
        serves: (edges, phrases) True if the edge leads towards an end of the phrase.
        ends: (nodes, phrases) 1 if an alternative of the phrase ends at the node.
        progress: (nodes, phrases) matched tokens of the phrase at the node, not counting alternatives that
            end.
        sizes: (phrases,) tokens of the phrase's shortest alternative.
        times: (phrases,) how often it is required.
        whole: (phrases,) True if it must end at the end of a word.
        total: tokens required: the sum of ``sizes`` times ``times``.
        inside: (vocabulary,) True for tokens that continue a word; empty if unknown.
        bonus: None if the phrases are forced; else the score added for each token of them, in nats.

    Args:
        phrases: the phrases of the sentence.
        inside: see the attribute.
        bonus: see the attribute.
    """

    def __init__(
        self,
        phrases: Sequence[Phrase],
        inside: NDArray[np.bool_] | None = None,
        bonus: float | None = None,
    ) -> None:
        for number, phrase in enumerate(phrases, start=1):
            if not phrase.alternatives or not all(phrase.alternatives):
                raise SettingsError(f"phrase {number}: each alternative needs at least one token")
            check_whole(f"phrase {number}: times", phrase.times, 1, MAX_TIMES)
        if bonus is not None:
            check_between("bonus", bonus, 0.0, MAX_BONUS)
        self.phrases = tuple(phrases)
        self.bonus = bonus
        self.inside: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_) if inside is None else inside
        self.sizes: Ids = np.array([min(map(len, each.alternatives)) for each in phrases], dtype=np.int64)
        self.times: Ids = np.array([each.times for each in phrases], dtype=np.int64)
        self.whole: NDArray[np.bool_] = np.array([each.whole for each in phrases], dtype=np.bool_)
        self.total = int((self.sizes * self.times).sum())
        self._build(*_trie(phrases))

    def _build(self, children: list[dict[int, int]], ends: list[set[int]]) -> None:
        """Build the automaton of a trie whose nodes are sorted by depth."""
        back = [0] * len(children)  # longest proper suffix of a node that is a node too
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
        served = [numbers.keys() | ends[node] for node, numbers in enumerate(below)]
        sizes: list[int] = self.sizes.tolist()
        progress: list[dict[int, int]] = []
        for node, ahead in enumerate(below):
            held = {number: sizes[number] - far for number, far in ahead.items() if far < sizes[number]}
            for number, size in progress[back[node]].items() if node else ():
                held[number] = max(held.get(number, 0), size)
            progress.append(held)
        self._edges, self._ended = edges, ended
        self.ends: NDArray[np.uint8] = self._table([dict.fromkeys(numbers, 1) for numbers in ended], np.uint8)
        self.progress: Ids = self._table(progress, np.int64)
        rows = [sorted(each.items()) for each in edges]
        self.first: Ids = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        flat = np.array([edge for row in rows for edge in row], dtype=np.int64).reshape(-1, 2)
        self.tokens: Ids = np.ascontiguousarray(flat[:, 0])
        self.targets: Ids = np.ascontiguousarray(flat[:, 1])
        serves = self._table([dict.fromkeys(numbers, 1) for numbers in served], np.bool_)
        self.serves: NDArray[np.bool_] = serves[self.targets]

    def _table(self, rows: list[dict[int, int]], kind: type[Number]) -> NDArray[Number]:
        """Return the array (nodes, phrases) of values given by node and phrase, 0 elsewhere."""
        table: NDArray[Number] = np.zeros((len(rows), len(self.phrases)), dtype=kind)
        places = [(node, number, value) for node, row in enumerate(rows) for number, value in row.items()]
        if places:
            nodes, numbers, values = zip(*places, strict=True)
            table[list(nodes), list(numbers)] = values
        return table

    def met(self, tokens: Sequence[int]) -> list[int]:
        """Return how often each phrase occurs in a target, at most as often as required."""
        node, counts = 0, [0] * len(self.phrases)
        for token in [*tokens, None]:
            continues = token is not None and len(self.inside) > 0 and bool(self.inside[token])
            for number in self._ended[node] if node else ():
                counts[number] += not (continues and self.phrases[number].whole)
            node = self._edges[node].get(token, self._edges[0].get(token, 0)) if token is not None else 0
        return [min(count, phrase.times) for count, phrase in zip(counts, self.phrases, strict=True)]

    def possible(self, banned_tokens: Ids) -> Phrases | None:
        """Return the phrases that can be met without banned tokens, None if there are none."""
        banned = set(banned_tokens.tolist())
        left = [
            replace(phrase, alternatives=ways)
            for phrase in self.phrases
            if (ways := tuple(way for way in phrase.alternatives if banned.isdisjoint(way)))
        ]
        if tuple(left) == self.phrases:
            return self if left else None
        return Phrases(left, self.inside, self.bonus) if left else None

    @property
    def tables(self) -> PhraseTables:
        """The attributes as flat arrays, for a decoder's own beam search."""

        def row(values: NDArray[np.generic]) -> Ids:
            return np.ascontiguousarray(values, dtype=np.int64).ravel()

        every = (self.sizes, self.times, self.whole, self.tokens, self.first)
        wide = (self.targets, self.serves, self.ends, self.progress)
        sizes, times, whole, tokens, first = map(row, every)
        targets, serves, ends, progress = map(row, wide)
        bonus = -1.0 if self.bonus is None else self.bonus
        return PhraseTables(sizes, times, whole, tokens, first, targets, serves, ends, progress, bonus)

    @classmethod
    def of_tables(cls, tables: PhraseTables, inside: NDArray[np.bool_]) -> Phrases:
        """Return phrases made from tables, without the attribute ``phrases``, which the search does not use.

        Args:
            tables: from :attr:`tables`.
            inside: see the attribute.
        """
        sizes, times, whole, tokens, first, targets, serves, ends, progress, bonus = tables
        phrases = cls.__new__(cls)
        phrases.phrases, phrases.inside, phrases.bonus = (), inside, None if bonus < 0 else bonus
        phrases.sizes, phrases.times, phrases.whole = sizes, times, whole.astype(np.bool_)
        phrases.total = int((sizes * times).sum())
        phrases.tokens, phrases.first, phrases.targets = tokens, first, targets
        shape = len(first) - 1, len(sizes)
        phrases.serves = serves.reshape(-1, len(sizes)).astype(np.bool_)
        phrases.ends, phrases.progress = ends.reshape(shape).astype(np.uint8), progress.reshape(shape)
        return phrases

    def check(self, symbols: Symbols, vocabulary: int, where: str) -> None:
        """Check that a target of a model can contain the phrases."""
        for token in self.tokens.tolist():
            if not 0 <= token < vocabulary:
                raise SettingsError(
                    f"{where}: token {token} of a phrase is outside the vocabulary of {vocabulary}"
                )
            if token in (*symbols.ends, symbols.pad):
                raise SettingsError(f"{where}: a phrase contains the special token {token}: remove it")
        if len(self.inside) not in (0, vocabulary):
            raise SettingsError(f"{where}: inside has {len(self.inside)} tokens, not {vocabulary}")


def word_parts(phrases: Sequence[Phrases | None]) -> NDArray[np.bool_]:
    """Return (vocabulary,) the tokens that continue a word, which all phrases share; empty if unknown."""
    declared = [each.inside for each in phrases if each is not None and len(each.inside)]
    if any(each is not declared[0] and not np.array_equal(each, declared[0]) for each in declared):
        raise SettingsError("phrases: inside must be the same for all sentences of a search")
    return declared[0] if declared else np.zeros(0, dtype=np.bool_)


def _below(children: list[dict[int, int]], ends: list[set[int]]) -> list[dict[int, int]]:
    """Return for each node of a trie the distance to the nearest end below it, by phrase."""
    below: list[dict[int, int]] = [{} for _ in children]
    for node in range(len(children) - 1, -1, -1):
        row = below[node]
        for child in children[node].values():
            for number, far in below[child].items():
                row[number] = min(row.get(number, far + 1), far + 1)
            row |= dict.fromkeys(ends[child], 1)
    return below


def _trie(phrases: Sequence[Phrase]) -> tuple[list[dict[int, int]], list[set[int]]]:
    """Return the children of each node by token, and the phrases that end at each node; sorted by depth."""
    children: list[dict[int, int]] = [{}]
    ends: list[set[int]] = [set()]
    level = [
        (0, 0, number, tokens) for number, phrase in enumerate(phrases) for tokens in phrase.alternatives
    ]
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
