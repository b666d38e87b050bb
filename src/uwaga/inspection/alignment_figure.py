"""Alignment matrices drawn side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from uwaga.errors import SettingsError
from uwaga.inspection.alignment import Alignment
from uwaga.inspection.pictures import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CELL = 0.32  # inches
LETTER = 0.085
LEAST = 2.0
LARGEST = 100.0  # beyond some 60,000 dots matplotlib refuses


def draw_alignments(alignments: Sequence[Alignment]) -> Figure:
    """One matrix per alignment, from left to right: target tokens downwards, source tokens across.

    White is 0 and black is 1 in all of them; of an attribution black is the largest, and red speaks against.

    Raises:
        SettingsError: there is nothing to draw.
        MissingExtraError: matplotlib is not installed.
    """
    if not alignments:
        raise SettingsError("no alignment to draw")
    widths = [max(LEAST, CELL * len(one.source) + LETTER * _longest(one.target)) for one in alignments]
    height = max(
        CELL * len(one.target) + LETTER * _longest(one.source) + (0.4 if one.title else 0.1)
        for one in alignments
    )
    figure = new_figure(min(sum(widths), LARGEST), min(max(height, LEAST), LARGEST))
    panels = figure.subplots(1, len(alignments), squeeze=False, width_ratios=widths)[0]
    for axes, one in zip(panels, alignments, strict=True):
        _draw(axes, one)
    return figure


def _draw(axes: Axes, one: Alignment) -> None:
    # Cells as rectangles, not pixels, so that SVG and PDF stay sharp; light lines part them.
    signed = one.kind == "attribution"
    colours, least = ("RdGy", -1.0) if signed else ("Greys", 0.0)
    axes.pcolormesh(one.shades, cmap=colours, vmin=least, vmax=1.0, edgecolors="#dddddd", linewidth=0.4)
    axes.invert_yaxis()
    axes.set_aspect("equal")
    axes.xaxis.tick_top()
    axes.set_xticks([at + 0.5 for at in range(len(one.source))], plain(one.source))
    axes.tick_params(length=0, labelsize=9)
    for label in axes.get_xticklabels():
        label.set_rotation(90)
    axes.set_yticks([at + 0.5 for at in range(len(one.target))], plain(one.target))
    if one.title:
        axes.set_title(plain([one.title])[0], fontsize=10)


def plain(labels: Sequence[str]) -> list[str]:
    """Labels in which a dollar is a dollar, where matplotlib would see mathematics."""
    return [label.replace("$", r"\$") for label in labels]


def _longest(labels: Sequence[str]) -> int:
    return max(map(len, labels))
