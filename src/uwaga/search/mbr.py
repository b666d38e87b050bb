"""Minimum Bayes risk decoding: select the candidate with the highest expected utility (Kumar & Byrne 2004).

The most probable translation is often not good. MBR selects the translation with the highest expected
utility instead, ``argmax_h Σ_y p(y|x) u(h, y)``, where ``u`` measures the similarity of two texts. The sum is
estimated from samples of equal weight, which are also the candidates (Eikema & Aziz 2020), or from an n-best
list with its probabilities. Utilities are sacreBLEU's sentence scores, computed for all pairs at once:
n-grams are counted once per sentence, not once per pair.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from uwaga.errors import SettingsError, quoted
from uwaga.search.options import Utility
from uwaga.settings.options import check_choice

UTILITIES: tuple[Utility, ...] = get_args(Utility)

MAX_CHRF_ORDER, CHRF_BETA = 6, 2.0
"""Longest n-gram of chrF and the weight of recall (Popović 2015; sacreBLEU's defaults)."""
MAX_BLEU_ORDER = 4
"""Longest n-gram of BLEU (Papineni 2002)."""
WORD = re.compile(r"\w+|[^\w\s]")

Scores = NDArray[np.float64]
Counts = NDArray[np.int64]


class Overlap(NamedTuple):
    """Counts of the n-grams of one order.

    ``matches`` (candidates, references): number of common n-grams, clipped to the smaller of the two counts.
    ``candidates`` (candidates,), ``references`` (references,): number of n-grams of each sentence.
    """

    matches: Counts
    candidates: Counts
    references: Counts


def utilities(candidates: Sequence[str], references: Sequence[str], metric: Utility = "chrf") -> Scores:
    r"""Return the score of every candidate against every single reference, from 0 to 100.

    ``chrf``: F2 of n-grams of up to six characters without white space (Popović 2015). ``bleu``: sentence
    BLEU with effective order and exponential smoothing, over words and punctuation marks (``\w+|[^\w\s]``),
    so that it needs no other library.

    Args:
        candidates: texts.
        references: texts.
        metric: ``chrf`` or ``bleu``.

    Returns:
        scores (candidates, references).
    """
    check_choice("utility", metric, UTILITIES)
    if metric == "chrf":
        characters = ["".join(text.split()) for text in (*candidates, *references)]
        return _chrf([_overlap(characters, len(candidates), order) for order in range(1, MAX_CHRF_ORDER + 1)])
    words = [tuple(WORD.findall(text)) for text in (*candidates, *references)]
    return _bleu([_overlap(words, len(candidates), order) for order in range(1, MAX_BLEU_ORDER + 1)])


def _overlap(sentences: Sequence[Sequence[str]], candidate_count: int, order: int) -> Overlap:
    """Return the counts of the n-grams of one order in sentences, of which the first ``candidate_count`` are
    candidates.

    The other sentences are references.
    """
    numbers: dict[Sequence[str], int] = {}
    rows, columns = list[int](), list[int]()
    for row, units in enumerate(sentences):
        ids = [numbers.setdefault(units[i : i + order], len(numbers)) for i in range(len(units) - order + 1)]
        columns += ids
        rows += [row] * len(ids)
    width = len(numbers)
    flat_counts = np.bincount(
        np.array(rows, np.int64) * width + np.array(columns, np.int64), minlength=len(sentences) * width
    )
    counts = flat_counts.reshape(len(sentences), width).astype(np.int32)  # (sentences, n-grams)
    candidate_counts, reference_counts = counts[:candidate_count], counts[candidate_count:]
    matches = np.array(
        [np.minimum(row, reference_counts).sum(axis=1) for row in candidate_counts], dtype=np.int64
    )
    return Overlap(
        matches.reshape(len(candidate_counts), len(reference_counts)),
        candidate_counts.sum(axis=1, dtype=np.int64),
        reference_counts.sum(axis=1, dtype=np.int64),
    )


def _chrf(orders: Sequence[Overlap]) -> Scores:
    """Return F-beta of precision and recall, each averaged over the orders that both sentences have."""
    shape = orders[0].matches.shape
    precision, recall, used_orders = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for matches, candidates, references in orders:
        is_present = (candidates[:, None] > 0) & (references > 0)  # (candidates, references)
        precision += np.where(is_present, matches / np.maximum(candidates, 1)[:, None], 0.0)
        recall += np.where(is_present, matches / np.maximum(references, 1), 0.0)
        used_orders += is_present
    precision, recall = precision / np.maximum(used_orders, 1), recall / np.maximum(used_orders, 1)
    weight = CHRF_BETA**2
    denominator = weight * precision + recall
    f = (1 + weight) * precision * recall / np.where(denominator > 0, denominator, 1.0)
    return np.asarray(100.0 * f)


def _bleu(orders: Sequence[Overlap]) -> Scores:
    """Return the geometric mean of the precisions times the brevity penalty."""
    shape = orders[0].matches.shape
    logs, halvings = np.zeros(shape), np.zeros(shape)
    for matches, candidates, _ in orders:
        is_long_enough = np.broadcast_to((candidates > 0)[:, None], shape)
        has_no_match = is_long_enough & (matches == 0)
        halvings += has_no_match  # the first order without a match counts 1/2, the next 1/4
        share = np.where(has_no_match, 0.5**halvings, matches) / np.maximum(candidates, 1)[:, None]
        logs += np.where(is_long_enough, np.log(np.where(is_long_enough, share, 1.0)), 0.0)
    _, candidates, references = orders[0]
    order_counts = sum((order.candidates > 0).astype(np.int64) for order in orders)
    ratio = references / np.maximum(candidates, 1)[:, None]  # (candidates, references)
    brevity = np.exp(np.minimum(0.0, 1.0 - ratio))
    score = 100.0 * brevity * np.exp(logs / np.maximum(order_counts, 1)[:, None])
    return np.where(np.any([order.matches > 0 for order in orders], axis=0), score, 0.0)


def expected_utilities(
    texts: Sequence[str], weights: Sequence[float] | None = None, utility: Utility = "chrf"
) -> Scores:
    """Return the expected utility of each text under a distribution over the texts.

    Args:
        texts: candidates, at least one; may contain duplicates.
        weights: probability of each text, up to a common factor; None for equal weights.
        utility: see :func:`utilities`.

    Returns:
        expected utilities (texts,) from 0 to 100; equal for equal texts.
    """
    masses = np.ones(len(texts)) if weights is None else np.asarray(weights, dtype=np.float64)
    if (
        masses.shape != (len(texts),)
        or not np.isfinite(masses).all()
        or (masses < 0).any()
        or not masses.any()
    ):
        raise SettingsError(
            f"weights must be {len(texts)} finite numbers, none negative and at least one positive, not "
            f"{quoted(masses.tolist())}"
        )
    distinct_texts = list(dict.fromkeys(texts))
    indices = {text: i for i, text in enumerate(distinct_texts)}
    text_indices = np.array([indices[text] for text in texts])  # (texts,)
    # (distinct,)
    probabilities = np.bincount(text_indices, weights=masses / masses.sum(), minlength=len(distinct_texts))
    return np.asarray((utilities(distinct_texts, distinct_texts, utility) @ probabilities)[text_indices])


def rank_by_utility(
    texts: Sequence[str], weights: Sequence[float] | None = None, utility: Utility = "chrf"
) -> list[tuple[int, float]]:
    """Return the first index and the expected utility of each distinct text, best first.

    Texts with equal utilities keep their order. Arguments and errors are those of :func:`expected_utilities`;
    without texts, the result is empty.
    """
    if not texts:
        return []
    utilities = expected_utilities(texts, weights, utility)
    first_indices = {text: index for index, text in reversed(list(enumerate(texts)))}
    return [
        (index, float(utilities[index]))
        for index in sorted(sorted(first_indices.values()), key=lambda index: -utilities[index])
    ]
