"""Measurement of a model's target tokens per second on the native engine, and of the machine's limit."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from uwaga.checkpoints.checkpoint import Checkpoint
from uwaga.checkpoints.to_engine import pack_weights, to_engine
from uwaga.decoder import Decoder
from uwaga.engine import NativeModel, PackedWeights
from uwaga.search import SearchInput, SearchOptions, search
from uwaga_bench.machine import Limits, MeasurementCallback
from uwaga_bench.report import Bound, Numbers, SearchRate

BATCH_SIZES, BEAM_SIZES = (1, 32), (1, 4)
TARGET_TOKENS = 16
"""Number of tokens of each target."""
MIN_SOURCE_TOKENS, MAX_SOURCE_TOKENS = 10, 20
"""Minimum and maximum number of tokens of a source."""
ENCODER_MATRICES = ("encoder.", "bridge", "summary", "score.key")
"""Prefixes of the names of matrices that are read once for a batch of sources."""
EMBEDDING_TABLES = ("source_embedding", "target_embedding")
"""Matrices of which only the rows of the tokens are read."""


class Work(NamedTuple):
    """The number and size of the weights that a search reads, per batch and per step.

    Attributes:
        per_batch: number of weights read once for a batch.
        per_batch_bytes: size of these weights in bytes.
        step: number of weights read in each step.
        step_bytes: size of these weights in bytes.
    """

    per_batch: int
    per_batch_bytes: int
    step: int
    step_bytes: int

    @classmethod
    def from_weights(cls, packed: PackedWeights) -> Work:
        """Return the number and size of the weights of a model."""
        per_batch = per_batch_bytes = step = step_bytes = 0
        for name, matrix in packed.matrices.items():
            weights, size = matrix.outputs * matrix.inputs, sum(part.nbytes for part in matrix.arrays)
            if name.startswith(ENCODER_MATRICES) or name.endswith("cross_attention.key_value"):
                per_batch, per_batch_bytes = per_batch + weights, per_batch_bytes + size
            elif name not in EMBEDDING_TABLES:
                step, step_bytes = step + weights, step_bytes + size
        return cls(per_batch, per_batch_bytes, step, step_bytes)


class LoadedModel(NamedTuple):
    """A model on the engine, with its number format, and the number and size of its weights."""

    numbers: Numbers
    model: NativeModel
    work: Work


def load_model(checkpoint: Checkpoint, numbers: Numbers | None, threads: int) -> LoadedModel:
    """Load a model onto the engine, without its vocabulary shortlist.

    Args:
        checkpoint: the model.
        numbers: number format; None for the format of a quantised folder, or int8 for other models.
        threads: number of threads of a search.
    """
    packed = checkpoint.packed
    if packed is None:
        packed = pack_weights(checkpoint, numbers or "int8")
        model = to_engine(checkpoint, threads=threads, packed=packed)
    else:
        model = to_engine(checkpoint, numbers, threads)
    return LoadedModel(packed.precision, model, Work.from_weights(packed))


def measure_searches(
    loaded_model: LoadedModel, limits: Limits, seconds: float, on_measured: MeasurementCallback
) -> list[SearchRate]:
    """Return the measured rates of greedy and beam search, for single sentences and for batches.

    Args:
        loaded_model: the model.
        limits: limits of all threads at the size of the weights of a step.
        seconds: time for each search, which runs at least once after a warm-up.
        on_measured: called after each measurement.
    """
    search_rates = []
    for batch in BATCH_SIZES:
        sources = draw_sources(loaded_model.model, batch)
        for beam in BEAM_SIZES:
            search_fixed_length(loaded_model.model, sources, beam, TARGET_TOKENS)
            best_seconds, end = math.inf, time.perf_counter() + seconds
            while best_seconds == math.inf or time.perf_counter() < end:
                start = time.perf_counter()
                tokens = search_fixed_length(loaded_model.model, sources, beam, TARGET_TOKENS)
                best_seconds = min(best_seconds, time.perf_counter() - start)
            on_measured()
            min_seconds, bound = min_search_seconds(
                loaded_model, limits, sum(map(len, sources)), batch * beam, tokens // batch
            )
            search_rates.append(
                SearchRate(
                    numbers=loaded_model.numbers,
                    batch=batch,
                    beam=beam,
                    tokens_per_second=tokens / best_seconds,
                    limit=tokens / min_seconds,
                    bound=bound,
                    share=min_seconds / best_seconds,
                )
            )
    return search_rates


def min_search_seconds(
    loaded_model: LoadedModel, limits: Limits, source_tokens: int, rows: int, steps: int
) -> tuple[float, Bound]:
    """Return the minimum time, in seconds, of a search of ``rows`` hypotheses, and what limits a step.

    Each step reads the weights of the decoder and of the output layer once, and multiplies all rows by them.
    The weights of the encoder are read once, and multiplied by all source tokens. Attention and all other
    work are ignored.
    """
    work, numbers = loaded_model.work, loaded_model.numbers
    encoder_seconds, _ = limits.minimum_time(
        work.per_batch_bytes, 2 * work.per_batch * source_tokens, numbers
    )
    step_seconds, bound = limits.minimum_time(work.step_bytes, 2 * work.step * rows, numbers)
    return encoder_seconds + steps * step_seconds, bound


def draw_sources(model: NativeModel, count: int) -> list[list[int]]:
    """Return ``count`` sources of random tokens, which are the same in every process."""
    rng = np.random.default_rng(0)
    max_length = MAX_SOURCE_TOKENS if model.max_source is None else min(MAX_SOURCE_TOKENS, model.max_source)
    lengths = rng.integers(min(MIN_SOURCE_TOKENS, max_length), max_length + 1, count)
    return [rng.integers(0, model.source_vocabulary, int(length)).tolist() for length in lengths]


def search_fixed_length(model: Decoder, sources: Sequence[Sequence[int]], beam: int, target: int) -> int:
    """Translate all sources in a batch into exactly ``target`` tokens each, and return the number of tokens.

    The minimum and maximum lengths are equal, so that all models and systems take the same number of steps.
    """
    options = SearchOptions(
        beam=beam, max_length=target, min_length=target, max_ratio=math.inf, batch_tokens=1 << 20
    )
    sentences = list(map(SearchInput, sources))
    return sum(len(hypothesis.tokens) for [hypothesis] in search(model, sentences, options))
