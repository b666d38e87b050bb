"""Dynamic beam allocation: the beam is divided into banks by the phrase tokens of the hypotheses (M27).

This is the method of Post and Vilar 2018, vectorised over sentences as in Hu 2019. The bank of a hypothesis
is the number of phrase tokens that it contains. The slots of the beam are divided equally among the banks,
with the remainder going to the higher banks; slots that a bank leaves empty go to the best of the remaining
candidates. If there are more banks than slots, adjacent banks share a slot, and the higher bank takes
precedence. A hypothesis may end when it contains all phrases; if no hypothesis does so at the last step, the
hypotheses that contain the most end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from uwaga.decoder import Ids
from uwaga.search.options import SearchOptions
from uwaga.search.phrases import Phrases, word_continuations
from uwaga.search.rank import Flags, Scores, gather

MAX_BANKS = 16
"""Maximum size of a widened beam; if there are more banks, they share slots."""
WIDTH_MULTIPLE = 8
"""Beams are widened to a multiple of this size, because sentences of equal beam size are decoded together."""


def beam_size(options: SearchOptions, phrases: Phrases | None) -> int:
    """Return the beam size for a sentence: at least one slot per bank, up to :data:`MAX_BANKS`.

    A size above ``options.beam`` is rounded up to a multiple of :data:`WIDTH_MULTIPLE`. The size does not
    depend on other sentences.
    """
    banks = 0 if phrases is None or phrases.bonus is not None else min(phrases.total + 1, MAX_BANKS)
    return options.beam if banks <= options.beam else -(-banks // WIDTH_MULTIPLE) * WIDTH_MULTIPLE


@dataclass(frozen=True)
class PhraseStates:
    """The states of hypotheses in the automata of their phrases; axes (sentences, candidates).

    Attributes:
        nodes: automaton nodes.
        counts: (sentences, candidates, phrases) number of completed occurrences of each phrase.
        banks: number of phrase tokens that each hypothesis contains.
    """

    nodes: Ids
    counts: Ids
    banks: Ids

    def select(self, indices: Ids) -> PhraseStates:
        """Return the states at the columns ``indices`` (sentences, k)."""
        rows = np.arange(len(indices))[:, None]
        return PhraseStates(self.nodes[rows, indices], self.counts[rows, indices], self.banks[rows, indices])


class Banks:
    """The phrase states of the running hypotheses of a batch.

    Args:
        phrases: the phrases of each sentence, or None for a sentence without phrases.
        beams: beam size.
        vocabulary: number of target tokens.
    """

    # The automata of all sentences are concatenated: _roots (sentences,) are their first nodes.
    # _states (sentences, beams): the phrase states of the running hypotheses; counts exclude phrases that end
    # at the node.

    def __init__(self, phrases: Sequence[Phrases | None], beams: int, vocabulary: int) -> None:
        automata = [automaton or Phrases(()) for automaton in phrases]
        self._beams, self._vocabulary = beams, vocabulary
        width = max(len(automaton.sizes) for automaton in automata)

        def concatenate(name: str) -> NDArray[np.int64]:
            parts = [np.asarray(getattr(automaton, name), dtype=np.int64) for automaton in automata]
            return np.concatenate(
                [np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in parts]
            )  # (nodes or edges, phrases)

        def stack(name: str) -> NDArray[np.int64]:
            parts = [np.asarray(getattr(automaton, name), dtype=np.int64) for automaton in automata]
            return np.stack([np.pad(part, (0, width - len(part))) for part in parts])  # (sentences, phrases)

        nodes = [len(automaton.first) - 1 for automaton in automata]
        edges = [len(automaton.tokens) for automaton in automata]
        self._roots: Ids = np.cumsum([0, *nodes[:-1]], dtype=np.int64)
        offsets = np.cumsum([0, *edges[:-1]], dtype=np.int64)
        first_edges = [
            automaton.first[:-1] + offset for automaton, offset in zip(automata, offsets, strict=True)
        ]
        self._first: Ids = np.concatenate([*first_edges, [sum(edges)]]).astype(np.int64)
        self._tokens: Ids = np.concatenate([automaton.tokens for automaton in automata])
        self._targets: Ids = np.concatenate(
            [automaton.targets + root for automaton, root in zip(automata, self._roots, strict=True)]
        )
        self._keys: Ids = np.repeat(np.arange(sum(nodes)), np.diff(self._first)) * vocabulary + self._tokens
        self._reaches_end = concatenate("reaches_end") > 0
        self._ends, self._progress = concatenate("ends"), concatenate("progress")
        self._sizes, self._times = stack("sizes"), stack("times")
        self._whole_word = stack("whole_word") > 0
        self.totals: Ids = np.array([automaton.total for automaton in automata], dtype=np.int64)
        self._is_forced: Flags = np.array([automaton.bonus is None for automaton in automata])
        self._bonus: Scores = np.array([automaton.bonus or 0.0 for automaton in automata])
        continues_word = word_continuations(automata)
        self._continues_word: Flags = (
            continues_word if len(continues_word) else np.zeros(vocabulary, dtype=np.bool_)
        )
        empty_states = np.zeros((0, beams), dtype=np.int64)
        self._indices: Ids = np.zeros(0, dtype=np.int64)
        self._states = PhraseStates(empty_states, np.zeros((0, beams, width), dtype=np.int64), empty_states)

    @property
    def last_bank_size(self) -> Ids:
        """Number of slots (all sentences,) of the last bank, whose hypotheses contain all phrases."""
        banks = np.where(self._is_forced, self.totals + 1, 1)
        return np.asarray(-(-self._beams // np.minimum(banks, self._beams)))

    def admit(self, indices: Ids) -> None:
        """Add the sentences at ``indices`` (sentences,), whose hypotheses are in the initial state."""
        current_states, width = self._states, self._states.counts.shape[2]
        roots = np.repeat(self._roots[indices][:, None], self._beams, axis=1)
        self._indices = np.concatenate([self._indices, indices])
        self._states = PhraseStates(
            np.concatenate([current_states.nodes, roots]),
            np.concatenate([current_states.counts, np.zeros((*roots.shape, width), dtype=np.int64)]),
            np.concatenate([current_states.banks, np.zeros_like(roots)]),
        )

    def extra_tokens(self, is_alive: Flags) -> Ids | None:
        """Return the tokens that continue a phrase of each running hypothesis.

        Args:
            is_alive: (sentences, beams) True where there is a hypothesis.

        Returns:
            (rows, extra) tokens, padded with -1; None if no hypothesis can continue a phrase.
        """
        sentences, beams = is_alive.shape
        is_missing = (
            self._occurrences(self._states.nodes, self._states.counts) < self._times[self._indices][:, None]
        )
        rows, tokens = list[Ids](), list[Ids]()
        roots = np.repeat(self._roots[self._indices][:, None], beams, axis=1)
        is_at_root = self._states.nodes == roots
        for nodes, mask in ((self._states.nodes, is_alive), (roots, is_alive & ~is_at_root)):
            row = np.nonzero(mask.ravel())[0]
            node = nodes.ravel()[row]
            counts = self._first[node + 1] - self._first[node]
            row = np.repeat(row, counts)  # (edges of these rows,)
            offset = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
            edge = np.repeat(self._first[node], counts) + offset
            has_missing_phrase = (
                self._reaches_end[edge] & is_missing.reshape(sentences * beams, -1)[row]
            ).any(axis=1)
            rows.append(row[has_missing_phrase])
            tokens.append(self._tokens[edge[has_missing_phrase]])
        pairs = np.unique(np.concatenate(rows) * self._vocabulary + np.concatenate(tokens))
        if not len(pairs):
            return None
        row, token = np.divmod(pairs, self._vocabulary)
        starts = np.searchsorted(row, np.arange(sentences * beams))
        column = np.arange(len(row)) - starts[row]
        table: Ids = np.full((sentences * beams, int(column.max()) + 1), -1, dtype=np.int64)
        table[row, column] = token
        return table

    def advance(self, beams: Ids, tokens: Ids) -> PhraseStates:
        """Return the states of the hypotheses ``beams`` extended by ``tokens``; both are (sentences, n)."""
        previous_states = self._states.select(beams)
        occurrences = self._occurrences(
            previous_states.nodes, previous_states.counts
        )  # (sentences, n, phrases)
        continues = self._continues_word[tokens][:, :, None] & self._whole_word[self._indices][:, None]
        counts = np.where(continues, previous_states.counts, occurrences)
        nodes = self._next(previous_states.nodes, tokens)
        return PhraseStates(nodes, counts, self._bank(nodes, counts))

    def gains(self, beams: Ids, states: PhraseStates) -> Scores:
        """Return the bonus (sentences, n) added to ranks for phrase tokens gained or lost."""
        banks_gained = states.banks - self._states.select(beams).banks
        return np.asarray(self._bonus[self._indices][:, None] * banks_gained)

    def potential(self, banks: Ids) -> Scores:
        """Return the bonus (sentences, n) that hypotheses of these banks can still gain."""
        missing_counts = self.totals[self._indices][:, None] - banks
        return np.asarray(self._bonus[self._indices][:, None] * missing_counts)

    def may_end(self, banks: Ids, is_alive: Flags, is_last: Flags) -> Flags:
        """Return a mask (sentences, n) of the hypotheses that may end.

        Args:
            banks: (sentences, n) bank of each hypothesis.
            is_alive: (sentences, n) True where there is a hypothesis.
            is_last: (sentences,) True at the last step of a sentence without finished hypotheses.
        """
        is_forced = self._is_forced[self._indices][:, None]
        needed_totals = np.where(is_forced, self.totals[self._indices][:, None], 0)
        max_bank = np.where(is_alive, banks, 0).max(axis=1, keepdims=True)
        return np.asarray(
            banks >= np.where(is_last[:, None], np.minimum(needed_totals, max_bank), needed_totals)
        )

    def allocate(self, banks: Ids, is_eligible: Flags) -> Flags:
        """Return a mask (sentences, n) of the candidates that receive a slot in the beam.

        Args:
            banks: (sentences, n) bank of each candidate, the best candidate first.
            is_eligible: (sentences, n) True for candidates that may receive a slot.
        """
        sentences, n = banks.shape
        slots, is_forced = self._beams, self._is_forced[self._indices][:, None]
        count = np.where(is_forced, self.totals[self._indices][:, None] + 1, 1)  # (sentences, 1) banks
        groups = np.minimum(count, slots)
        bank = np.where(is_forced, banks, 0)
        group = np.where(count > slots, bank * slots // count, bank)
        quota = slots // groups + (group >= groups - slots % groups)  # (sentences, n)
        key = np.where(is_eligible, group * (count + 1) + (count - bank), (slots + 1) * (count + 1))
        order = np.argsort(key, axis=1, kind="stable")
        sorted_group = gather(np.where(is_eligible, group, slots), order)
        starts = np.ones((sentences, n), dtype=np.bool_)
        starts[:, 1:] = sorted_group[:, 1:] != sorted_group[:, :-1]
        group_starts = np.maximum.accumulate(np.where(starts, np.arange(n), 0), axis=1)
        position: Ids = np.empty((sentences, n), dtype=np.int64)
        np.put_along_axis(position, order, np.arange(n) - group_starts, axis=1)
        within_quota = is_eligible & (position < quota)
        best_order = np.argsort(
            np.where(within_quota, 0, np.where(is_eligible, 1, 2)), axis=1, kind="stable"
        )[:, :slots]
        is_selected: Flags = np.zeros((sentences, n), dtype=np.bool_)
        np.put_along_axis(is_selected, best_order, True, axis=1)
        return np.asarray(is_selected & is_eligible)

    def update(self, states: PhraseStates, remaining: Ids) -> None:
        """Replace the states (sentences, beams), and keep only the sentences ``remaining`` (remaining,)."""
        self._indices = self._indices[remaining]
        self._states = PhraseStates(
            states.nodes[remaining], states.counts[remaining], states.banks[remaining]
        )

    def _occurrences(self, nodes: Ids, counts: Ids) -> Ids:
        """Return the number of occurrences (sentences, n, phrases), including those that end at the node."""
        return np.asarray(np.minimum(counts + self._ends[nodes], self._times[self._indices][:, None]))

    def _bank(self, nodes: Ids, counts: Ids) -> Ids:
        occurrences = self._occurrences(nodes, counts)
        complete = (occurrences * self._sizes[self._indices][:, None]).sum(axis=2)
        partial_counts = np.where(occurrences < self._times[self._indices][:, None], self._progress[nodes], 0)
        return np.asarray(complete + partial_counts.max(axis=2, initial=0))

    def _next(self, nodes: Ids, tokens: Ids) -> Ids:
        """Return the node after each node and token: by an edge of the node or else of the root; without
        either edge, the root.
        """
        roots = np.broadcast_to(self._roots[self._indices][:, None], nodes.shape)
        result = roots
        for origin in (roots, nodes):
            keys = origin * self._vocabulary + tokens
            edge = np.minimum(np.searchsorted(self._keys, keys), max(len(self._keys) - 1, 0))
            has_edge = self._keys[edge] == keys if len(self._keys) else np.zeros(keys.shape, dtype=np.bool_)
            result = np.where(has_edge, self._targets[edge] if len(self._keys) else 0, result)
        return np.asarray(result)
