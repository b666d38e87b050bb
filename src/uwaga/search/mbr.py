"""Minimum Bayes risk: the candidate that is most like all that the model finds probable (Kumar & Byrne 2004).

The most probable translation is often not a good one. MBR takes the translation of the highest expected
utility instead, ``argmax_h Σ_y p(y|x) u(h, y)``, where ``u`` says how much two texts say the same. The sum
is estimated from samples, each of which counts alike, and they are the candidates too (Eikema & Aziz 2020);
or from an n-best list with its own probabilities.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from uwaga.errors import SettingsError, shown
from uwaga.settings.options import check_one_of

Utility = Literal["chrf", "bleu"]
UTILITIES: tuple[Utility, ...] = get_args(Utility)

CHARACTERS, BETA = 6, 2.0
"""Longest n-gram of chrF and the weight of its recall (Popović 2015, as sacreBLEU has them)."""
WORDS = 4
"""Longest n-gram of BLEU (Papineni 2002)."""
WORD = re.compile(r"\w+|[^\w\s]")

Scores = NDArray[np.float64]
Counts = NDArray[np.int64]


class Overlap(NamedTuple):
    """The n-grams of one order.

    ``matches`` (candidates, references): those that both have, each as often as the one that has it less.
    ``candidates`` (candidates,), ``references`` (references,): those of each sentence.
    """

    matches: Counts
    candidates: Counts
    references: Counts


def utilities(candidates: Sequence[str], references: Sequence[str], metric: Utility = "chrf") -> Scores:
    r"""The score of every candidate against every reference alone, from 0 to 100.

    ``chrf``: the F2 of n-grams of up to six characters, spaces not counted (Popović 2015). ``bleu``: BLEU of
    the sentence, with the orders that it is long enough for and exponential smoothing, over words and
    punctuation marks (``\w+|[^\w\s]``), so that nothing need be installed for it.

    Args:
        candidates: texts.
        references: texts.
        metric: which of the two.

    Returns:
        (candidates, references).

    Raises:
        SettingsError: there is no such metric.
    """
    check_one_of("utility", metric, UTILITIES)
    if metric == "chrf":
        letters = ["".join(text.split()) for text in (*candidates, *references)]
        return _chrf([_overlap(letters, len(candidates), order) for order in range(1, CHARACTERS + 1)])
    words = [tuple(WORD.findall(text)) for text in (*candidates, *references)]
    return _bleu([_overlap(words, len(candidates), order) for order in range(1, WORDS + 1)])


def _overlap(sentences: Sequence[Sequence[str]], candidates: int, order: int) -> Overlap:
    """The n-grams of one order in sentences, of which the first so many are the candidates."""
    numbers: dict[Sequence[str], int] = {}
    rows, columns = list[int](), list[int]()
    for row, units in enumerate(sentences):
        found = [
            numbers.setdefault(units[at : at + order], len(numbers)) for at in range(len(units) - order + 1)
        ]
        columns += found
        rows += [row] * len(found)
    width = len(numbers)
    flat = np.bincount(
        np.array(rows, np.int64) * width + np.array(columns, np.int64), minlength=len(sentences) * width
    )
    counts = flat.reshape(len(sentences), width).astype(np.int32)  # (sentences, n-grams)
    ours, theirs = counts[:candidates], counts[candidates:]
    matches = np.array([np.minimum(row, theirs).sum(axis=1) for row in ours], dtype=np.int64)
    return Overlap(
        matches.reshape(len(ours), len(theirs)),
        ours.sum(axis=1, dtype=np.int64),
        theirs.sum(axis=1, dtype=np.int64),
    )


def _chrf(orders: Sequence[Overlap]) -> Scores:
    """Precision and recall, each the mean over the orders that both sentences have, then F-beta."""
    shape = orders[0].matches.shape
    precision, recall, used = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for matches, ours, theirs in orders:
        both = (ours[:, None] > 0) & (theirs > 0)  # (candidates, references)
        precision += np.where(both, matches / np.maximum(ours, 1)[:, None], 0.0)
        recall += np.where(both, matches / np.maximum(theirs, 1), 0.0)
        used += both
    precision, recall = precision / np.maximum(used, 1), recall / np.maximum(used, 1)
    weight = BETA**2
    below = weight * precision + recall
    f = (1 + weight) * precision * recall / np.where(below > 0, below, 1.0)
    return np.asarray(100.0 * f)


def _bleu(orders: Sequence[Overlap]) -> Scores:
    """The geometric mean of the precisions times the brevity penalty."""
    shape = orders[0].matches.shape
    logs, halvings = np.zeros(shape), np.zeros(shape)
    for matches, ours, _ in orders:
        there = np.broadcast_to((ours > 0)[:, None], shape)
        missed = there & (matches == 0)
        halvings += missed  # the first order without a match counts a half of one, the next a quarter
        share = np.where(missed, 0.5**halvings, matches) / np.maximum(ours, 1)[:, None]
        logs += np.where(there, np.log(np.where(there, share, 1.0)), 0.0)
    _, ours, theirs = orders[0]
    used = sum((one.candidates > 0).astype(np.int64) for one in orders)
    ratio = theirs / np.maximum(ours, 1)[:, None]  # (candidates, references)
    brevity = np.exp(np.minimum(0.0, 1.0 - ratio))
    score = 100.0 * brevity * np.exp(logs / np.maximum(used, 1)[:, None])
    return np.where(np.any([one.matches > 0 for one in orders], axis=0), score, 0.0)


def expected_utilities(
    texts: Sequence[str], weights: Sequence[float] | None = None, utility: Utility = "chrf"
) -> Scores:
    """What each text is worth if the truth is any of them, with these probabilities.

    Args:
        texts: candidates, one or more, which may be alike.
        weights: how probable each is, in any unit; None for samples, which count alike.
        utility: see :func:`uwaga.search.mbr.utilities`.

    Returns:
        (texts,) from 0 to 100; equal for equal texts.

    Raises:
        SettingsError: the weights are not as many as the texts, not all finite and not negative, or all 0; or
            there is no such utility.
    """
    given = np.ones(len(texts)) if weights is None else np.asarray(weights, dtype=np.float64)
    if given.shape != (len(texts),) or not np.isfinite(given).all() or (given < 0).any() or not given.any():
        raise SettingsError(
            f"{len(texts)} texts need as many weights, finite, none negative and one positive, not "
            f"{shown(given.tolist())}"
        )
    different = list(dict.fromkeys(texts))
    place = {text: at for at, text in enumerate(different)}
    index = np.array([place[text] for text in texts])  # (texts,)
    share = np.bincount(index, weights=given / given.sum(), minlength=len(different))  # (different,)
    return np.asarray((utilities(different, different, utility) @ share)[index])


def rank_by_utility(
    texts: Sequence[str], weights: Sequence[float] | None = None, utility: Utility = "chrf"
) -> list[tuple[int, float]]:
    """The index of each different text, where it stands first, and its expected utility, which falls.

    Of equal ones the one that stands first comes first. Arguments and errors are those of
    :func:`expected_utilities`; no texts give no indices.
    """
    if not texts:
        return []
    expected = expected_utilities(texts, weights, utility)
    first = {text: at for at, text in reversed(list(enumerate(texts)))}
    return [(at, float(expected[at])) for at in sorted(sorted(first.values()), key=lambda at: -expected[at])]
