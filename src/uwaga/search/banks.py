"""Dynamic beam allocation: the beam's places shared out by how much of its phrases a hypothesis holds (M27).

Post and Vilar 2018, vectorised over sentences as in Hu 2019. A hypothesis's bank is the number of phrase
tokens that it holds. Each bank has as many places of the beam as the others, the fuller ones one more where
they cannot be shared out evenly; what a bank leaves empty goes to the best of the rest. Where there are more
banks than places, banks that follow each other share one, and of them the fuller is preferred. A hypothesis
may end when it holds all; where none does when the last step has come, those that hold the most end.
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

MOST_BANKS = 16
"""Places that a sentence's beam is widened to where it has so many banks; more share them."""
WIDENED_BY = 8
"""A widened beam has a multiple of so many places: sentences of one width are decoded together."""


def places_for(options: SearchOptions, phrases: Phrases | None) -> int:
    """Hypotheses that a sentence is searched with: one at least for each bank, up to :data:`MOST_BANKS`.

    Where that is more than the beam asked for, it is a multiple of :data:`WIDENED_BY`. It is the sentence's
    own, whatever stands beside it.
    """
    banks = 0 if phrases is None or phrases.bonus is not None else min(phrases.total + 1, MOST_BANKS)
    return options.beam if banks <= options.beam else -(-banks // WIDENED_BY) * WIDENED_BY


@dataclass(frozen=True)
class Reached:
    """Where continuations are in their automata; axes (sentences, candidates), ``counts`` (..., phrases)."""

    nodes: Ids
    counts: Ids
    banks: Ids

    def at(self, chosen: Ids) -> Reached:
        """Those at the columns ``chosen`` (sentences, k)."""
        rows = np.arange(len(chosen))[:, None]
        return Reached(self.nodes[rows, chosen], self.counts[rows, chosen], self.banks[rows, chosen])


class Banks:
    """How much of its phrases each running hypothesis of a batch holds.

    Args:
        phrases: of each sentence, None for none.
        beams: places of a sentence.
        vocabulary: number of target tokens.
    """

    # The automata of all sentences stand behind each other: _roots (sentences,) are their first nodes.
    # _here: of the running hypotheses, (sentences, beams); its counts are without what ends at the node.

    def __init__(self, phrases: Sequence[Phrases | None], beams: int, vocabulary: int) -> None:
        each = [one or Phrases(()) for one in phrases]
        self._beams, self._vocabulary = beams, vocabulary
        width = max(len(one.sizes) for one in each)

        def stacked(name: str) -> NDArray[np.int64]:
            parts = [np.asarray(getattr(one, name), dtype=np.int64) for one in each]
            return np.concatenate(
                [np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in parts]
            )  # (nodes or edges, phrases)

        def listed(name: str) -> NDArray[np.int64]:
            parts = [np.asarray(getattr(one, name), dtype=np.int64) for one in each]
            return np.stack([np.pad(part, (0, width - len(part))) for part in parts])  # (sentences, phrases)

        nodes, edges = [len(one.first) - 1 for one in each], [len(one.tokens) for one in each]
        self._roots: Ids = np.cumsum([0, *nodes[:-1]], dtype=np.int64)
        begun = np.cumsum([0, *edges[:-1]], dtype=np.int64)
        ahead = [one.first[:-1] + start for one, start in zip(each, begun, strict=True)]
        self._first: Ids = np.concatenate([*ahead, [sum(edges)]]).astype(np.int64)
        self._tokens: Ids = np.concatenate([one.tokens for one in each])
        self._targets: Ids = np.concatenate(
            [one.targets + root for one, root in zip(each, self._roots, strict=True)]
        )
        self._keys: Ids = np.repeat(np.arange(sum(nodes)), np.diff(self._first)) * vocabulary + self._tokens
        self._serves = stacked("serves") > 0
        self._ends, self._progress = stacked("ends"), stacked("progress")
        self._sizes, self._times = listed("sizes"), listed("times")
        self._whole = listed("whole") > 0
        self.totals: Ids = np.array([one.total for one in each], dtype=np.int64)
        self._forced: Flags = np.array([one.bonus is None for one in each])
        self._bonus: Scores = np.array([one.bonus or 0.0 for one in each])
        known = word_parts(each)
        self._inside: Flags = known if len(known) else np.zeros(vocabulary, dtype=np.bool_)
        nothing = np.zeros((0, beams), dtype=np.int64)
        self._indices: Ids = np.zeros(0, dtype=np.int64)
        self._here = Reached(nothing, np.zeros((0, beams, width), dtype=np.int64), nothing)

    @property
    def last(self) -> Ids:
        """(all sentences,) places of the bank that holds everything, from which hypotheses end."""
        banks = np.where(self._forced, self.totals + 1, 1)
        return np.asarray(-(-self._beams // np.minimum(banks, self._beams)))

    def admit(self, indices: Ids) -> None:
        """Let sentences in."""
        here, width = self._here, self._here.counts.shape[2]
        roots = np.repeat(self._roots[indices][:, None], self._beams, axis=1)
        self._indices = np.concatenate([self._indices, indices])
        self._here = Reached(
            np.concatenate([here.nodes, roots]),
            np.concatenate([here.counts, np.zeros((*roots.shape, width), dtype=np.int64)]),
            np.concatenate([here.banks, np.zeros_like(roots)]),
        )

    def wanted(self, alive: Flags) -> Ids | None:
        """(rows, wanted) the tokens that go on with a phrase of each running hypothesis, -1 for none."""
        sentences, beams = alive.shape
        missing = self._counted(self._here.nodes, self._here.counts) < self._times[self._indices][:, None]
        rows, tokens = list[Ids](), list[Ids]()
        roots = np.repeat(self._roots[self._indices][:, None], beams, axis=1)
        at_root = self._here.nodes == roots
        for nodes, looked_at in ((self._here.nodes, alive), (roots, alive & ~at_root)):
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
        """Where running hypotheses come to with a further token; ``beams`` and ``tokens`` (sentences, n)."""
        before = self._here.at(beams)
        counted = self._counted(before.nodes, before.counts)  # (sentences, n, phrases)
        goes_on = self._inside[tokens][:, :, None] & self._whole[self._indices][:, None]
        counts = np.where(goes_on, before.counts, counted)
        nodes = self._next(before.nodes, tokens)
        return Reached(nodes, counts, self._bank(nodes, counts))

    def gains(self, beams: Ids, reached: Reached) -> Scores:
        """(sentences, n) what tokens that hold more or less of their phrases add to a rank: a bonus."""
        more = reached.banks - self._here.at(beams).banks
        return np.asarray(self._bonus[self._indices][:, None] * more)

    def potential(self, banks: Ids) -> Scores:
        """(sentences, n) the bonus that hypotheses of these banks can still get."""
        left = self.totals[self._indices][:, None] - banks
        return np.asarray(self._bonus[self._indices][:, None] * left)

    def may_end(self, banks: Ids, alive: Flags, last: Flags) -> Flags:
        """(sentences, n) whether hypotheses of these banks may be finished.

        Args:
            banks: (sentences, n).
            alive: (sentences, n) whether there is one.
            last: (sentences,) whether nothing comes after this step and nothing has finished.
        """
        forced = self._forced[self._indices][:, None]
        needed = np.where(forced, self.totals[self._indices][:, None], 0)
        most = np.where(alive, banks, 0).max(axis=1, keepdims=True)
        return np.asarray(banks >= np.where(last[:, None], np.minimum(needed, most), needed))

    def share(self, banks: Ids, eligible: Flags) -> Flags:
        """Which candidates get a place of the beam.

        Args:
            banks: (sentences, n) of candidates, the best ranked first.
            eligible: (sentences, n) those that may have one.
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
        """Go on with what runs on, (sentences, beams), of the sentences ``stay`` (staying,)."""
        self._indices = self._indices[stay]
        self._here = Reached(reached.nodes[stay], reached.counts[stay], reached.banks[stay])

    def _counted(self, nodes: Ids, counts: Ids) -> Ids:
        """(sentences, n, phrases) how often each phrase is held, with what ends here."""
        return np.asarray(np.minimum(counts + self._ends[nodes], self._times[self._indices][:, None]))

    def _bank(self, nodes: Ids, counts: Ids) -> Ids:
        counted = self._counted(nodes, counts)
        held = (counted * self._sizes[self._indices][:, None]).sum(axis=2)
        open_ = np.where(counted < self._times[self._indices][:, None], self._progress[nodes], 0)
        return np.asarray(held + open_.max(axis=2, initial=0))

    def _next(self, nodes: Ids, tokens: Ids) -> Ids:
        """The nodes that tokens lead to: by an edge of the node, else of the root, else the root."""
        roots = np.broadcast_to(self._roots[self._indices][:, None], nodes.shape)
        found = roots
        for origin in (roots, nodes):
            keys = origin * self._vocabulary + tokens
            edge = np.minimum(np.searchsorted(self._keys, keys), max(len(self._keys) - 1, 0))
            hit = self._keys[edge] == keys if len(self._keys) else np.zeros(keys.shape, dtype=np.bool_)
            found = np.where(hit, self._targets[edge] if len(self._keys) else 0, found)
        return np.asarray(found)
