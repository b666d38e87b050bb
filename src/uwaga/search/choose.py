"""Choosing candidates from logits, in numpy: the reference that every other implementation must equal."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from uwaga.decoder import Choice, Ids, Sampling
from uwaga.results.attention import Floats

Table = NDArray[np.float64]


def choose(logits: NDArray[np.floating], choice: Choice) -> tuple[Ids, Floats]:
    """The candidates of each row (M23 to M25).

    Args:
        logits: (rows, vocabulary), not modified.
        choice: what to return; see :class:`uwaga.decoder.Choice`.

    Returns:
        ``tokens`` (rows, k) and their natural ``log_probs`` (rows, k), falling, ties by the lower id, with
        k the lesser of ``choice.count`` and the vocabulary. Log-probabilities are the model's own, before
        any temperature. A candidate at -inf means that there was no further one; its token says nothing.
        Those that are ``wanted`` stand behind.
    """
    table = np.array(logits, dtype=np.float64)  # (rows, vocabulary)
    whole = _logsumexp(table)  # (rows, 1)
    if choice.whole:
        return every_token(*table.shape), (table - whole).astype(np.float32)
    forced = np.nonzero(choice.forced >= 0)[0] if choice.forced is not None else None
    if forced is not None and choice.forced is not None:
        kept = (table[forced, choice.forced[forced]] - whole[forced, 0]).astype(np.float32)
    if choice.banned is not None:
        table[choice.banned[:, 0], choice.banned[:, 1]] = -np.inf
        if choice.renormalise:
            whole = _logsumexp(table)
    if choice.sampling is not None:
        tokens = draw(table, choice.sampling)[:, None]  # (rows, 1)
    else:
        tokens = np.argsort(-table, axis=1, kind="stable")[:, : choice.count]  # (rows, k)
    if choice.wanted is not None:
        tokens = np.concatenate([tokens, np.maximum(choice.wanted, 0)], axis=1)  # (rows, k + wanted)
    found = np.take_along_axis(table, tokens, axis=1)
    barred = np.isneginf(found)
    log_probs = np.where(barred, -np.inf, np.where(barred, 0.0, found) - np.where(barred, 0.0, whole))
    log_probs = log_probs.astype(np.float32)
    if choice.wanted is not None:
        log_probs[:, -choice.wanted.shape[1] :][choice.wanted < 0] = -np.inf
    if forced is not None and choice.forced is not None:
        tokens[forced, 0] = choice.forced[forced]
        log_probs[forced] = -np.inf
        log_probs[forced, 0] = kept
    return tokens.astype(np.int64), log_probs


def every_token(rows: int, vocabulary: int) -> Ids:
    """(rows, vocabulary) the ids of the vocabulary in order, a read-only view."""
    return np.broadcast_to(np.arange(vocabulary), (rows, vocabulary))


def draw(table: Table, sampling: Sampling) -> Ids:
    """Draw a token per row from the shaped distribution (M25).

    The logits are divided by the temperature; the ``top_k`` most probable are kept; of these the fewest
    whose probability reaches ``top_p`` are kept; the rest is renormalised. The token is the first, in
    order of falling probability, at which the cumulative probability exceeds the row's draw.

    Args:
        table: (rows, vocabulary) logits, -inf where banned.
        sampling: the draws and the shape of the distribution.

    Returns:
        (rows,) tokens.
    """
    order = np.argsort(-table, axis=1, kind="stable")  # (rows, vocabulary)
    if sampling.top_k:
        order = order[:, : sampling.top_k]
    falling = np.take_along_axis(table, order, axis=1)  # (rows, kept)
    top = np.where(np.isneginf(falling[:, :1]), 0.0, falling[:, :1])
    weights = np.exp((falling - top) / sampling.temperature)
    return np.take_along_axis(order, pick(weights, weights.sum(axis=1), sampling)[:, None], axis=1)[:, 0]


def pick(weights: Table, mass: Table, sampling: Sampling) -> Ids:
    """Which of a row's falling weights its draw falls on.

    Args:
        weights: (rows, kept) probabilities, not normalised, falling.
        mass: (rows,) what the weights of each row's whole distribution sum to; ``weights`` may be only
            the head of it.
        sampling: the draws and top-p.

    Returns:
        (rows,) columns of ``weights``.
    """
    reached = np.cumsum(weights, axis=1)  # (rows, kept)
    total = mass
    if sampling.top_p < 1.0:
        before = np.concatenate([np.zeros_like(reached[:, :1]), reached[:, :-1]], axis=1)
        inside = before < sampling.top_p * mass[:, None]  # (rows, kept): those before do not reach top_p
        weights = np.where(inside, weights, 0.0)
        total = np.take_along_axis(reached, inside.sum(axis=1)[:, None] - 1, axis=1)[:, 0]
    beyond = reached > (sampling.uniform * total)[:, None]
    last = np.maximum((weights > 0.0).sum(axis=1) - 1, 0)  # rounding must not lead past the last token
    picked: Ids = np.minimum(np.where(beyond.any(axis=1), beyond.argmax(axis=1), last), last)
    return picked


def _logsumexp(table: Table) -> Table:
    """(rows, 1) log of the sum of exponentials; -inf for a row of -inf, NaN where there is one."""
    top = table.max(axis=1, keepdims=True)
    top = np.where(np.isneginf(top), 0.0, top)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(table - top).sum(axis=1, keepdims=True)) + top)


def uniforms(seed: int, source: Sequence[int], sample: int, count: int) -> NDArray[np.float64]:
    """(count,) draws in [0, 1), one per step, for one sample of one sentence.

    The stream is Philox (Salmon et al. 2011) in counter mode, keyed by a hash of the arguments, so that
    a longer stream begins with the shorter one. A sentence given twice draws the same sample twice.
    """
    label = f"{seed} {sample} {' '.join(str(token) for token in source)}"
    digest = hashlib.blake2b(label.encode("ascii"), digest_size=16).digest()
    raw = np.random.Philox(key=int.from_bytes(digest, "little")).random_raw(count)
    top_bits = np.asarray(raw, dtype=np.uint64) >> np.uint64(11)
    return top_bits.astype(np.float64) * 2.0**-53
