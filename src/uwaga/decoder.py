"""The interface between the search and the models.

The search (:mod:`uwaga.search`) depends only on these types, so it works with recurrent models, Transformers,
ensembles, torch and the native engine. Axes: ``sentences`` are source sentences; ``rows`` are hypotheses
(``sentences * beams``, the beams of a sentence adjacent); ``k`` are candidates; ``source`` and ``target`` are
tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from uwaga.results.attention import Attentions, Floats
from uwaga.results.translation import DraftUse

MAX_BEAM = 1024
"""Maximum beam size. Memory grows with its square, and translations get worse long before this size."""
MAX_LENGTH_PENALTY = 10.0
"""Maximum absolute value of the length penalty."""
MAX_TOKENS = 2**31 - 1
"""Maximum length, or number of tokens, that an option accepts."""

Ids = NDArray[np.int64]
LogProbs = NDArray[np.float32 | np.float64]
"""Log-probabilities in float32, or in float64 for a torch model in float64."""
Sources = Sequence[Sequence[int]]
"""Token ids of each sentence, with its end symbol."""


@dataclass(frozen=True)
class Symbols:
    """Ids of the special tokens.

    Attributes:
        start: the first decoder input (``<s>``, or ``<pad>`` for Marian).
        end: the token that ends a sentence.
        pad: the padding token.
        unknown: the token for unknown words.
        other_ends: further tokens that end a sentence, in language models that have several.
        stops: further tokens that end a sentence but are part of its text.
    """

    start: int
    end: int
    pad: int
    unknown: int
    other_ends: tuple[int, ...] = ()
    stops: tuple[int, ...] = ()

    @property
    def end_symbols(self) -> tuple[int, ...]:
        """The tokens that end a sentence and have no text, ``end`` first."""
        return (self.end, *self.other_ends)

    @property
    def ends(self) -> tuple[int, ...]:
        """All tokens that end a sentence, ``end`` first."""
        return (*self.end_symbols, *self.stops)


@dataclass(frozen=True)
class Sampling:
    """The settings for sampling a token from the distribution.

    The sampled token is the first, in order of descending probability, at which the cumulative probability
    exceeds the draw of the row.

    Attributes:
        uniform: (rows,) float64 in [0, 1), a draw for each row. The search derives it only from the seed, the
            sentence and the step, so that samples don't depend on the batch.
        temperature: the divisor of the logits.
        top_k: number of most probable tokens to sample from, 0 for all.
        top_p: total probability of the most probable tokens to sample from, 1 for all.
    """

    uniform: NDArray[np.float64]
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0


@dataclass(frozen=True)
class Choice:
    """The candidates that a decoder step should return.

    Attributes:
        count: number of candidates of each row, best first; ties go to the lower token id. It may be 0 with
            ``features``.
        banned: (pairs, 2) pairs of row and token whose log-probability becomes -inf. The other tokens are not
            renormalised, unless ``renormalise`` is set.
        forced: (rows,) the only candidate of each row, or -1 for a row without one. A forced row returns this
            token first, with the model's log-probability, and -inf for all other tokens.
        sampling: how to sample one token for each row (``count`` is 1); None to return the best tokens.
        attention: whether to return cross-attention weights as well.
        renormalise: whether to renormalise the distribution after banning tokens (for checkpoints whose
            original library does so).
        all_tokens: whether to return the complete vocabulary in the order of ids, with the model's
            log-probabilities (for ensembles and entropy); of the other fields only ``attention``,
            ``features`` and ``extra_tokens`` apply.
        logits: whether to return logits in place of log-probabilities with ``all_tokens``; an ensemble, which
            has no logits, returns log-probabilities.
        features: whether to return, as well, the features that the output layer reads; for an ensemble, the
            concatenated features of its models.
        extra_tokens: (rows, extra) further tokens to return after the best, without duplicates in a row,
            padded with -1: the step then has (rows, k + extra) candidates. Their log-probabilities are -inf
            for banned tokens, for -1 and in forced rows. The log-probability of a token outside a shortlist
            is computed as if only this token were added to the list; with ``all_tokens`` it is returned in
            the token's column, and there are no further columns.
    """

    count: int
    banned: Ids | None = None
    forced: Ids | None = None
    sampling: Sampling | None = None
    attention: bool = False
    renormalise: bool = False
    all_tokens: bool = False
    logits: bool = False
    features: bool = False
    extra_tokens: Ids | None = None


class Memory(Protocol):
    """Encoded sources, with a row for each sentence, which all beams of the sentence share."""

    @property
    def sentences(self) -> int:
        """Number of sentences."""
        ...

    @property
    def lengths(self) -> Ids:
        """Number of source tokens of each sentence, end symbol included, (sentences,)."""
        ...


class State(Protocol):
    """The decoder's state between steps, an immutable value."""

    def reorder(self, rows: Ids) -> State:
        """Return the state whose row r is row ``rows[r]`` of this state; both rows belong to the same
        sentence.
        """
        ...

    def select(self, sentences: Ids) -> State:
        """Return the state of the given sentences, in the given order, with their memory."""
        ...


