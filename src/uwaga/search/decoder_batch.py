"""A batch of sentences decoded by the beam search of the decoder (M22, M24).

Results are bit-identical to those of :class:`uwaga.search.beam_batch.BeamBatch`; the test
``tests/search/test_search_by_decoder.py`` checks this over random models and options.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from uwaga.decoder import (
    MAX_TOKENS,
    BeamRules,
    BeamSearch,
    Decoder,
    FinishedTarget,
    Ids,
    Memory,
    NewSentence,
    Symbols,
)
from uwaga.search.batch import Batch
from uwaga.search.constraints import banned_tokens, start_token
from uwaga.search.inputs import SearchSentence
from uwaga.search.length_batching import admission_threshold
from uwaga.search.options import SearchOptions
from uwaga.search.rank import Ranking, StepOutcome

MIN_DIVISORS = 1 << 9
"""Minimum number of lengths whose divisors are computed in advance."""


class DecoderBatch(Batch):
    """A batch decoded by a beam search that the decoder implements.

    Args:
        decoder: the model.
        options: how to search.
        sentences: the sentences, in the order in which they enter.
        pool_size: see :class:`uwaga.search.beam_batch.BeamBatch`.
        streams: whether to report each token as it is decided.
    """

    def __init__(
        self,
        decoder: Decoder,
        options: SearchOptions,
        sentences: Sequence[SearchSentence],
        pool_size: int,
        streams: bool = False,
    ) -> None:
        super().__init__(decoder, options, sentences)
        self._streams = streams
        longest = max(sentence.limit for sentence in sentences)
        continues_word = None
        if any(sentence.phrases is not None for sentence in sentences):
            from uwaga.search.phrases import word_continuations

            continues_word = word_continuations([sentence.phrases for sentence in sentences])
        self._search = _start_search(decoder, options, pool_size, longest, continues_word, streams)

    @property
    def _running(self) -> Ids:
        return self._search.running

    def _enter(self, sentences: Sequence[SearchSentence], memory: Memory) -> None:
        new_sentences = [
            NewSentence(
                sentence.ids,
                sentence.limit,
                sentence.uncounted,
                sentence.forced,
                None if sentence.phrases is None else sentence.phrases.tables,
                sentence.draft,
                sentence.datastore,
            )
            for sentence in sentences
        ]
        self._search.enter(memory, new_sentences)

    def step(self) -> StepOutcome | None:
        """Run steps until waiting sentences may enter or all are finished; a single step when streaming."""
        if self._streams:
            return self._streaming_step()
        self._search.run(
            admission_threshold(self.waiting_lengths, self._options.rows, self._options.batch_tokens)
        )
        return None

    def _streaming_step(self) -> StepOutcome:
        running_before = self._search.running
        self._search.run(MAX_TOKENS)
        decided_tokens = self._search.decided()
        extended: Ids = np.array([sentence for sentence, _, _ in decided_tokens], dtype=np.int64)
        tokens: Ids = np.array([token for _, token, _ in decided_tokens], dtype=np.int64)
        log_probs = np.array([log_prob for _, _, log_prob in decided_tokens], dtype=np.float64)
        return StepOutcome(extended, tokens, log_probs, np.setdiff1d(running_before, self._search.running))

    def finished(self, indices: Ids) -> list[list[FinishedTarget]]:
        """See :meth:`uwaga.search.batch.Batch.finished`."""
        finished_targets = self._search.finished()
        return [finished_targets[index] for index in indices.tolist()]


def _start_search(
    decoder: Decoder,
    options: SearchOptions,
    pool_size: int,
    longest: int,
    continues_word: NDArray[np.bool_] | None,
    streams: bool,
) -> BeamSearch:
    assert decoder.beam_search is not None
    # Rounded up, so that searches with similar limits share their rules.
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
    ranking = Ranking.from_options(options)
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
