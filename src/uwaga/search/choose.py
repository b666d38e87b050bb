"""Selection of candidates from logits in numpy: the reference for all other implementations."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from uwaga.decoder import Choice, Ids, Sampling
from uwaga.results.attention import Floats

Table = NDArray[np.float64]


def choose(logits: NDArray[np.floating], choice: Choice) -> tuple[Ids, Floats]:
    """Return the candidates of each row (M23 to M25).

    Args:
        logits: (rows, vocabulary), not modified.
        choice: the candidates to return; see :class:`uwaga.decoder.Choice`.

    Returns:
        ``tokens`` (rows, k) and their natural ``log_probs`` (rows, k), descending, ties by the lower id; k is
        the smaller of ``choice.count`` and the vocabulary size. The extra tokens follow. Log-probabilities
        are the model's own, before any temperature: -inf for a missing candidate, whose token is arbitrary,
        and NaN in a row with a logit that is NaN or +inf.
    """
    table = np.array(logits, dtype=np.float64)  # (rows, vocabulary)
    total = _logsumexp(table)  # (rows, 1)
    if choice.all_tokens:
        return vocabulary_ids(*table.shape), (table if choice.logits else table - total).astype(np.float32)
    forced_rows = np.nonzero(choice.forced >= 0)[0] if choice.forced is not None else None
    if forced_rows is not None and choice.forced is not None:
        forced_log_probs = (table[forced_rows, choice.forced[forced_rows]] - total[forced_rows, 0]).astype(
            np.float32
        )
    if choice.banned is not None:
        table[choice.banned[:, 0], choice.banned[:, 1]] = -np.inf
        if choice.renormalise:  # a ban does not mend a row with NaN
            total = np.where(np.isnan(total), total, _logsumexp(table))
    if choice.sampling is not None:
        tokens = draw(table, choice.sampling)[:, None]  # (rows, 1)
    else:
        tokens = np.argsort(-table, axis=1, kind="stable")[:, : choice.count]  # (rows, k)
    if choice.extra_tokens is not None:
        tokens = np.concatenate([tokens, np.maximum(choice.extra_tokens, 0)], axis=1)  # (rows, k + extra)
    candidates = np.take_along_axis(table, tokens, axis=1)
    impossible = np.isneginf(candidates) & ~np.isnan(total)
    log_probs = np.where(
        impossible, -np.inf, np.where(impossible, 0.0, candidates) - np.where(impossible, 0.0, total)
    )
    log_probs = log_probs.astype(np.float32)
    if choice.extra_tokens is not None:
        log_probs[:, -choice.extra_tokens.shape[1] :][choice.extra_tokens < 0] = -np.inf
    if forced_rows is not None and choice.forced is not None:
        tokens[forced_rows, 0] = choice.forced[forced_rows]
        log_probs[forced_rows] = -np.inf
        log_probs[forced_rows, 0] = forced_log_probs
    return tokens.astype(np.int64), log_probs


def vocabulary_ids(rows: int, vocabulary: int) -> Ids:
    """Return the ids of the vocabulary in order, as a read-only view (rows, vocabulary)."""
    return np.broadcast_to(np.arange(vocabulary), (rows, vocabulary))


def draw(table: Table, sampling: Sampling) -> Ids:
    """Sample a token for each row from the truncated distribution (M25).

    The logits are divided by the temperature; the ``top_k`` most probable tokens are kept, and of these the
    fewest whose total probability reaches ``top_p``; these are renormalised. The token is the first, in order
    of descending probability, at which the cumulative probability exceeds the draw of the row.

    Args:
        table: (rows, vocabulary) logits, -inf where banned.
        sampling: draws and truncation of the distribution.

    Returns:
        (rows,) tokens.
    """
    order = np.argsort(-table, axis=1, kind="stable")  # (rows, vocabulary)
    if sampling.top_k:
        order = order[:, : sampling.top_k]
    sorted_logits = np.take_along_axis(table, order, axis=1)  # (rows, top)
    top = np.where(np.isneginf(sorted_logits[:, :1]), 0.0, sorted_logits[:, :1])
    weights = np.exp((sorted_logits - top) / sampling.temperature)
    return np.take_along_axis(order, pick(weights, weights.sum(axis=1), sampling)[:, None], axis=1)[:, 0]


def pick(weights: Table, mass: Table, sampling: Sampling) -> Ids:
    """Return the column of ``weights`` that each row's draw selects.

    Args:
        weights: (rows, top) unnormalised probabilities, descending.
        mass: (rows,) sum of the weights of the distribution, of which ``weights`` may be only the head.
        sampling: draws and top-p.

    Returns:
        (rows,) columns of ``weights``.
    """
    cumulative = np.cumsum(weights, axis=1)  # (rows, top)
    total = mass
    if sampling.top_p < 1.0:
        preceding_mass = np.concatenate([np.zeros_like(cumulative[:, :1]), cumulative[:, :-1]], axis=1)
        in_nucleus = preceding_mass < sampling.top_p * mass[:, None]  # (rows, top)
        weights = np.where(in_nucleus, weights, 0.0)
        total = np.take_along_axis(cumulative, in_nucleus.sum(axis=1)[:, None] - 1, axis=1)[:, 0]
    exceeds_draw = cumulative > (sampling.uniform * total)[:, None]
    last_indices = np.maximum(
        (weights > 0.0).sum(axis=1) - 1, 0
    )  # rounding must not select a token of weight 0
    selected_indices: Ids = np.minimum(
        np.where(exceeds_draw.any(axis=1), exceeds_draw.argmax(axis=1), last_indices), last_indices
    )
    return selected_indices


def _logsumexp(table: Table) -> Table:
    """Return the log of the sum of exponentials (rows, 1): -inf for a row of -inf, NaN for a row with NaN."""
    top = table.max(axis=1, keepdims=True)
    top = np.where(np.isneginf(top), 0.0, top)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(table - top).sum(axis=1, keepdims=True)) + top)


def uniforms(seed: int, source: Sequence[int], sample: int, count: int) -> NDArray[np.float64]:
    """Return uniform draws (count,) in [0, 1) for the steps of a sample of a sentence (M25).

    The draws depend on the seed, the sentence and the index of the sample, never on the batch. The generator
    is Philox (Salmon et al. 2011) in counter mode, keyed by a hash of the arguments, so a longer stream
    begins with the shorter stream, and equal sentences draw equal samples.
    """
    label = f"{seed} {sample} {' '.join(str(token) for token in source)}"
    digest = hashlib.blake2b(label.encode("ascii"), digest_size=16).digest()
    random_bits = np.random.Philox(key=int.from_bytes(digest, "little")).random_raw(count)
    top_bits = np.asarray(random_bits, dtype=np.uint64) >> np.uint64(11)
    return top_bits.astype(np.float64) * 2.0**-53
