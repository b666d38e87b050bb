"""The search of a batch, as CTranslate2 does it: plain, with alternatives, or token by token."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace

from uwaga.decoder import Decoder, target_limit
from uwaga.results.translation import Hypothesis
from uwaga.search import SearchOptions, search, stream
from uwaga.search.search import StreamEvent

Ids = Sequence[int]


@dataclass(frozen=True)
class Alternatives:
    """How many alternatives to return at the first free position, and the least probability of one."""

    count: int
    probability: float


@dataclass(frozen=True)
class DecodedToken:
    """A decided token of a hypothesis of an input, ``position`` from 0; ``last`` True if it ends it."""

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

    Args:
        decoder: the model.
        sources: token ids of each input, or prompts; none is empty.
        prefixes: tokens that each target begins with; those beyond the maximum length are cut.
        options: how to search.
        alternatives: continue the most probable next tokens behind the prefix, each by itself; None for an
            ordinary search.
        on_token: called with each token of greedy search or of samples as it is decided; True stops its
            hypothesis.
    """
    if on_token is not None:
        run, stop = steps(decoder, sources, prefixes, options), None
        while True:
            try:
                stop = on_token(run.send(stop))
            except StopIteration as finished:
                made: list[list[Hypothesis]] = finished.value
                return made
    copies = options.nbest if alternatives is None else alternatives.count
    whole = [_whole(prefix, options) for prefix in prefixes]
    found = {at: [cut] * copies for at, cut in enumerate(whole) if cut is not None}
    left = [at for at in range(len(sources)) if at not in found]
    if alternatives is not None:
        for at in left:
            found[at] = _alternatives(decoder, sources[at], prefixes[at], options, alternatives)
    elif left:
        given = [sources[at] for at in left], options
        lists = search(decoder, *given, prefixes=[prefixes[at] for at in left])
        found |= zip(left, lists, strict=True)
    return [_ordered(found[at], options) for at in range(len(sources))]


def _whole(prefix: Ids, options: SearchOptions) -> Hypothesis | None:
    """Return the hypothesis of a prefix that leaves room for no further token, None for all others."""
    assert options.max_length is not None
    if len(prefix) < options.max_length:
        return None
    return Hypothesis(tuple(prefix[: options.max_length]), 0.0, 0.0, (), truncated=True)


def _ordered(hypotheses: list[Hypothesis], options: SearchOptions) -> list[Hypothesis]:
    """Return samples by their scores; others are in their order already."""
    return sorted(hypotheses, key=lambda one: -one.score) if options.sample else hypotheses


def _alternatives(
    decoder: Decoder, source: Ids, prefix: Ids, options: SearchOptions, wanted: Alternatives
) -> list[Hypothesis]:
    """Return the continuation of each of the most probable tokens behind a prefix.

    Its score is the log-probability of that token and the score of the tokens after it.
    """
    length = len(prefix) + 1
    count = min(wanted.count, decoder.vocabulary)
    one_token = replace(
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
    [begun] = search(decoder, [source], one_token, prefixes=[prefix])
    begun = [one for one in begun if math.exp(one.token_scores[-1]) >= wanted.probability]
    assert options.max_length is not None
    if length >= options.max_length or not begun:
        return [replace(one, score=one.token_scores[-1]) for one in begun]
    behind = replace(options, nbest=1, score_forced=False)
    continued = search(decoder, [source] * len(begun), behind, prefixes=[one.tokens for one in begun])
    return [
        replace(best, score=first.token_scores[-1] + best.score)
        for first, (best, *_) in zip(begun, continued, strict=True)
    ]


class _Growing:
    """A hypothesis that is decoded by itself."""

    def __init__(
        self,
        at: int,
        number: int,
        events: Iterator[StreamEvent],
        prefix: Ids,
        options: SearchOptions,
        limit: int,
    ) -> None:
        self.at, self.number, self._limit = at, number, limit
        self._events, self._prefix, self._options = events, prefix, options
        self._tokens: list[int] = []
        self._scores: list[float] = []
        self._found: Hypothesis | None = None

    def advance(self, end: int) -> DecodedToken | None:
        """Decide a token and return it; None if no further token was possible."""
        event = next(self._events)
        self._found = event.hypothesis
        if event.token is not None:
            forced = len(self._tokens) < len(self._prefix)
            self._tokens.append(event.token)
            self._scores.append(0.0 if forced else event.log_prob)
        elif event.hypothesis is None or event.hypothesis.truncated:
            return None
        else:
            self._scores.append(event.hypothesis.token_scores[-1])
        position, token = len(self._scores) - 1, end if event.token is None else event.token
        last = event.token is None or len(self._tokens) == self._limit
        return DecodedToken(self.at, self.number, position, token, self._scores[-1], last)

    def hypothesis(self, stopped: bool) -> Hypothesis:
        """Return the hypothesis, of the tokens so far if it has been stopped."""
        if self._found is None and not stopped:
            self._found = next(self._events).hypothesis
        if self._found is not None:
            return self._found
        total = math.fsum(self._scores)
        score = total / len(self._scores) ** self._options.length_penalty
        return Hypothesis(tuple(self._tokens), score, total, tuple(self._scores), truncated=True)


def steps(decoder: Decoder, sources: Sequence[Ids], prefixes: Sequence[Ids], options: SearchOptions) -> Steps:
    """Yield each token as it is decided, a token of each hypothesis in turn.

    Each hypothesis is decoded by itself, so one can be stopped while the others go on: send True after its
    token.

    Args:
        decoder: the model.
        sources: as of :func:`decode`.
        prefixes: as of :func:`decode`; their tokens are yielded, too.
        options: of greedy search or of samples.

    Returns:
        the hypotheses of each input, best first.
    """
    seeds = random.Random(options.seed)
    found: list[list[Hypothesis]] = [[] for _ in sources]
    running = []
    for at, (source, prefix) in enumerate(zip(sources, prefixes, strict=True)):
        cut = _whole(prefix, options)
        if cut is not None:
            found[at] = [cut] * options.nbest
            for position, token in enumerate(cut.tokens):
                yield DecodedToken(at, 0, position, token, 0.0, position + 1 == len(cut.tokens))
            continue
        for number in range(options.nbest):
            own = replace(options, nbest=1, seed=seeds.getrandbits(32)) if options.sample else options
            events = stream(decoder, [source], own, prefixes=[prefix])
            limits = (options.max_length, target_limit(decoder, len(source)))
            most = min(limit for limit in limits if limit is not None)
            running.append(_Growing(at, number, events, prefix, own, most))
    while running:
        for one in list(running):
            decided = one.advance(decoder.symbols.end)
            stopped = decided is not None and bool((yield decided))
            if decided is None or decided.last or stopped:
                found[one.at].append(one.hypothesis(stopped))
                running.remove(one)
    return [_ordered(each, options) for each in found]
