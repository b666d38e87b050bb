"""Phrases that a target must contain, as an automaton over its tokens (M27).

One automaton contains the alternatives of all phrases of a sentence (Aho and Corasick 1975). The state of a
hypothesis is the longest prefix of an alternative that is a suffix of the hypothesis, so a match that fails
continues with the next shorter prefix (Hu 2019 returns to the root). A phrase is met if one of its
alternatives occurs in the target as many times as required; phrases may overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from uwaga.decoder import Ids, PhraseTables, Symbols
from uwaga.errors import SettingsError
from uwaga.settings.options import check_integer, check_number

Number = TypeVar("Number", bound=np.generic)
MAX_TIMES = 1 << 16
"""Maximum number of required occurrences of a phrase."""
MAX_BONUS = 100.0
"""Maximum bonus per phrase token, in nats."""


@dataclass(frozen=True)
class Phrase:
    """A phrase that a target must contain ``times`` times: any of the ``alternatives``, which are token
    sequences.

    With ``whole_word`` the phrase must end at the end of a word; see ``continues_word`` of :class:`Phrases`.
    """

    alternatives: tuple[tuple[int, ...], ...]
    times: int = 1
    whole_word: bool = False


class Phrases:
    """All phrases of a sentence, compiled for the search.

    Axes: ``nodes`` of the automaton, 0 its root; ``edges`` sorted by node and token; ``phrases``.

    Attributes:
        first: (nodes + 1,) index of the first edge of each node. The edges of a node include the edges of
            its suffixes, except the root.
        tokens: (edges,) ascending within a node.
        targets: (edges,) target nodes.
        reaches_end: (edges, phrases) True if the edge leads towards an end of the phrase.
        ends: (nodes, phrases) 1 if an alternative of the phrase ends at the node.
        progress: (nodes, phrases) number of tokens of the phrase matched at the node, not counting
            alternatives that end there.
        sizes: (phrases,) number of tokens of the phrase's shortest alternative.
        times: (phrases,) number of required occurrences.
        whole_word: (phrases,) True if the phrase must end at the end of a word.
        total: number of required tokens: the sum of ``sizes`` times ``times``.
        continues_word: (vocabulary,) True for tokens that continue a word; empty if unknown.
        bonus: None if the phrases are forced; otherwise the score added for each phrase token, in nats.
    """

    def __init__(
        self,
        phrases: Sequence[Phrase],
        continues_word: NDArray[np.bool_] | None = None,
        bonus: float | None = None,
    ) -> None:
        for phrase_number, phrase in enumerate(phrases, start=1):
            if not phrase.alternatives or not all(phrase.alternatives):
                raise SettingsError(f"phrase {phrase_number}: each alternative needs at least one token")
            check_integer(f"phrase {phrase_number}: times", phrase.times, 1, MAX_TIMES)
        if bonus is not None:
            check_number("bonus", bonus, 0.0, MAX_BONUS)
        self.phrases = tuple(phrases)
        self.bonus = bonus
        self.continues_word: NDArray[np.bool_] = (
            np.zeros(0, dtype=np.bool_) if continues_word is None else continues_word
        )
        self.sizes: Ids = np.array([min(map(len, phrase.alternatives)) for phrase in phrases], dtype=np.int64)
        self.times: Ids = np.array([phrase.times for phrase in phrases], dtype=np.int64)
        self.whole_word: NDArray[np.bool_] = np.array(
            [phrase.whole_word for phrase in phrases], dtype=np.bool_
        )
        self.total = int((self.sizes * self.times).sum())
        self._build(*_trie(phrases))

    def _build(self, children: list[dict[int, int]], ends: list[set[int]]) -> None:
        """Build the automaton of a trie whose nodes are sorted by depth."""
        suffixes = [0] * len(children)  # suffix links: the longest proper suffix that is a node
        edges: list[dict[int, int]] = [{} for _ in children]
        ending = list(ends)
        for node in range(len(children)):
            if node:
                ending[node] = ends[node] | ending[suffixes[node]]
                edges[node] = {**(edges[suffixes[node]] if suffixes[node] else {}), **children[node]}
            for token, child in children[node].items():
                suffix = suffixes[node]
                while node and suffix and token not in children[suffix]:
                    suffix = suffixes[suffix]
                suffixes[child] = children[suffix].get(token, 0) if node else 0
        edges[0] = children[0]
        distances = _end_distances(children, ends)
        reachable = [numbers.keys() | ends[node] for node, numbers in enumerate(distances)]
        sizes: list[int] = self.sizes.tolist()
        progress: list[dict[int, int]] = []
        for node, phrase_distances in enumerate(distances):
            phrases_by_node = {
                phrase_index: sizes[phrase_index] - distance
                for phrase_index, distance in phrase_distances.items()
                if distance < sizes[phrase_index]
            }
            for phrase_index, size in progress[suffixes[node]].items() if node else ():
                phrases_by_node[phrase_index] = max(phrases_by_node.get(phrase_index, 0), size)
            progress.append(phrases_by_node)
        self._edges, self._phrases_by_end = edges, ending
        self.ends: NDArray[np.uint8] = self._table(
            [dict.fromkeys(numbers, 1) for numbers in ending], np.uint8
        )
        self.progress: Ids = self._table(progress, np.int64)
        rows = [sorted(node_edges.items()) for node_edges in edges]
        self.first: Ids = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        flat_edges = np.array([edge for row in rows for edge in row], dtype=np.int64).reshape(-1, 2)
        self.tokens: Ids = np.ascontiguousarray(flat_edges[:, 0])
        self.targets: Ids = np.ascontiguousarray(flat_edges[:, 1])
        reaches_end = self._table([dict.fromkeys(numbers, 1) for numbers in reachable], np.bool_)
        self.reaches_end: NDArray[np.bool_] = reaches_end[self.targets]

    def _table(self, rows: list[dict[int, int]], kind: type[Number]) -> NDArray[Number]:
        """Return an array (nodes, phrases) of the values in ``rows``, with 0 where a row has no value."""
        table: NDArray[Number] = np.zeros((len(rows), len(self.phrases)), dtype=kind)
        entries = [
            (node, phrase_index, value)
            for node, row in enumerate(rows)
            for phrase_index, value in row.items()
        ]
        if entries:
            nodes, numbers, values = zip(*entries, strict=True)
            table[list(nodes), list(numbers)] = values
        return table

    def occurrences(self, tokens: Sequence[int]) -> list[int]:
        """Return the number of occurrences of each phrase in a target, at most the required number."""
        node, counts = 0, [0] * len(self.phrases)
        for token in [*tokens, None]:
            continues = (
                token is not None and len(self.continues_word) > 0 and bool(self.continues_word[token])
            )
            for phrase_index in self._phrases_by_end[node] if node else ():
                counts[phrase_index] += not (continues and self.phrases[phrase_index].whole_word)
            node = self._edges[node].get(token, self._edges[0].get(token, 0)) if token is not None else 0
        return [min(count, phrase.times) for count, phrase in zip(counts, self.phrases, strict=True)]

    def without_banned(self, banned_tokens: Ids) -> Phrases | None:
        """Return the phrases that can be met without banned tokens, or None if there are no such phrases."""
        banned = set(banned_tokens.tolist())
        remaining_phrases = [
            replace(phrase, alternatives=alternatives)
            for phrase in self.phrases
            if (alternatives := tuple(tokens for tokens in phrase.alternatives if banned.isdisjoint(tokens)))
        ]
        if tuple(remaining_phrases) == self.phrases:
            return self if remaining_phrases else None
        return Phrases(remaining_phrases, self.continues_word, self.bonus) if remaining_phrases else None

    @property
    def tables(self) -> PhraseTables:
        """The attributes as flat arrays, for the beam search of a decoder."""

        def row(values: NDArray[np.generic]) -> Ids:
            return np.ascontiguousarray(values, dtype=np.int64).ravel()

        shared_tables = (self.sizes, self.times, self.whole_word, self.tokens, self.first)
        per_node = (self.targets, self.reaches_end, self.ends, self.progress)
        sizes, times, whole_word, tokens, first = map(row, shared_tables)
        targets, reaches_end, ends, progress = map(row, per_node)
        bonus = -1.0 if self.bonus is None else self.bonus
        return PhraseTables(
            sizes, times, whole_word, tokens, first, targets, reaches_end, ends, progress, bonus
        )

    @classmethod
    def from_tables(cls, tables: PhraseTables, continues_word: NDArray[np.bool_]) -> Phrases:
        """Return phrases from tables; their attribute ``phrases``, which the search does not use, is empty.

        Args:
            tables: as returned by :attr:`tables`.
            continues_word: see the attribute.
        """
        sizes, times, whole_word, tokens, first, targets, reaches_end, ends, progress, bonus = tables
        phrases = cls.__new__(cls)
        phrases.phrases = ()
        phrases.continues_word = continues_word
        phrases.bonus = None if bonus < 0 else bonus
        phrases.sizes, phrases.times, phrases.whole_word = sizes, times, whole_word.astype(np.bool_)
        phrases.total = int((sizes * times).sum())
        phrases.tokens, phrases.first, phrases.targets = tokens, first, targets
        shape = len(first) - 1, len(sizes)
        phrases.reaches_end = reaches_end.reshape(-1, len(sizes)).astype(np.bool_)
        phrases.ends, phrases.progress = ends.reshape(shape).astype(np.uint8), progress.reshape(shape)
        return phrases

    def check(self, symbols: Symbols, vocabulary: int, label: str) -> None:
        """Check that the tokens of the phrases are in the vocabulary, and that none is an end or padding
        symbol.
        """
        for token in self.tokens.tolist():
            if not 0 <= token < vocabulary:
                raise SettingsError(
                    f"{label}: token {token} of a phrase is outside the vocabulary of {vocabulary} tokens"
                )
            if token in (*symbols.ends, symbols.pad):
                raise SettingsError(f"{label}: a phrase contains the special token {token}: remove it")
        if len(self.continues_word) not in (0, vocabulary):
            raise SettingsError(
                f"{label}: continues_word has {len(self.continues_word)} entries, but the vocabulary has "
                f"{vocabulary} tokens"
            )


def word_continuations(phrases: Sequence[Phrases | None]) -> NDArray[np.bool_]:
    """Return the mask (vocabulary,) of tokens that continue a word; it must be the same for all phrases,
    and may be empty.
    """
    masks = [
        automaton.continues_word
        for automaton in phrases
        if automaton is not None and len(automaton.continues_word)
    ]
    if any(mask is not masks[0] and not np.array_equal(mask, masks[0]) for mask in masks):
        raise SettingsError("phrases: continues_word must be the same for all sentences of a search")
    return masks[0] if masks else np.zeros(0, dtype=np.bool_)


def _end_distances(children: list[dict[int, int]], ends: list[set[int]]) -> list[dict[int, int]]:
    """Return, for each node of a trie, the distance to the nearest end of each phrase below the node."""
    distances: list[dict[int, int]] = [{} for _ in children]
    for node in range(len(children) - 1, -1, -1):
        row = distances[node]
        for child in children[node].values():
            for phrase_index, distance in distances[child].items():
                row[phrase_index] = min(row.get(phrase_index, distance + 1), distance + 1)
            row |= dict.fromkeys(ends[child], 1)
    return distances


def _trie(phrases: Sequence[Phrase]) -> tuple[list[dict[int, int]], list[set[int]]]:
    """Return a trie with nodes sorted by depth: each node's children by token, and its ending phrases."""
    children: list[dict[int, int]] = [{}]
    ends: list[set[int]] = [set()]
    level = [(0, 0, index, tokens) for index, phrase in enumerate(phrases) for tokens in phrase.alternatives]
    while level:  # (node, tokens read, phrase, tokens)
        next_level = []
        for node, read_count, phrase_index, tokens in level:
            child = children[node].get(tokens[read_count])
            if child is None:
                child = children[node][tokens[read_count]] = len(children)
                children.append({})
                ends.append(set())
            if read_count + 1 == len(tokens):
                ends[child].add(phrase_index)
            else:
                next_level.append((child, read_count + 1, phrase_index, tokens))
        level = next_level
    return children, ends
