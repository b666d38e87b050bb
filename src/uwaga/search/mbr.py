"""Minimum Bayes risk: the candidate that is most like all that the model finds probable (Kumar & Byrne 2004).

The most probable translation is often not a good one. MBR takes the translation of the highest expected
utility instead, ``argmax_h Σ_y p(y|x) u(h, y)``, where ``u`` says how much two texts say the same. The sum
is estimated from samples, each of which counts alike, and they are the candidates too (Eikema & Aziz 2020);
or from an n-best list with its own probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from uwaga.errors import SettingsError, shown
from uwaga.search.utility import Scores, Utility, utilities


def expected_utilities(
    texts: Sequence[str], weights: Sequence[float] | None = None, utility: Utility = "chrf"
) -> Scores:
    """What each text is worth if the truth is any of them, with these probabilities.

    Args:
        texts: candidates, one or more, which may be alike.
        weights: how probable each is, in any unit; None for samples, which count alike.
        utility: see :func:`uwaga.search.utility.utilities`.

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
