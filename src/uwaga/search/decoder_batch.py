"""A batch of sentences decoded by the decoder's own beam search (M22, M24).

Results are bit-identical to those of :class:`uwaga.search.beam_batch.BeamBatch`; the test
``tests/search/test_search_by_decoder.py`` checks this over random models and options.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from uwaga.decoder import MAX_TOKENS, BeamRules, BeamSearch, Decoder, Draft, Ids, Symbols
from uwaga.results.translation import Hypothesis
from uwaga.search.constraints import banned_tokens, forced_tokens, start_token, uncounted_tokens
from uwaga.search.length_batching import next_entry
from uwaga.search.options import SearchOptions
from uwaga.search.rank import Ranking, StepOutcome, hypothesis

if TYPE_CHECKING:
    from uwaga.search.phrases import Phrases

MAX_STEPS = 1 << 16
"""Maximum steps; the divisors of all lengths are computed in advance."""
MIN_DIVISORS = 1 << 9
"""Minimum number of divisors computed in advance."""


def searched_by_decoder(decoder: Decoder, options: SearchOptions, limits: Sequence[int]) -> bool:
    """Return True if the decoder's own beam search supports these options."""
    needs_steps = options.sample or options.no_repeat_ngram or options.attention is True
    return decoder.beam_search is not None and not needs_steps and max(limits, default=0) <= MAX_STEPS


class DecoderBatch:
    """A batch with the interface and arguments of :class:`uwaga.search.beam_batch.BeamBatch`.

    Args:
        streams: report each token as it is decided.
        drafts: the draft of each sentence, None for none; empty if no sentence has one.
    """

    def __init__(
        self,
        decoder: Decoder,
        options: SearchOptions,
        sources: Sequence[Sequence[int]],
        prefixes: Sequence[Sequence[int]],
        limits: Sequence[int],
        pool_size: int,
        phrases: Sequence[Phrases | None] | None = None,
        streams: bool = False,
        drafts: Sequence[Draft | None] = (),
    ) -> None:
        self._streams, self._drafts = streams, drafts
        self._decoder, self._options, self._sources = decoder, options, sources
        self._lengths: Ids = np.array([len(source) for source in sources], dtype=np.int64)
        self._limits: Ids = np.array(limits, dtype=np.int64)
        self._forced = forced_tokens(options, prefixes)
        self._uncounted = uncounted_tokens(options, prefixes)
        self._phrases = phrases
        self._entered = 0
        longest = int(self._limits.max())
        continues_word = None
        if phrases is not None:
            from uwaga.search.phrases import word_continuations

            continues_word = word_continuations(phrases)
        self._search = _start_search(decoder, options, pool_size, longest, continues_word, streams)

    @property
    def running(self) -> Ids:
        """(sentences,) source tokens of the sentences being decoded."""
        return np.asarray(self._lengths[self._search.running])

    @property
    def waiting(self) -> Ids:
        """(sentences,) source tokens of the sentences that have not entered, in order."""
        return self._lengths[self._entered :]

    def admit(self, count: int) -> None:
        """Add the next ``count`` sentences."""
        entering = slice(self._entered, self._entered + count)
        memory = self._decoder.encode(self._sources[entering])
        constraints = self._limits[entering], self._uncounted[entering], self._forced[entering]
        phrases = () if self._phrases is None else self._phrases[entering]
        tables = [None if phrase is None else phrase.tables for phrase in phrases]
        self._search.enter(memory, *constraints, tables, self._drafts[entering])
        self._entered += count

    def step(self) -> StepOutcome | None:
        """Run steps until other sentences may enter or all are finished; a single step when streaming."""
        if self._streams:
            return self._streaming_step()
        self._search.run(next_entry(self.waiting, self._options.rows, self._options.batch_tokens))
        return None

    def _streaming_step(self) -> StepOutcome:
        before = self._search.running
        self._search.run(MAX_TOKENS)
        decided = self._search.decided()
        extended: Ids = np.array([sentence for sentence, _, _ in decided], dtype=np.int64)
        tokens: Ids = np.array([token for _, token, _ in decided], dtype=np.int64)
        log_probs = np.array([log_prob for _, _, log_prob in decided], dtype=np.float64)
        return StepOutcome(extended, tokens, log_probs, np.setdiff1d(before, self._search.running))

    def hypotheses(self, indices: Ids) -> list[list[Hypothesis]]:
        """Return the n-best list of each sentence."""
        ends, finished = self._decoder.symbols.end_symbols, self._search.finished()
        return [
            [
                hypothesis(
                    target.tokens, target.log_probs, None, target.score, target.truncated, ends, target.draft
                )
                for target in finished[index]
            ]
            for index in indices.tolist()
        ]


def _start_search(
    decoder: Decoder,
    options: SearchOptions,
    pool_size: int,
    longest: int,
    continues_word: NDArray[np.bool_] | None,
    streams: bool,
) -> BeamSearch:
    assert decoder.beam_search is not None
    # Rounded up, so that searches share their rules.
    longest = max(1 << (longest - 1).bit_length(), MIN_DIVISORS)
    rules = _rules(decoder.symbols, options, pool_size, longest, streams)
    return decoder.beam_search(
        rules if continues_word is None else replace(rules, continues_word=continues_word)
    )


@lru_cache(maxsize=64)
def _rules(
    symbols: Symbols, options: SearchOptions, pool_size: int, longest: int, streams: bool
) -> BeamRules:
    """Return the rules shared by all searches with the same options; their arrays are never modified."""
    ranking = Ranking(options.length_formula, options.length_penalty)
    return BeamRules(
        beams=options.beam,
        pool_size=pool_size,
        nbest=options.nbest,
        start=start_token(options, symbols),
        banned=banned_tokens(options, symbols),
        min_length=options.min_length,
        early_stopping=options.early_stopping,
        force_end=options.force_end,
        score_forced=options.score_forced is True,
        renormalise=options.renormalise,
        divisors=ranking.divisor(np.arange(longest + 2)),
        streams=streams,
    )
