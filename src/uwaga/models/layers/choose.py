"""Choice of candidate tokens on the device of the logits; torch version of :mod:`uwaga.search.choose`."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from uwaga.decoder import Choice, Ids, LogProbs, Sampling
from uwaga.results.attention import Floats
from uwaga.search.choose import pick, vocabulary_ids


def at_least_float32(x: Tensor) -> Tensor:
    """Return a tensor converted to float32 if its type has fewer bits, otherwise unchanged."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def requested_features(features: Tensor, choice: Choice) -> Floats | None:
    """Return the features (rows, width) of a step in float32 or float64; None if not requested."""
    return at_least_float32(features).cpu().numpy() if choice.features else None


CHUNK = 2**20
"""Number of logits processed at a time on a CPU, so that they stay in its cache."""

INITIAL_CANDIDATES = 256
"""Number of the most probable tokens that are searched first for a sampled token."""


def choose(logits: Tensor, choice: Choice) -> tuple[Ids, LogProbs]:
    """Return the candidates of each row (M23 to M25), as :func:`uwaga.search.choose.choose` does.

    Only the candidates are copied from the device.

    Args:
        logits: (rows, vocabulary) of any floating type; banned entries of float32 and float64 logits are
            overwritten.
        choice: what to return; see :class:`uwaga.decoder.Choice`.

    Returns:
        ``tokens`` (rows, k) and the model's natural ``log_probs`` (rows, k), in descending order; of equal
        candidates, the lower id is first. Log-probabilities are float64 if the logits are, otherwise float32.
        If a row has fewer than k candidates, its remaining entries are arbitrary tokens with log-probability
        -inf. Extra tokens follow the candidates.
    """
    table = at_least_float32(logits.detach())  # (rows, vocabulary)
    rows, vocabulary = table.shape
    if choice.all_tokens:
        table_or_log_probs = table if choice.logits else torch.log_softmax(table, dim=1)
        return vocabulary_ids(rows, vocabulary), table_or_log_probs.cpu().numpy()
    size = max(rows, 1) if table.is_cuda else max(1, CHUNK // vocabulary)
    banned = _sort_by_row(choice.banned)
    parts = []
    with torch.inference_mode():
        for start in range(0, rows, size):
            stop = min(start + size, rows)
            parts.append(_choose_rows(table[start:stop], choice, banned, start, stop))
    tokens = np.concatenate([part[0] for part in parts])
    log_probs = np.concatenate([part[1] for part in parts])
    return tokens, log_probs


def _choose_rows(table: Tensor, choice: Choice, banned: Ids, start: int, stop: int) -> tuple[Ids, LogProbs]:
    """Return the candidates of rows ``start`` to ``stop``; ``table`` contains the logits of these rows."""
    log_probs = torch.log_softmax(table, dim=1)  # (rows, vocabulary)
    forced_tokens = None if choice.forced is None else choice.forced[start:stop]
    forced_log_probs = (
        None if forced_tokens is None else _gather(log_probs, np.maximum(forced_tokens, 0)[:, None])
    )
    chunk_banned = banned[slice(*np.searchsorted(banned[:, 0], [start, stop]))]
    if len(chunk_banned):
        pairs = torch.from_numpy(chunk_banned).to(table.device)
        table[pairs[:, 0] - start, pairs[:, 1]] = -torch.inf
        if choice.renormalise:
            log_probs = torch.log_softmax(table, dim=1)
    if choice.sampling is not None:
        tokens, values = _draw(table, choice.sampling, choice.sampling.uniform[start:stop])
    else:
        tokens, values = _best(table, min(choice.count, table.shape[1]))
    if choice.extra_tokens is not None:
        extra_tokens = choice.extra_tokens[start:stop]  # (rows, extra)
        tokens = np.concatenate([tokens, np.maximum(extra_tokens, 0)], axis=1)
        extra_values = np.where(extra_tokens < 0, -np.inf, _gather(table, np.maximum(extra_tokens, 0)))
        values = np.concatenate([values, extra_values.astype(values.dtype)], axis=1)
    chosen_log_probs: LogProbs = np.where(np.isneginf(values), -np.inf, _gather(log_probs, tokens)).astype(
        values.dtype
    )
    if forced_tokens is not None and forced_log_probs is not None:
        is_forced = forced_tokens >= 0  # (rows,)
        tokens[is_forced, 0] = forced_tokens[is_forced]
        chosen_log_probs[is_forced] = -np.inf
        chosen_log_probs[is_forced, 0] = forced_log_probs[is_forced, 0]
    return tokens, chosen_log_probs


def _best(table: Tensor, count: int) -> tuple[Ids, LogProbs]:
    """Return the indices and values of the ``count`` largest numbers of each row, in descending order.

    Of equal numbers, the one with the lower index is first.
    """
    if count == 1:
        maximum, index = table.max(dim=1, keepdim=True)  # torch returns the first maximum
        return index.cpu().numpy(), maximum.cpu().numpy()
    top_count = min(count + 1, table.shape[1])
    top, index = torch.topk(table, top_count, dim=1)  # (rows, count + 1)
    values, tokens = top.cpu().numpy(), index.cpu().numpy()
    ties = (values[:, :-1] == values[:, 1:]) & (values[:, 1:] > -np.inf)  # (rows, count)
    if 0 < count < top_count:
        _resolve_last_ties(table, values, tokens, np.nonzero(ties[:, -1])[0], count)
    if ties.any():
        order = np.lexsort((tokens[:, :count], -values[:, :count]), axis=1)
        tokens[:, :count] = np.take_along_axis(tokens[:, :count], order, axis=1)
    return tokens[:, :count], values[:, :count]


def _resolve_last_ties(table: Tensor, values: LogProbs, tokens: Ids, rows: Ids, count: int) -> None:
    """Replace candidates that are tied at the last rank by those with the lowest ids, in place."""
    if not len(rows):
        return
    last_values = values[rows, count - 1]
    row_indices = torch.from_numpy(rows).to(table.device)
    # (tied, vocabulary)
    equals = table[row_indices] == torch.from_numpy(last_values).to(table.device)[:, None]
    row, column = (part.cpu().numpy() for part in torch.nonzero(equals, as_tuple=True))
    starts = np.searchsorted(row, np.arange(len(rows)))
    for index, (tied_row, start) in enumerate(zip(rows.tolist(), starts.tolist(), strict=True)):
        greater_count = int((values[tied_row, :count] > last_values[index]).sum())
        tokens[tied_row, greater_count:count] = column[start : start + count - greater_count]


def _draw(table: Tensor, sampling: Sampling, uniform: NDArray[np.float64]) -> tuple[Ids, LogProbs]:
    """Return a token sampled for each row, (rows, 1), and its logit.

    Tokens need to be sorted by probability only up to the sampled token. The most probable tokens are
    therefore tried first, and more tokens only if a row's sample is not among them.
    """
    vocabulary = table.shape[1]
    total_mass = _mass(table, sampling.temperature) if not sampling.top_k else None
    size = min(sampling.top_k or INITIAL_CANDIDATES, vocabulary)
    while True:
        tokens, values = _best(table, size)  # (rows, size)
        top = np.where(np.isneginf(values[:, :1]), 0.0, values[:, :1]).astype(np.float64)
        weights = np.exp((values - top) / sampling.temperature)
        mass = weights.sum(axis=1) if total_mass is None else total_mass
        needed_mass = sampling.top_p if sampling.top_p < 1.0 else uniform
        if total_mass is None or size == vocabulary or not (weights.sum(axis=1) <= needed_mass * mass).any():
            break
        size = min(size * 8, vocabulary)
    shape = Sampling(uniform, sampling.temperature, sampling.top_k, sampling.top_p)
    column = pick(weights, mass, shape)[:, None]  # (rows, 1)
    sampled_log_probs: LogProbs = np.take_along_axis(values, column, axis=1)
    return np.take_along_axis(tokens, column, axis=1), sampled_log_probs


def _mass(table: Tensor, temperature: float) -> NDArray[np.float64]:
    """Return each row's sum of probabilities divided by the largest of them, (rows,), in float64."""
    top = table.amax(dim=1, keepdim=True)
    top = torch.where(torch.isneginf(top), 0.0, top)
    scaled_table = (table.double() - top) / temperature  # (rows, vocabulary)
    mass: NDArray[np.float64] = scaled_table.exp().sum(dim=1).cpu().numpy()
    return mass


def _gather(table: Tensor, tokens: Ids) -> LogProbs:
    """Return the entries (rows, k) of ``table`` (rows, vocabulary) at ``tokens`` (rows, k)."""
    entries: LogProbs = table.gather(1, torch.from_numpy(tokens).to(table.device)).cpu().numpy()
    return entries


def _sort_by_row(banned: Ids | None) -> Ids:
    """Return the banned (row, token) pairs, sorted by row, as an array (banned, 2)."""
    if banned is None:
        return np.zeros((0, 2), dtype=np.int64)
    if (banned[1:, 0] >= banned[:-1, 0]).all():
        return banned
    return banned[np.argsort(banned[:, 0], kind="stable")]