@dataclass(frozen=True)
class Step:
    """The candidates of a decoder step.

    Attributes:
        tokens: (rows, k) int64, or (rows, k + extra) with ``Choice.extra_tokens``.
        log_probs: log-probabilities of the same shape, float32 or float64, descending over the first k.
        state: the state after the step.
        attention: (rows, source) float32 cross-attention, exactly 0 at padding; None if not requested.
        features: (rows, width) float32 features that the output layer reads; None if not requested.
    """

    tokens: Ids
    log_probs: LogProbs
    state: State
    attention: Floats | None = None
    features: Floats | None = None


EarlyStopping = bool | Literal["estimate"]


@dataclass(frozen=True)
class BeamRules:
    """The rules of a beam search that runs outside Python; greedy search has a beam of one.

    ``nbest``, ``early_stopping``, ``min_length``, ``force_end``, ``score_forced`` and ``renormalise`` are
    those of :class:`uwaga.search.SearchOptions`, except that ``score_forced`` is also False if the option is
    ``"length"``.

    Attributes:
        beams: number of hypotheses of each sentence.
        pool_size: maximum number of finished hypotheses of a sentence that are retained, and the number that
            ``early_stopping`` waits for; at most ``beams``.
        start: first decoder input.
        banned: (tokens,) tokens that are never produced, ascending.
        divisors: (longest + 2,) the divisor of a hypothesis's log-probability for each length.
        continues_word: (vocabulary,) True for tokens that continue a word, for phrases; empty if no phrase
            needs it.
        streams: whether to report each token as soon as it is decided; for one beam only.
    """

    beams: int
    pool_size: int
    nbest: int
    start: int
    banned: Ids
    min_length: int
    early_stopping: EarlyStopping
    force_end: bool
    score_forced: bool
    renormalise: bool
    divisors: NDArray[np.float64]
    continues_word: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    streams: bool = False

    @property
    def key(self) -> tuple[object, ...]:
        """A key that rules share if their sentences can be decoded together; independent of ``streams``."""
        values = [getattr(self, rule.name) for rule in fields(self) if rule.name != "streams"]
        return tuple(value.tobytes() if isinstance(value, np.ndarray) else value for value in values)


class PhraseTables(NamedTuple):
    """The phrases of a sentence as flat int64 arrays for the engine; see
    :class:`uwaga.search.phrases.Phrases`.

    ``bonus`` is -1 for forced phrases.
    """

    sizes: Ids
    times: Ids
    whole_word: Ids
    tokens: Ids
    first: Ids
    targets: Ids
    reaches_end: Ids
    ends: Ids
    progress: Ids
    bonus: float


class Draft(NamedTuple):
    """A probable target, which a greedy search verifies in few passes (M42).

    Attributes:
        tokens: the tokens, without the end symbol.
        bias: amount, from 0 to less than 0.5, by which draft tokens are favoured as long as the target agrees
            with the draft. With 0, the result is the same as without a draft.
        biased: number of initial tokens that are favoured, None for all.
    """

    tokens: Sequence[int]
    bias: float = 0.0
    biased: int | None = None


@dataclass(frozen=True, eq=False)
class Datastore:
    """Features of decoder states, with the tokens that followed them, for k-nearest-neighbour search (M44).

    The distribution of a state with features h is mixed with the tokens of the nearest keys k_i, by their
    squared distances d_i, ascending (SK-MT: Dai 2023; kNN-MT: Khandelwal 2021, eq. 2 and 3)::

        p = λ p_kNN + (1 - λ) p_model,    λ = min(ReLU(1 - d_1 / radius), MAX_WEIGHT)
        p_kNN(y) ∝ Σ_i [token_i = y] exp(-d_i / temperature),    over i with d_i < radius

    Attributes:
        keys: (entries, width) float16 features of states.
        tokens: (entries,) int64 token that followed each state.
        radius: the squared distance at and beyond which a key has no weight.
        temperature: the divisor of the squared distances.
        neighbours: the maximum number of keys in p_kNN.
    """

    keys: NDArray[np.float16]
    tokens: Ids
    radius: float
    temperature: float
    neighbours: int = 4


