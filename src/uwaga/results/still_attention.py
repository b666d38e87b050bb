"""An attention matrix as inline SVG that needs neither script nor style: a heat map in five shades."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from uwaga.results.html import escape

CELL, LETTER, MARGIN = 18, 7, 8
"""Units of a cell, of a letter of a label, and around it all."""
LONGEST_LABEL = 14
SHADES = (0.1, 0.25, 0.45, 0.65, 0.85)
"""The least weight of each shade; a cell of less is left empty."""
COLOUR = "#3b82d6"
"""Seen on white and on black."""


def still_attention(
    kind: str, rows: Sequence[str], columns: Sequence[str], weights: NDArray[np.floating]
) -> str:
    """A figure of a matrix.

    Args:
        kind: of attention, for the title.
        rows: labels of the queries.
        columns: labels of the keys.
        weights: (queries, keys).
    """
    left = LETTER * min(LONGEST_LABEL, max(map(len, rows))) + MARGIN
    top = LETTER * min(LONGEST_LABEL, max(map(len, columns))) + MARGIN
    width, height = left + CELL * len(columns) + MARGIN, top + CELL * len(rows) + MARGIN
    labels = [
        f'<text x="{left - 5}" y="{top + CELL * at + 13}" text-anchor="end">{_short(text)}</text>'
        for at, text in enumerate(rows)
    ]
    labels += [
        f'<text transform="translate({left + CELL * at + 13},{top - 5}) rotate(-90)">{_short(text)}</text>'
        for at, text in enumerate(columns)
    ]
    title = f"{kind} attention, mean of the last layer's heads: a row a query, a column a key"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" style="max-width:100%;height:auto" role="img" aria-label="{escape(title)}" '
        'fill="currentColor" font-family="system-ui, sans-serif" font-size="12">'
        f'<g transform="translate({left},{top}) scale({CELL})" stroke="{COLOUR}" fill="none">'
        f"{''.join(_paths(weights))}</g>{''.join(labels)}</svg>"
    )


def _paths(weights: NDArray[np.floating]) -> list[str]:
    """A path for each shade, in which neighbours of a row are one line: a cell has no element of its own."""
    found = []
    shade = np.searchsorted(SHADES, weights, side="right")  # (queries, keys): 0 for none
    for number, least in enumerate(SHADES, start=1):
        runs = []
        for row, here in enumerate((shade == number).astype(np.int8)):
            edges = np.flatnonzero(np.diff(here, prepend=0, append=0))
            runs += [f"M{start} {row}.5h{stop - start}" for start, stop in edges.reshape(-1, 2).tolist()]
        if runs:
            opacity = min(1.0, least + 0.1)
            found.append(f'<path stroke-opacity="{opacity:.2f}" d="{"".join(runs)}"/>')
    return found


def _short(text: str) -> str:
    return escape(text if len(text) <= LONGEST_LABEL else text[: LONGEST_LABEL - 1] + "…")
