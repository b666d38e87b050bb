"""Target tokens a second of a model on the native engine, beside the most that the machine allows."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from uwaga.checkpoints.checkpoint import Checkpoint
from uwaga.checkpoints.to_engine import pack_weights, to_engine
from uwaga.decoder import Decoder
from uwaga.engine import NativeModel, Packed
from uwaga.search import SearchOptions, search
from uwaga.speed.machine import Limits, Measured
from uwaga.speed.report import Bound, Numbers, SearchRate

BATCHES, BEAMS = (1, 32), (1, 4)
TARGET = 16
"""Tokens of each target."""
SHORTEST, LONGEST = 10, 20
"""Tokens of a source."""
ONCE = ("encoder.", "bridge", "summary", "score.key")
"""Matrices, by how their names begin, that are read once for a batch of sources."""
TABLES = ("source_embedding", "target_embedding")
"""Matrices of which only the rows of tokens are read."""


class Work(NamedTuple):
    """The weights of a model and their bytes: of those read once for a batch, and of those read each step."""

    once: int
    once_bytes: int
    step: int
    step_bytes: int

    @classmethod
    def of(cls, packed: Packed) -> Work:
        """Count the weights of a model."""
        once = once_bytes = step = step_bytes = 0
        for name, matrix in packed.matrices.items():
            weights, size = matrix.outputs * matrix.inputs, sum(part.nbytes for part in matrix.arrays)
            if name.startswith(ONCE) or name.endswith("cross_attention.key_value"):
                once, once_bytes = once + weights, once_bytes + size
            elif name not in TABLES:
                step, step_bytes = step + weights, step_bytes + size
        return cls(once, once_bytes, step, step_bytes)


class Loaded(NamedTuple):
    """A model on the engine in a number format, with its weights counted."""

    numbers: Numbers
    model: NativeModel
    work: Work


def load(checkpoint: Checkpoint, numbers: Numbers | None, threads: int) -> Loaded:
    """Load a model onto the engine, without its vocabulary shortlist.

    Args:
        checkpoint: the model.
        numbers: None for the format of a quantised folder, and int8 for other models.
        threads: threads of a search.
    """
    packed = checkpoint.packed
    if packed is None:
        packed = pack_weights(checkpoint, numbers or "int8")
        model = to_engine(checkpoint, threads=threads, packed=packed)
    else:
        model = to_engine(checkpoint, numbers, threads)
    return Loaded(packed.precision, model, Work.of(packed))


def measure_searches(loaded: Loaded, limits: Limits, seconds: float, done: Measured) -> list[SearchRate]:
    """Measure greedy and beam search, of one sentence and of several at once.

    Args:
        loaded: the model.
        limits: those of all threads at the size of the weights of a step.
        seconds: time for each search, which runs at least once after a first one.
        done: called after each.
    """
    found = []
    for batch in BATCHES:
        sources = draw_sources(loaded.model, batch)
        for beam in BEAMS:
            search_fixed(loaded.model, sources, beam, TARGET)
            best, end = math.inf, time.perf_counter() + seconds
            while best == math.inf or time.perf_counter() < end:
                start = time.perf_counter()
                tokens = search_fixed(loaded.model, sources, beam, TARGET)
                best = min(best, time.perf_counter() - start)
            done()
            shortest, bound = least_seconds(
                loaded, limits, sum(map(len, sources)), batch * beam, tokens // batch
            )
            found.append(
                SearchRate(
                    numbers=loaded.numbers,
                    batch=batch,
                    beam=beam,
                    tokens_per_second=tokens / best,
                    limit=tokens / shortest,
                    bound=bound,
                    share=shortest / best,
                )
            )
    return found


def least_seconds(
    loaded: Loaded, limits: Limits, source_tokens: int, rows: int, steps: int
) -> tuple[float, Bound]:
    """Return the least seconds of a search of ``rows`` hypotheses, and what a step of it needs them for.

    Every step reads the weights of the decoder and the output once and multiplies every row by them; the
    encoder is read once, and multiplies every token of the sources. Attention and all else count nothing.
    """
    work, numbers = loaded.work, loaded.numbers
    before, _ = limits.shortest(work.once_bytes, 2 * work.once * source_tokens, numbers)
    each, bound = limits.shortest(work.step_bytes, 2 * work.step * rows, numbers)
    return before + steps * each, bound


def draw_sources(model: NativeModel, count: int) -> list[list[int]]:
    """Return sources of random tokens, the same in every process."""
    rng = np.random.default_rng(0)
    most = LONGEST if model.max_source is None else min(LONGEST, model.max_source)
    lengths = rng.integers(min(SHORTEST, most), most + 1, count)
    return [rng.integers(0, model.source_vocabulary, int(length)).tolist() for length in lengths]


def search_fixed(model: Decoder, sources: Sequence[Sequence[int]], beam: int, target: int) -> int:
    """Search targets of exactly ``target`` tokens, all sources in one batch; return the number of tokens.

    The end symbol is held back, and then a limit cuts, so that every model and system makes as many steps.
    """
    options = SearchOptions(
        beam=beam, max_length=target, min_length=target, max_ratio=math.inf, batch_tokens=1 << 20
    )
    return sum(len(one.tokens) for [one] in search(model, sources, options))