MAX_WEIGHT = 0.99
"""Maximum of λ, so that tokens that are not in the datastore remain possible."""


class NewSentence(NamedTuple):
    """A sentence that enters a search.

    Attributes:
        source: tokens of the sentence, end symbol included.
        limit: maximum number of steps.
        uncounted: number of initial target tokens excluded from the length.
        forced: tokens with which the target must begin.
        phrases: the phrases that the target must contain.
        draft: a probable target, for one beam only.
        datastore: decoder states of similar sentences, for a batch that encodes the source itself.
    """

    source: Sequence[int]
    limit: int
    uncounted: int = 0
    forced: Sequence[int] = ()
    phrases: PhraseTables | None = None
    draft: Draft | None = None
    datastore: Datastore | None = None


FREE = -1
"""The entry of a step without a forced token in :func:`forced_matrix`."""


def forced_matrix(forced: Sequence[Sequence[int]]) -> Ids:
    """Return the forced first tokens of sentences as an array (sentences, steps), padded with :data:`FREE`.

    The number of steps is the largest number of forced tokens, at least 1.
    """
    matrix: Ids = np.full((len(forced), max(map(len, forced), default=0) or 1), FREE, dtype=np.int64)
    for row, tokens in zip(matrix, forced, strict=True):
        row[: len(tokens)] = tokens
    return matrix


class FinishedTarget(NamedTuple):
    """A finished hypothesis of a :class:`BeamSearch`; tokens and log-probabilities include the end symbol.

    ``draft`` is None without a draft. ``attention`` (target, source) is the attention of the steps, if
    requested.
    """

    tokens: list[int]
    log_probs: list[float]
    score: float
    truncated: bool
    draft: DraftUse | None = None
    attention: Floats | None = None


class DecidedToken(NamedTuple):
    """A token decided by a streaming search, with the index of its sentence."""

    sentence: int
    token: int
    log_prob: float


class BeamSearch(Protocol):
    """A beam search implemented by a decoder."""

    @property
    def running(self) -> Ids:
        """Indices of the unfinished sentences (sentences,), in the order in which they were added."""
        ...

    def enter(self, memory: Memory, sentences: Sequence[NewSentence]) -> None:
        """Add sentences to the batch; ``memory`` contains their encoded sources."""
        ...

    def run(self, tokens: int) -> None:
        """Run one or more steps, until the unfinished sentences have at most ``tokens`` source tokens."""

    def finished(self) -> list[list[FinishedTarget]]:
        """Return the n-best list of each sentence, in the order in which the sentences were added; the list
        of an unfinished sentence is empty.
        """

    def decided(self) -> list[DecidedToken]:
        """Return the tokens decided since the last call, without end symbols; requires ``streams``."""


class BatchTicket(Protocol):
    """The sentences of a search in a running batch, numbered in the order of submission."""

    def submit(self, sentences: Sequence[NewSentence]) -> None:
        """Add sentences, to be decoded as soon as possible; see :meth:`BeamSearch.enter`."""
        ...

    def collect(self, seconds: float) -> tuple[list[tuple[int, list[FinishedTarget]]], list[DecidedToken]]:
        """Return sentences finished and tokens decided since the last call, waiting up to ``seconds``.

        Raises:
            UwagaError: a sentence failed, which ends all sentences of the ticket.
        """
        ...

    def leave(self) -> None:
        """Remove the sentences of the ticket, and wake a thread that is waiting in :meth:`collect`."""
        ...


class RunningBatch(Protocol):
    """A thread-safe batch that decodes the sentences of any number of searches."""

    def ticket(self, rules: BeamRules) -> BatchTicket:
        """Return a ticket for a search with these rules."""
        ...

    def serve(self) -> None:
        """Decode submitted sentences until :meth:`close` is called; to be run in a dedicated thread."""
        ...

    def close(self) -> None:
        """Make :meth:`serve` return; waiting searches raise :class:`CancelledRequestError`."""
        ...

    @property
    def counters(self) -> tuple[int, int, int]:
        """Number of steps, total number of rows of these steps, and number of finished sentences."""
        ...


def shared_positions(decoder: Decoder) -> int | None:
    """Return the number of positions shared by source and target; None for a model with an encoder.

    A decoder with the attribute ``shared_positions`` reads a prompt, which its target continues (M18). The
    last target token needs no position.
    """
    positions: int | None = getattr(decoder, "shared_positions", None)
    return positions


WithDatastores = Callable[[Memory, Sequence[Datastore | None]], Memory]


