"""The contract between search and models.

Search (``uwaga.search``) sees only these types, so one search serves the recurrent models, the
Transformer, ensembles, torch and the native engine. Axes: ``sentences`` counts source sentences,
``rows`` counts hypotheses (``sentences * beams``, the beams of a sentence side by side), ``k`` counts
candidates, ``source`` and ``target`` count tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from uwaga.results.attention import Attentions, Floats

MAX_BEAM = 1024
"""Hypotheses per sentence: memory grows with their square, and translations get worse long before."""

MAX_LENGTH_PENALTY = 10.0
"""Largest exponent of the length that a score is divided by, either way."""
MAX_TOKENS = 2**31 - 1
"""Beyond any length that can be asked for."""

Ids = NDArray[np.int64]
LogProbs = NDArray[np.float32 | np.float64]
"""float32, but float64 of a torch model in float64."""


@dataclass(frozen=True)
class Symbols:
    """The special token ids that search must know.

    ``start`` is what decoding starts from (``<s>``, or ``<pad>`` for Marian); ``end`` stops it.
    """

    start: int
    end: int
    pad: int
    unknown: int


@dataclass(frozen=True)
class Sampling:
    """How to draw a token from the distribution.

    ``uniform`` (rows,) float64 in [0, 1): one draw per row, made by the search from the seed, the
    sentence and the step alone, so that a sample does not depend on the batch. The token is the first,
    in order of falling probability, at which the cumulative probability exceeds the draw.
    """

    uniform: NDArray[np.float64]
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0


@dataclass(frozen=True)
class Choice:
    """Which candidates a step is to return.

    ``count``: how many per row, best first, ties broken by the lower token id.
    ``banned``: (pairs, 2) of (row, token) that must not be chosen; their log-probability becomes
    -inf, the others are not renormalised (but see ``renormalise``).
    ``forced``: (rows,) the one token to choose in a row, or -1 where the row is free. A forced row
    returns that token first, with its true log-probability, and -inf for the rest.
    ``sampling``: draw one token per row (``count`` is then 1) instead of taking the best.
    ``attention``: return cross-attention weights too.
    ``renormalise``: share the banned tokens' probability among the others before anything is read off
    (checkpoints whose own library does so ask for it).
    ``whole``: return every token of the vocabulary in the order of its id instead of the best, with the
    model's own log-probabilities; nothing else but ``attention`` is then looked at (ensembles mix them).
    ``wanted``: (rows, w) further tokens, -1 for none, each once in a row: the step then has (rows, k + w)
    candidates, these behind the best in their order, with their own log-probabilities, -inf where banned or
    none. A forced row has none. A token outside a shortlist has the log-probability that it would have if it
    alone were added to the list; with ``whole`` it has that in its place, and there are no further columns.
    """

    count: int
    banned: Ids | None = None
    forced: Ids | None = None
    sampling: Sampling | None = None
    attention: bool = False
    renormalise: bool = False
    whole: bool = False
    wanted: Ids | None = None


class Memory(Protocol):
    """Encoded sources, one row per sentence; beams never copy it."""

    @property
    def sentences(self) -> int:
        """Number of sentences."""
        ...

    @property
    def lengths(self) -> Ids:
        """(sentences,) source tokens of each sentence, its end symbol included."""
        ...


class State(Protocol):
    """What a decoder remembers between steps: a value that is passed and returned, never kept inside."""

    def reorder(self, rows: Ids) -> State:
        """The state whose row r is this state's row ``rows[r]``; a row stays within its sentence."""
        ...

    def select(self, sentences: Ids) -> State:
        """The state of these sentences only, in this order (their memory included)."""
        ...


@dataclass(frozen=True)
class Step:
    """The candidates of one step.

    ``tokens`` (rows, k) int64 and ``log_probs`` (rows, k) float32, or float64 of a float64 model, falling;
    behind them those that were ``wanted``, if any were. ``attention`` (rows, source) float32, padding exactly
    0, or None.
    """

    tokens: Ids
    log_probs: LogProbs
    state: State
    attention: Floats | None = None


