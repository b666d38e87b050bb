"""Small numpy decoders with the decoder interface, for tests of the search.

Their rows are bitwise independent of each other: sums run along an axis of fixed length, never through
a BLAS whose order of summation depends on how many rows there are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from uwaga.decoder import Choice, Step, Symbols
from uwaga.search import choose


def product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the product of (rows, n) and (n, m); the order of summation does not depend on the rows."""
    return (left[:, :, None] * right[None]).sum(axis=1)


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Return the log-softmax of logits (rows, vocabulary) in float64."""
    top = logits.max(axis=1, keepdims=True)
    return logits - top - np.log(np.exp(logits - top).sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class ToyMemory:
    """Encoded sources: ``lengths`` (sentences,), ``values`` (sentences, source, width) and ``mask``."""

    lengths: np.ndarray
    values: np.ndarray
    mask: np.ndarray

    @property
    def sentences(self) -> int:
        return len(self.lengths)

    def select(self, sentences: np.ndarray) -> "ToyMemory":
        return ToyMemory(self.lengths[sentences], self.values[sentences], self.mask[sentences])


@dataclass(frozen=True)
class ToyState:
    """Decoder state: ``hidden`` (rows, width), with ``beams`` rows per sentence of ``memory``."""

    memory: ToyMemory
    beams: int
    hidden: np.ndarray

    def reorder(self, rows: np.ndarray) -> "ToyState":
        assert rows.shape == (len(self.hidden),)
        stays = rows // self.beams == np.arange(len(rows)) // self.beams
        assert stays.all(), "a row left its sentence"
        return ToyState(self.memory, self.beams, self.hidden[rows])

    def select(self, sentences: np.ndarray) -> "ToyState":
        rows = (sentences[:, None] * self.beams + np.arange(self.beams)).ravel()
        return ToyState(self.memory.select(sentences), self.beams, self.hidden[rows])


@dataclass
class RecurrentToy:
    """A random recurrent decoder with attention that depends on the source and all previous tokens.

    Tokens: 0 padding, 1 start, 2 end, 3 unknown. ``end_bias`` is added to the end symbol's logit.
    """

    join = beam_search = None
    vocabulary: int
    seed: int = 0
    width: int = 5
    end_bias: float = 0.0
    sharpness: float = 2.0
    max_source: int | None = None
    max_target: int | None = None
    symbols: Symbols = Symbols(start=1, end=2, pad=0, unknown=3)
    calls: dict[str, int] = field(default_factory=lambda: {"encode": 0, "start": 0, "step": 0, "rows": 0})

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        width, tokens = self.width, max(self.vocabulary, 50)
        self.source_embedding = rng.normal(size=(tokens, width))
        self.embedding = rng.normal(size=(self.vocabulary, width))
        self.position = rng.normal(size=(256, width)) * 0.5
        self.inward = rng.normal(size=(width, width))
        self.across = rng.normal(size=(width, width))
        self.inner = rng.normal(size=(width, width)) * 0.7
        self.outward = rng.normal(size=(width, self.vocabulary)) * self.sharpness

    def encode(self, sources: Sequence[Sequence[int]]) -> ToyMemory:
        self.calls["encode"] += 1
        lengths = np.array([len(source) for source in sources])
        values = np.zeros((len(sources), int(lengths.max()), self.width))
        for row, source in enumerate(sources):
            values[row, : len(source)] = self.source_embedding[list(source)] + self.position[: len(source)]
        return ToyMemory(lengths, values, np.arange(lengths.max()) < lengths[:, None])

    def start(self, memory: ToyMemory, beams: int) -> ToyState:
        self.calls["start"] += 1
        return ToyState(memory, beams, np.zeros((memory.sentences * beams, self.width)))

    def step(self, tokens: np.ndarray, state: ToyState, choice: Choice) -> Step:
        self.calls["step"] += 1
        self.calls["rows"] += len(tokens)
        logits, hidden, weights = self.logits(tokens, state)
        chosen_tokens, log_probs = choose(logits, choice)
        attention = weights.astype(np.float32) if choice.attention else None
        return Step(chosen_tokens, log_probs, ToyState(state.memory, state.beams, hidden), attention)

    def logits(self, tokens: np.ndarray, state: ToyState) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return logits (rows, vocabulary), next hidden (rows, width), and attention (rows, source)."""
        rows = len(tokens)
        assert tokens.shape == (rows,) and rows == state.memory.sentences * state.beams
        assert ((tokens >= 0) & (tokens < self.vocabulary)).all()
        sentence = np.arange(rows) // state.beams
        values, mask = state.memory.values[sentence], state.memory.mask[sentence]
        query = state.hidden + self.embedding[tokens]
        scores = (values * query[:, None, :]).sum(axis=2)
        scores = np.where(mask, scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        # in order, one position after the other: padding adds exact zeros behind and changes no bit
        total = np.add.accumulate(weights, axis=1)[:, -1:]
        weights = weights / total
        context = np.add.accumulate(weights[:, :, None] * values, axis=1)[:, -1]
        hidden = np.tanh(
            product(self.embedding[tokens], self.inward)
            + product(context, self.across)
            + product(state.hidden, self.inner)
        )
        logits = product(hidden, self.outward)
        logits[:, self.symbols.end] += self.end_bias
        return logits, hidden, weights


class JoiningToy(RecurrentToy):
    """Allows sentences to join a running batch; ``calls["join"]`` counts the joins."""

    def join(self, first: ToyState, second: ToyState) -> ToyState:
        assert first.beams == second.beams
        self.calls["join"] = self.calls.get("join", 0) + 1
        lengths = np.concatenate([first.memory.lengths, second.memory.lengths])
        longest = int(lengths.max())
        values = np.zeros((len(lengths), longest, self.width))
        values[: first.memory.sentences, : first.memory.values.shape[1]] = first.memory.values[:, :longest]
        values[first.memory.sentences :, : second.memory.values.shape[1]] = second.memory.values
        memory = ToyMemory(lengths, values, np.arange(longest) < lengths[:, None])
        return ToyState(memory, first.beams, np.concatenate([first.hidden, second.hidden]))


@dataclass
class TableToy(RecurrentToy):
    """A Markov decoder: logits depend only on the last token, by a random or given ``table``."""

    table: np.ndarray | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.table is None:
            rng = np.random.default_rng(self.seed)
            self.table = rng.normal(size=(self.vocabulary, self.vocabulary)) * self.sharpness

    def logits(self, tokens: np.ndarray, state: ToyState) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        _, hidden, weights = super().logits(tokens, state)
        logits = self.table[tokens].copy()
        logits[:, self.symbols.end] += self.end_bias
        return logits, hidden, weights


def teacher_forced(
    decoder: RecurrentToy, source: Sequence[int], targets: Sequence[Sequence[int]]
) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities (targets, length, vocabulary) and attention (targets, length, source), one pass.

    All ``targets`` have the same length and are passed to the decoder token by token, without a search.
    """
    target_ids = np.array(targets, dtype=np.int64).reshape(len(targets), -1)
    state = decoder.start(decoder.encode([source]), len(targets))
    tokens = np.full(len(targets), decoder.symbols.start)
    log_probs, attention = [], []
    for position in range(target_ids.shape[1]):
        logits, hidden, weights = decoder.logits(tokens, state)
        log_probs.append(log_softmax(logits))
        attention.append(weights)
        state = ToyState(state.memory, state.beams, hidden)
        tokens = target_ids[:, position]
    return np.stack(log_probs, axis=1), np.stack(attention, axis=1)
