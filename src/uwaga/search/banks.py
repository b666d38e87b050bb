"""Dynamic beam allocation: a beam divided by how much of its phrases each hypothesis contains (M27).

Post and Vilar 2018, vectorised over sentences as in Hu 2019. The bank of a hypothesis is the number of phrase
tokens that it contains. The places of the beam are divided equally among the banks, with the remainder going
to the fuller ones; places that a bank leaves empty go to the best of the remaining candidates. If there are
more banks than places, adjacent banks share a place, and the fuller one takes precedence. A hypothesis may
end when it contains all phrases; if none does at the last step, those that contain the most end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from uwaga.decoder import Ids
from uwaga.search.options import SearchOptions
from uwaga.search.phrases import Phrases, word_parts
from uwaga.search.rank import Flags, Scores, columns

MAX_BANKS = 16
"""Largest beam size that a beam is widened to; further banks share places."""
WIDTH_MULTIPLE = 8
"""A widened beam size is a multiple of this, because sentences of equal beam size are decoded together."""


def beam_size(options: SearchOptions, phrases: Phrases | None) -> int:
    """Return the beam size for a sentence: at least one place for each bank, up to :data:`MAX_BANKS`.

    If that is more than ``options.beam``, it is rounded up to a multiple of :data:`WIDTH_MULTIPLE`. It does
    not depend on other sentences.
    """
    banks = 0 if phrases is None or phrases.bonus is not None else min(phrases.total + 1, MAX_BANKS)
    return options.beam if banks <= options.beam else -(-banks // WIDTH_MULTIPLE) * WIDTH_MULTIPLE


@dataclass(frozen=True)
class Reached:
    """Automaton states of continuations; axes (sentences, candidates), ``counts`` (..., phrases)."""

    nodes: Ids
    counts: Ids
    banks: Ids

    def at(self, chosen: Ids) -> Reached:
        """Return the states at the columns ``chosen`` (sentences, k)."""
        rows = np.arange(len(chosen))[:, None]
        return Reached(self.nodes[rows, chosen], self.counts[rows, chosen], self.banks[rows, chosen])


class Banks:
    """The phrase states of the running hypotheses of a batch.

    Args:
        phrases: the phrases of each sentence, None for none.
        beams: beam size.
        vocabulary: number of target tokens.
    """

    # The automata of all sentences are concatenated: _roots (sentences,) are their first nodes.
    # _states: of the running hypotheses, (sentences, beams); counts exclude phrases that end at the node.

    def __init__(self, phrases: Sequence[Phrases | None], beams: int, vocabulary: int) -> None:
        each = [phrase or Phrases(()) for phrase in phrases]
        self._beams, self._vocabulary = beams, vocabulary
        width = max(len(phrase.sizes) for phrase in each)

        def stacked(name: str) -> NDArray[np.int64]:
            parts = [np.asarray(getattr(phrase, name), dtype=np.int64) for phrase in each]
            return np.concatenate(
                [np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in parts]
            )  # (nodes or edges, phrases)

        def listed(name: str) -> NDArray[np.int64]:
            parts = [np.asarray(getattr(phrase, name), dtype=np.int64) for phrase in each]
            return np.stack([np.pad(part, (0, width - len(part))) for part in parts])  # (sentences, phrases)

        nodes, edges = [len(phrase.first) - 1 for phrase in each], [len(phrase.tokens) for phrase in each]
        self._roots: Ids = np.cumsum([0, *nodes[:-1]], dtype=np.int64)
        begun = np.cumsum([0, *edges[:-1]], dtype=np.int64)
        ahead = [phrase.first[:-1] + start for phrase, start in zip(each, begun, strict=True)]
        self._first: Ids = np.concatenate([*ahead, [sum(edges)]]).astype(np.int64)
        self._tokens: Ids = np.concatenate([phrase.tokens for phrase in each])
        self._targets: Ids = np.concatenate(
            [phrase.targets + root for phrase, root in zip(each, self._roots, strict=True)]
        )
        self._keys: Ids = np.repeat(np.arange(sum(nodes)), np.diff(self._first)) * vocabulary + self._tokens
        self._serves = stacked("serves") > 0
        self._ends, self._progress = stacked("ends"), stacked("progress")
        self._sizes, self._times = listed("sizes"), listed("times")
        self._whole = listed("whole") > 0
        self.totals: Ids = np.array([phrase.total for phrase in each], dtype=np.int64)
        self._forced: Flags = np.array([phrase.bonus is None for phrase in each])
        self._bonus: Scores = np.array([phrase.bonus or 0.0 for phrase in each])
        inside = word_parts(each)
        self._inside: Flags = inside if len(inside) else np.zeros(vocabulary, dtype=np.bool_)
        nothing = np.zeros((0, beams), dtype=np.int64)
        self._indices: Ids = np.zeros(0, dtype=np.int64)
        self._states = Reached(nothing, np.zeros((0, beams, width), dtype=np.int64), nothing)

    @property
    def last(self) -> Ids:
        """(all sentences,) places of the last bank, whose hypotheses contain all phrases and may end."""
        banks = np.where(self._forced, self.totals + 1, 1)
        return np.asarray(-(-self._beams // np.minimum(banks, self._beams)))

    def admit(self, indices: Ids) -> None:
        """Add sentences."""
        current, width = self._states, self._states.counts.shape[2]
        roots = np.repeat(self._roots[indices][:, None], self._beams, axis=1)
        self._indices = np.concatenate([self._indices, indices])
        self._states = Reached(
            np.concatenate([current.nodes, roots]),
            np.concatenate([current.counts, np.zeros((*roots.shape, width), dtype=np.int64)]),
            np.concatenate([current.banks, np.zeros_like(roots)]),
        )

    def extra_tokens(self, alive: Flags) -> Ids | None:
        """Return (rows, extra) the tokens that continue a phrase of each running hypothesis, -1 for none."""
        sentences, beams = alive.shape
        missing = self._counted(self._states.nodes, self._states.counts) < self._times[self._indices][:, None]
        rows, tokens = list[Ids](), list[Ids]()
        roots = np.repeat(self._roots[self._indices][:, None], beams, axis=1)
        at_root = self._states.nodes == roots
        for nodes, looked_at in ((self._states.nodes, alive), (roots, alive & ~at_root)):
            row = np.nonzero(looked_at.ravel())[0]
            node = nodes.ravel()[row]
            counts = self._first[node + 1] - self._first[node]
            row = np.repeat(row, counts)  # (edges of these rows,)
            within = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
            edge = np.repeat(self._first[node], counts) + within
            helps = (self._serves[edge] & missing.reshape(sentences * beams, -1)[row]).any(axis=1)
            rows.append(row[helps])
            tokens.append(self._tokens[edge[helps]])
        pairs = np.unique(np.concatenate(rows) * self._vocabulary + np.concatenate(tokens))
        if not len(pairs):
            return None
        row, token = np.divmod(pairs, self._vocabulary)
        starts = np.searchsorted(row, np.arange(sentences * beams))
        column = np.arange(len(row)) - starts[row]
        table: Ids = np.full((sentences * beams, int(column.max()) + 1), -1, dtype=np.int64)
        table[row, column] = token
        return table

    def reach(self, beams: Ids, tokens: Ids) -> Reached:
        """Return the states after a further token; ``beams`` and ``tokens`` are (sentences, n)."""
        before = self._states.at(beams)
        counted = self._counted(before.nodes, before.counts)  # (sentences, n, phrases)
        continues = self._inside[tokens][:, :, None] & self._whole[self._indices][:, None]
        counts = np.where(continues, before.counts, counted)
        nodes = self._next(before.nodes, tokens)
        return Reached(nodes, counts, self._bank(nodes, counts))

    def gains(self, beams: Ids, reached: Reached) -> Scores:
        """Return (sentences, n) the bonus added to ranks for phrase tokens gained or lost."""
        more = reached.banks - self._states.at(beams).banks
        return np.asarray(self._bonus[self._indices][:, None] * more)

    def potential(self, banks: Ids) -> Scores:
        """Return (sentences, n) the bonus that hypotheses of these banks can still gain."""
        left = self.totals[self._indices][:, None] - banks
        return np.asarray(self._bonus[self._indices][:, None] * left)

    def may_end(self, banks: Ids, alive: Flags, last: Flags) -> Flags:
        """Return (sentences, n) True for hypotheses that may end.

        Args:
            banks: (sentences, n).
            alive: (sentences, n) True where there is a hypothesis.
            last: (sentences,) True at the last step of a sentence without finished hypotheses.
        """
        forced = self._forced[self._indices][:, None]
        needed = np.where(forced, self.totals[self._indices][:, None], 0)
        most = np.where(alive, banks, 0).max(axis=1, keepdims=True)
        return np.asarray(banks >= np.where(last[:, None], np.minimum(needed, most), needed))

    def share(self, banks: Ids, eligible: Flags) -> Flags:
        """Return (sentences, n) True for the candidates that get a place in the beam.

        Args:
            banks: (sentences, n) of candidates, best first.
            eligible: (sentences, n) True for candidates that may get one.
        """
        sentences, n = banks.shape
        places, banked = self._beams, self._forced[self._indices][:, None]
        count = np.where(banked, self.totals[self._indices][:, None] + 1, 1)  # (sentences, 1) banks
        groups = np.minimum(count, places)
        bank = np.where(banked, banks, 0)
        group = np.where(count > places, bank * places // count, bank)
        quota = places // groups + (group >= groups - places % groups)  # (sentences, n)
        key = np.where(eligible, group * (count + 1) + (count - bank), (places + 1) * (count + 1))
        order = np.argsort(key, axis=1, kind="stable")
        sorted_group = columns(np.where(eligible, group, places), order)
        fresh = np.ones((sentences, n), dtype=np.bool_)
        fresh[:, 1:] = sorted_group[:, 1:] != sorted_group[:, :-1]
        begun = np.maximum.accumulate(np.where(fresh, np.arange(n), 0), axis=1)
        position: Ids = np.empty((sentences, n), dtype=np.int64)
        np.put_along_axis(position, order, np.arange(n) - begun, axis=1)
        first = eligible & (position < quota)
        chosen = np.argsort(np.where(first, 0, np.where(eligible, 1, 2)), axis=1, kind="stable")[:, :places]
        taken: Flags = np.zeros((sentences, n), dtype=np.bool_)
        np.put_along_axis(taken, chosen, True, axis=1)
        return np.asarray(taken & eligible)

    def follow(self, reached: Reached, stay: Ids) -> None:
        """Keep the states (sentences, beams) of the sentences ``stay`` (staying,)."""
        self._indices = self._indices[stay]
        self._states = Reached(reached.nodes[stay], reached.counts[stay], reached.banks[stay])

    def _counted(self, nodes: Ids, counts: Ids) -> Ids:
        """Return (sentences, n, phrases) how often each phrase is contained, including those that end
        here.
        """
        return np.asarray(np.minimum(counts + self._ends[nodes], self._times[self._indices][:, None]))

    def _bank(self, nodes: Ids, counts: Ids) -> Ids:
        counted = self._counted(nodes, counts)
        held = (counted * self._sizes[self._indices][:, None]).sum(axis=2)
        open_ = np.where(counted < self._times[self._indices][:, None], self._progress[nodes], 0)
        return np.asarray(held + open_.max(axis=2, initial=0))

    def _next(self, nodes: Ids, tokens: Ids) -> Ids:
        """Return the next nodes: by an edge of the node, else of the root, else the root."""
        roots = np.broadcast_to(self._roots[self._indices][:, None], nodes.shape)
        result = roots
        for origin in (roots, nodes):
            keys = origin * self._vocabulary + tokens
            edge = np.minimum(np.searchsorted(self._keys, keys), max(len(self._keys) - 1, 0))
            hit = self._keys[edge] == keys if len(self._keys) else np.zeros(keys.shape, dtype=np.bool_)
            result = np.where(hit, self._targets[edge] if len(self._keys) else 0, result)
        return np.asarray(result)