EarlyStopping = bool | Literal["estimate"]


@dataclass(frozen=True)
class BeamRules:
    """A beam search (greedy is a beam of one) that looks at a hypothesis's tokens for its phrases alone.

    ``nbest``, ``early_stopping``, ``min_length``, ``force_end``, ``score_forced`` and ``renormalise`` are as
    the search's options. ``beams`` hypotheses of each sentence run, and ``enough`` of its finished ones, no
    more than these, are kept: what ``early_stopping`` waits for. ``start`` is fed first; ``never`` (tokens,)
    rises and is never produced. ``divisors`` (longest + 2,): what the log-probability of a hypothesis is
    divided by, by the tokens that count in its length, for sentences of at most ``longest`` steps. ``inside``
    (vocabulary,): the tokens that go on with the word before them, which phrases ask for; empty where none
    does. ``streams``: whether each token is asked for as it is decided, of one beam.
    """

    beams: int
    enough: int
    nbest: int
    start: int
    never: Ids
    min_length: int
    early_stopping: EarlyStopping
    force_end: bool
    score_forced: bool
    renormalise: bool
    divisors: NDArray[np.float64]
    inside: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    streams: bool = False


PhraseTables = tuple[Ids, Ids, Ids, Ids, Ids, Ids, Ids, Ids, Ids, float]
"""What one target must contain, as :attr:`uwaga.search.phrases.Phrases.tables` gives it."""
Found = tuple[list[int], list[float], float, bool]
"""Tokens, end symbol included, their log-probabilities, the score, and whether a limit cut it."""
Decided = tuple[int, int, float]
"""A sentence's number, the token that it goes on with, and the token's log-probability."""


class BeamSearch(Protocol):
    """Sentences that a decoder searches by itself, without a call for each step."""

    @property
    def running(self) -> Ids:
        """(sentences,) those that are being decoded, numbered in the order in which they entered."""
        ...

    def enter(
        self,
        memory: Memory,
        limits: Ids,
        uncounted: Ids,
        forced: Ids,
        phrases: Sequence[PhraseTables | None] = ...,
    ) -> None:
        """Let sentences in beside those that are being decoded.

        Args:
            memory: their sources.
            limits: (sentences,) most steps of each.
            uncounted: (sentences,) first tokens that do not count in the length.
            forced: (sentences, width) the first tokens, -1 where they are free.
            phrases: what the target of each must contain, None for nothing; none at all without any.
        """
        ...

    def run(self, tokens: int) -> None:
        """Make a step, and more until sentences of no more than so many source tokens are being decoded."""

    def found(self) -> list[list[Found]]:
        """The n-best hypotheses of each sentence that is done, best first, in the order of entry."""

    def decided(self) -> list[Decided]:
        """Of rules that stream: the tokens decided since the last call, end symbols left out."""


EveryAttention = Callable[[Sequence[Sequence[int]], Sequence[Sequence[int]]], list[Attentions]]
CrossAttentions = Callable[[Sequence[Sequence[int]], Sequence[Sequence[int]]], "list[Floats]"]
CrossAttention = Callable[[Sequence[Sequence[int]], Sequence[Sequence[int]], int, int | None], "list[Floats]"]


