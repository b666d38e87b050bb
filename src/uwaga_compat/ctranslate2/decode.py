"""Decoding of a batch as in CTranslate2: by ordinary search, with alternatives, or token by token."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace

from uwaga.decoder import Decoder, target_limit
from uwaga.results.translation import Hypothesis
from uwaga.search import SearchInput, SearchOptions, search, stream
from uwaga.search.search import StreamEvent

Ids = Sequence[int]


@dataclass(frozen=True)
class Alternatives:
    """Options for alternatives, which differ from each other at the first position after the prefix.

    Attributes:
        count: maximum number of alternatives.
        probability: minimum probability of the first token of an alternative.
    """

    count: int
    probability: float


@dataclass(frozen=True)
class DecodedToken:
    """A decoded token.

    Attributes:
        input: index of the input.
        hypothesis: index of the hypothesis among those of the input.
        position: position of the token in the hypothesis, from 0.
        token: id of the token.
        log_prob: log-probability of the token, 0 if it is forced.
        last: True for the last token of the hypothesis.
    """

    input: int
    hypothesis: int
    position: int
    token: int
    log_prob: float
    last: bool


Steps = Generator[DecodedToken, bool | None, list[list[Hypothesis]]]


def decode(
    decoder: Decoder,
    sources: Sequence[Ids],
    prefixes: Sequence[Ids],
    options: SearchOptions,
    alternatives: Alternatives | None = None,
    on_token: Callable[[DecodedToken], bool | None] | None = None,
) -> list[list[Hypothesis]]:
    """Return the hypotheses of each input, best first.

    Alternatives are in descending order of the probability of their first token after the prefix.

    Args:
        decoder: the decoder.
        sources: token ids of each input or prompt, which must not be empty.
        prefixes: ids of the forced first tokens of each target; they are truncated to the maximum length.
        options: the search options.
        alternatives: options for continuing each of the most probable tokens after the prefix separately;
            None for an ordinary search.
        on_token: called with each token of greedy search or sampling as soon as it is decoded; returns True
            to stop the hypothesis to which the token belongs.
    """
    if on_token is not None:
        run, stop = decode_steps(decoder, sources, prefixes, options), None
        while True:
            try:
                stop = on_token(run.send(stop))
            except StopIteration as finished:
                hypotheses: list[list[Hypothesis]] = finished.value
                return hypotheses
    copies = options.nbest if alternatives is None else alternatives.count
    complete = [_prefix_hypothesis(prefix, options) for prefix in prefixes]
    results = {
        index: [hypothesis] * copies for index, hypothesis in enumerate(complete) if hypothesis is not None
    }
    pending_indices = [index for index in range(len(sources)) if index not in results]
    if alternatives is not None:
        for index in pending_indices:
            results[index] = _decode_alternatives(
                decoder, sources[index], prefixes[index], options, alternatives
            )
    elif pending_indices:
        inputs = [SearchInput(sources[index], prefixes[index]) for index in pending_indices]
        lists = search(decoder, inputs, options)
        results |= zip(pending_indices, lists, strict=True)
    return [_sort_samples(results[index], options) for index in range(len(sources))]


def _prefix_hypothesis(prefix: Ids, options: SearchOptions) -> Hypothesis | None:
    """Return the hypothesis that consists of a prefix of maximum length, or None if the prefix is shorter."""
    assert options.max_length is not None
    if len(prefix) < options.max_length:
        return None
    return Hypothesis(tuple(prefix[: options.max_length]), 0.0, 0.0, (), truncated=True)


def _sort_samples(hypotheses: list[Hypothesis], options: SearchOptions) -> list[Hypothesis]:
    """Return hypotheses with samples sorted by score; all other hypotheses are already in order."""
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score) if options.sample else hypotheses


def _decode_alternatives(
    decoder: Decoder, source: Ids, prefix: Ids, options: SearchOptions, alternatives: Alternatives
) -> list[Hypothesis]:
    """Return the continuations of the most probable tokens after a prefix.

    A continuation's score is the log-probability of its first token plus the score of the remaining tokens.
    """
    length = len(prefix) + 1
    count = min(alternatives.count, decoder.vocabulary)
    next_token_options = replace(
        options,
        sample=False,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        beam=count,
        nbest=count,
        min_length=length,
        max_length=length,
        early_stopping=True,
    )
    [candidates] = search(decoder, [SearchInput(source, prefix)], next_token_options)
    candidates = [
        candidate
        for candidate in candidates
        if math.exp(candidate.token_scores[-1]) >= alternatives.probability
    ]
    assert options.max_length is not None
    if length >= options.max_length or not candidates:
        return [replace(candidate, score=candidate.token_scores[-1]) for candidate in candidates]
    continuation_options = replace(options, nbest=1, score_forced=False)
    inputs = [SearchInput(source, candidate.tokens) for candidate in candidates]
    continuations = search(decoder, inputs, continuation_options)
    return [
        replace(best, score=first_candidate.token_scores[-1] + best.score)
        for first_candidate, (best, *_) in zip(candidates, continuations, strict=True)
    ]


class _IncrementalHypothesis:
    """A hypothesis that is decoded token by token, independently of all other hypotheses."""

    def __init__(
        self,
        index: int,
        number: int,
        events: Iterator[StreamEvent],
        prefix: Ids,
        options: SearchOptions,
        limit: int,
    ) -> None:
        self.input_index, self.number, self._limit = index, number, limit
        self._events, self._prefix, self._options = events, prefix, options
        self._tokens: list[int] = []
        self._scores: list[float] = []
        self._result: Hypothesis | None = None

    def advance(self, end: int) -> DecodedToken | None:
        """Decode and return the next token, or return None if the hypothesis is finished."""
        event = next(self._events)
        self._result = event.hypothesis
        if event.token is not None:
            is_forced = len(self._tokens) < len(self._prefix)
            self._tokens.append(event.token)
            self._scores.append(0.0 if is_forced else event.log_prob)
        elif event.hypothesis is None or event.hypothesis.truncated:
            return None
        else:
            self._scores.append(event.hypothesis.token_scores[-1])
        position, token = len(self._scores) - 1, end if event.token is None else event.token
        is_last = event.token is None or len(self._tokens) == self._limit
        return DecodedToken(self.input_index, self.number, position, token, self._scores[-1], is_last)

    def hypothesis(self, is_stopped: bool) -> Hypothesis:
        """Return the finished hypothesis or, if it was stopped, the hypothesis of the tokens so far."""
        if self._result is None and not is_stopped:
            self._result = next(self._events).hypothesis
        if self._result is not None:
            return self._result
        total = math.fsum(self._scores)
        score = total / len(self._scores) ** self._options.length_penalty
        return Hypothesis(tuple(self._tokens), score, total, tuple(self._scores), truncated=True)


def decode_steps(
    decoder: Decoder, sources: Sequence[Ids], prefixes: Sequence[Ids], options: SearchOptions
) -> Steps:
    """Yield tokens as soon as they are decoded, one from each hypothesis in turn.

    Each hypothesis is decoded independently. To stop a hypothesis, send True after one of its tokens.

    Args:
        decoder: the decoder.
        sources: token ids of each input, as for :func:`decode`.
        prefixes: ids of forced first tokens, as for :func:`decode`; these tokens are yielded, too.
        options: search options, for greedy search or sampling.

    Returns:
        the hypotheses of each input, best first.
    """
    seeds = random.Random(options.seed)
    results: list[list[Hypothesis]] = [[] for _ in sources]
    running_hypotheses = []
    for index, (source, prefix) in enumerate(zip(sources, prefixes, strict=True)):
        complete = _prefix_hypothesis(prefix, options)
        if complete is not None:
            results[index] = [complete] * options.nbest
            for position, token in enumerate(complete.tokens):
                yield DecodedToken(index, 0, position, token, 0.0, position + 1 == len(complete.tokens))
            continue
        for number in range(options.nbest):
            sample_options = (
                replace(options, nbest=1, seed=seeds.getrandbits(32)) if options.sample else options
            )
            events = stream(decoder, [SearchInput(source, prefix)], sample_options)
            limits = (options.max_length, target_limit(decoder, len(source)))
            max_tokens = min(limit for limit in limits if limit is not None)
            running_hypotheses.append(
                _IncrementalHypothesis(index, number, events, prefix, sample_options, max_tokens)
            )
    while running_hypotheses:
        for hypothesis in list(running_hypotheses):
            decoded_token = hypothesis.advance(decoder.symbols.end)
            is_stopped = decoded_token is not None and bool((yield decoded_token))
            if decoded_token is None or decoded_token.last or is_stopped:
                results[hypothesis.input_index].append(hypothesis.hypothesis(is_stopped))
                running_hypotheses.remove(hypothesis)
    return [_sort_samples(hypotheses, options) for hypotheses in results]
