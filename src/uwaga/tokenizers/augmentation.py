"""Other surface forms of a source sentence, so that a model meets lower-case and shouted input."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from uwaga.errors import SettingsError


def _unpunctuated(text: str) -> str:
    """Without its final punctuation, unless nothing else is there."""
    end = len(text)
    while end and (text[end - 1].isspace() or unicodedata.category(text[end - 1]).startswith("P")):
        end -= 1
    return text[:end] or text


FORMS: Mapping[str, Callable[[str], str]] = {
    "lower": str.lower,
    "upper": str.upper,
    "unpunctuated": _unpunctuated,
}


def surface(text: str, form: str) -> str:
    """The text in one surface form: ``lower``, ``upper`` (all capitals) or ``unpunctuated``.

    Raises:
        SettingsError: no such form.
    """
    try:
        return FORMS[form](text)
    except KeyError:
        raise SettingsError(f"data.augment: no form {form!r}; known: {', '.join(FORMS)}") from None


def choose_forms(shares: Mapping[str, float], draws: NDArray[np.float64]) -> NDArray[np.int64]:
    """For each draw in [0, 1) the index into ``shares`` of the form it selects, -1 for the text as it is.

    Axes: (pairs,) -> (pairs,). Form k is chosen with probability ``shares[k]``.

    Raises:
        SettingsError: the shares add up to more than 1.
    """
    check_shares(shares.values())
    edges = np.cumsum(np.array(list(shares.values()), dtype=np.float64))  # (forms,)
    chosen = np.searchsorted(edges, draws, side="right").astype(np.int64)  # (pairs,)
    return np.where(chosen == len(shares), -1, chosen)


def check_shares(shares: Iterable[float]) -> None:
    """Refuse shares of the surface forms that add up to more than 1 (SettingsError)."""
    if (total := sum(shares)) > 1.0 + 1e-9:
        raise SettingsError(f"data.augment: the shares add up to {total:g}, more than 1")


def augment(text: str, shares: Mapping[str, float], generator: np.random.Generator) -> str:
    """Show a text in a surface form drawn with the given shares; takes one draw from the generator."""
    (form,) = choose_forms(shares, generator.random(1)).tolist()
    return text if form < 0 else surface(text, list(shares)[form])