def with_datastores(decoder: Decoder) -> WithDatastores | None:
    """Return the function that attaches datastores to the sentences of a memory, or None.

    The function is the decoder's attribute ``with_datastores``, which not all decoders have. The tokens of a
    datastore are added to the shortlist of its sentence.
    """
    function: WithDatastores | None = getattr(decoder, "with_datastores", None)
    return function


def target_limit(decoder: Decoder, source_tokens: int) -> int | None:
    """Return the maximum number of target tokens for ``source_tokens`` source tokens; None for no limit.

    Both numbers include the end symbol.
    """
    position_limit, limit = shared_positions(decoder), decoder.max_target
    if position_limit is None:
        return limit
    remaining_positions = max(position_limit - source_tokens + 1, 1)
    return remaining_positions if limit is None else min(limit, remaining_positions)


@runtime_checkable
class Batching(Protocol):
    """A decoder that can create running batches."""

    def running_batch(self) -> RunningBatch:
        """Return a new batch; its results are bit-identical to those of ``beam_search``."""
        ...


AttentionRecorder = Callable[[Sources, Sources], list[Attentions]]
Verify = Callable[[Sequence[Sequence[int]], State, Choice], Step]
CrossAttentions = Callable[[Sources, Sources], "list[Floats]"]
CrossAttention = Callable[[Sources, Sources, int, int | None], "list[Floats]"]


class Decoder(Protocol):
    """The interface of a model to the search: encode, start, then step.

    The property for an optional capability is None if the decoder lacks the capability.
    """

    @property
    def symbols(self) -> Symbols:
        """The special tokens."""
        ...

    @property
    def vocabulary(self) -> int:
        """Number of target tokens."""
        ...

    @property
    def max_source(self) -> int | None:
        """Maximum number of source tokens, end symbol included; None for no limit."""
        ...

    @property
    def max_target(self) -> int | None:
        """Maximum number of target tokens, end symbol included; None for no limit."""
        ...

    def encode(self, sources: Sources) -> Memory:
        """Return the encoded sources."""
        ...

    def start(self, memory: Memory, beams: int) -> State:
        """Return the state before the first token, with ``beams`` rows for each sentence."""
        ...

    def step(self, tokens: Ids, state: State, choice: Choice) -> Step:
        """Read the last token of each row, ``tokens`` (rows,), and return the candidates for the
        next token.
        """
        ...

    @property
    def verify(self) -> Verify | None:
        """A function that reads several tokens of each sentence in one pass (M42).

        The arguments are at least one token for each sentence of the state; the state, which has one beam;
        and the choice. It returns the candidates after each token, the rows of a sentence adjacent. In
        the resulting state, each row counts as a sentence and has the state after its token; ``select`` picks
        the rows from which the sentences continue. The results equal those of steps that read one token at a
        time.
        """
        ...

    @property
    def join(self) -> Callable[[State, State], State] | None:
        """A function that concatenates the sentences of two states with the same number of beams.

        It is None if all sentences of a state must be at the same target position. Otherwise the search
        replaces finished sentences with waiting ones (continuous batching).
        """
        ...

    @property
    def beam_search(self) -> Callable[[BeamRules], BeamSearch] | None:
        """A function that starts a beam search that runs outside Python.

        Results are bit-identical to those of :mod:`uwaga.search`. As with ``join``, sentences may enter a
        search in progress.
        """
        ...

    @property
    def attentions(self) -> AttentionRecorder | None:
        """A function that returns all attention matrices for given sources and targets.

        The second argument contains the decoder inputs: the start symbol, then the target without its last
        token. The function runs a separate pass with the arithmetic of the steps, and does not affect the
        results of a search. In a decoder-only model the query and key axes are the source followed by the
        target.
        """
        ...

    @property
    def cross_attention(self) -> CrossAttention | None:
        """A function that returns the cross-attention (target, source) of a head, or the mean of a layer.

        In a decoder-only model, it returns the attention to the prompt. The first two arguments are those of
        ``attentions``. The third is the layer, counted from 0 or, if negative, from the last layer (the first
        layer if the model has too few). The fourth is the head, or None for the mean over the layer's heads.
        """
        ...

    @property
    def cross_attentions(self) -> CrossAttentions | None:
        """A function that returns the cross-attention (layers, heads, target, source).

        Its arguments are those of ``attentions``.
        """
        ...

    @property
    def recording(self) -> Callable[[bool], Decoder] | None:
        """A function that returns a decoder with a cache of encoded sources, which are thus encoded only
        once.

        The argument tells whether ``attentions`` will be called; if not, only ``cross_attention`` or
        ``cross_attentions`` will be called. Results are bit-identical.
        """
        ...
