"""Many small attention matrices in one figure: a row a layer, a column a head."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from uwaga.errors import SettingsError
from uwaga.inspection.alignment import Alignment
from uwaga.inspection.alignment_figure import plain
from uwaga.inspection.pictures import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDEST = 20.0  # inches of all panels of a row
LARGEST_CELL, SMALLEST_CELL, READABLE_CELL = 0.2, 0.03, 0.085  # inches
LETTER = 0.06
TITLE, MARGIN = 0.22, 0.08
TALLEST = 100.0  # beyond some 60,000 dots matplotlib refuses
MOST_SHAPES = 20_000
"""Cells of a figure that are drawn as shapes; more are drawn as pixels, or an SVG would have megabytes."""


def draw_matrices(alignments: Sequence[Alignment]) -> Figure:
    """Matrices as small multiples: those of a layer side by side, the next layer below.

    Rows and columns are as in :func:`uwaga.inspection.draw_alignments`, white is 0 and black 1. Labels stand
    at the first matrix of a row and above the first row of a kind, where cells are large enough for letters.

    Raises:
        SettingsError: there is nothing to draw.
        MissingExtraError: matplotlib is not installed.
    """
    if not alignments:
        raise SettingsError("no matrix to draw")
    rows = [list(row) for _, row in groupby(alignments, key=_row)]
    across = max(map(len, rows))
    widest = max(len(one.source) for one in alignments)
    cell = min(LARGEST_CELL, max(SMALLEST_CELL, WIDEST / (across * widest)))
    letters = cell >= READABLE_CELL
    tops = [letters and (not at or _side(row[0]) != _side(rows[at - 1][0])) for at, row in enumerate(rows)]
    heights = [
        cell * len(row[0].target) + TITLE + (LETTER * _longest(row[0].source) if top else 0)
        for row, top in zip(rows, tops, strict=True)
    ]
    left = LETTER * max(_longest(one.target) for one in alignments) if letters else 0
    figure = new_figure(left + across * (cell * widest + MARGIN), min(sum(heights), TALLEST))
    panels = figure.subplots(len(rows), across, squeeze=False, height_ratios=heights)
    shapes = sum(one.weights.size for one in alignments) <= MOST_SHAPES
    for line, row, top in zip(panels, rows, tops, strict=True):
        for axes in line[len(row) :]:
            axes.set_axis_off()
        for at, (axes, one) in enumerate(zip(line, row, strict=False)):
            name = _title(one, cell * widest)
            _draw(axes, one, name, 72 * cell * 0.7 if letters else 0, at == 0, top, shapes)
    return figure


def _row(one: Alignment) -> tuple[str, str, int | None]:
    """Of one row are the matrices of one layer of a model."""
    model = one.title.rsplit(f"{one.kind}, layer", 1)[0]
    return model, one.kind, one.layer


def _side(one: Alignment) -> tuple[str, tuple[str, ...]]:
    return one.kind, one.source


def _title(one: Alignment, room: float) -> str:
    """The longest name of a matrix for which there are so many inches."""
    number = f"{one.layer}.{'mean' if one.head is None else one.head}"
    return next((name for name in (one.title, f"{one.kind} {number}") if LETTER * len(name) < room), number)


def _draw(axes: Axes, one: Alignment, title: str, size: float, first: bool, top: bool, shapes: bool) -> None:
    edges: Any = {"edgecolors": "#dddddd", "linewidth": 0.2} if shapes and size else {}
    axes.pcolormesh(one.weights, cmap="Greys", vmin=0.0, vmax=1.0, rasterized=not shapes, **edges)
    axes.invert_yaxis()
    axes.set_aspect("equal")
    axes.xaxis.tick_top()
    axes.tick_params(length=0, labelsize=min(size, 8), pad=1)
    axes.set_xticks([])
    axes.set_yticks([])
    if size and top:
        axes.set_xticks([at + 0.5 for at in range(len(one.source))], plain(one.source))
    if size and first:
        axes.set_yticks([at + 0.5 for at in range(len(one.target))], plain(one.target))
    for text in axes.get_xticklabels():
        text.set_rotation(90)
    for side in axes.spines.values():
        side.set_linewidth(0.4)
    axes.set_title(plain([title])[0], fontsize=6, pad=2)


def _longest(labels: Sequence[str]) -> int:
    return max(map(len, labels))