class Decoder(Protocol):
    """A model as search sees it: encode once, start, then step by step."""

    @property
    def beam_search(self) -> Callable[[BeamRules], BeamSearch] | None:
        """A search of its own, without Python between the steps; None of a decoder that has none.

        It must find what :mod:`uwaga.search` finds, to the bit, and let sentences in as ``join`` does.
        """
        ...

    @property
    def join(self) -> Callable[[State, State], State] | None:
        """The state of the sentences of one state and, after them, those of another; their beams are alike.

        None of a decoder whose sentences must all stand at the same position of their targets. With it,
        search gives the slot of a sentence that is done to one that waits (continuous batching).
        """
        ...

    @property
    def attentions(self) -> EveryAttention | None:
        """Every attention matrix of sentences with known targets; None of a decoder that cannot tell.

        The first argument are sources, the second what each step is fed: the token that decoding starts from
        and then the target, without the token that the last step predicts. It is a pass of its own, by the
        same arithmetic as the steps: what a search finds is the same with and without it. A decoder-only
        model's query and key axes are the source and, behind it, the target.
        """
        ...

    @property
    def cross_attention(self) -> CrossAttention | None:
        """Cross-attention (target, source) of one head or one layer's mean; None of a decoder that cannot
        tell.

        The first two arguments are those of ``attentions``; then the layer from 0, or below 0 from the last,
        or the first where it has so few; and the head, or None for the mean of the layer's.
        """
        ...

    @property
    def cross_attentions(self) -> CrossAttentions | None:
        """Cross-attention (layers, heads, target, source) of all layers; None of a decoder that cannot tell.

        The arguments are those of ``attentions``.
        """

    @property
    def recording(self) -> Callable[[bool], Decoder] | None:
        """The decoder for one call that will ask for ``attentions`` (True) or ``cross_attention`` of what it
        finds.

        It keeps what it encodes, so that this is done once, and finds the same, to the bit. None of a decoder
        that keeps nothing.
        """
        ...

    @property
    def symbols(self) -> Symbols: ...

    @property
    def vocabulary(self) -> int:
        """Number of target tokens."""
        ...

    @property
    def max_source(self) -> int | None:
        """Most source tokens (end symbol included) the model can take, None for no limit."""
        ...

    @property
    def max_target(self) -> int | None:
        """Most target tokens the model can make, None for no limit."""
        ...

    def encode(self, sources: Sequence[Sequence[int]]) -> Memory:
        """Encode sentences of token ids, each with its end symbol."""
        ...

    def start(self, memory: Memory, beams: int) -> State:
        """The state before the first token, ``beams`` rows per sentence."""
        ...

    def step(self, tokens: Ids, state: State, choice: Choice) -> Step:
        """Feed ``tokens`` (rows,), the last token of each row, and return the next candidates."""
        ...


def rules_key(rules: BeamRules) -> tuple[object, ...]:
    """Equal for rules by which sentences may be searched together; whether they stream does not matter."""
    every = [getattr(rules, one.name) for one in fields(rules) if one.name != "streams"]
    return tuple(one.tobytes() if isinstance(one, np.ndarray) else one for one in every)


class BatchTicket(Protocol):
    """What one search has in a running batch: sentences, numbered in the order in which they come."""

    def hand(
        self,
        sources: Sequence[Sequence[int]],
        limits: Ids,
        uncounted: Ids,
        forced: Ids,
        phrases: Sequence[PhraseTables | None],
    ) -> None:
        """Let sentences in as soon as they can be encoded; arguments are those of ``BeamSearch.enter``."""
        ...

    def take(self, seconds: float) -> tuple[list[tuple[int, list[Found]]], list[Decided]]:
        """What is done and what was decided since the last call; waits for it, at most so many seconds.

        Raises:
            UwagaError: one of the sentences has failed: all of the ticket's are gone.
        """
        ...

    def leave(self) -> None:
        """Its sentences go, and whoever waits in ``take`` is woken."""
        ...


class RunningBatch(Protocol):
    """Sentences of any number of searches decoded side by side; any thread may use it."""

    def ticket(self, rules: BeamRules) -> BatchTicket:
        """What a search by these rules needs to take part."""
        ...

    def serve(self) -> None:
        """Decode what is handed in, until :meth:`close`: the work of one thread."""
        ...

    def close(self) -> None:
        """Let ``serve`` return; whoever waits is told."""
        ...

    @property
    def counters(self) -> tuple[int, int, int]:
        """Steps made, their rows added up, and sentences done."""
        ...


@runtime_checkable
class Batching(Protocol):
    """A decoder that has a running batch of its own."""

    def running_batch(self) -> RunningBatch:
        """A new one, in which nothing runs yet: it finds what ``beam_search`` finds, to the bit."""
        ...
