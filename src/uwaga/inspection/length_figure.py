"""BLEU against the length of the source, a line per system."""

from __future__ import annotations

from typing import TYPE_CHECKING

from uwaga.inspection.lengths import LengthTable
from uwaga.inspection.pictures import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKERS = "osD^vPX*"
DODGE = 0.06  # of a bucket, so that error bars do not hide each other


def draw_lengths(table: LengthTable, *, title: str = "") -> Figure:
    """BLEU above, the length of the output over that of the reference below; bars are 95% intervals.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    figure = new_figure(7.0, 5.0)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    middle = (len(table.systems) - 1) / 2
    for number, name in enumerate(table.systems):
        cells = [bucket.systems[name] for bucket in table.buckets]
        positions = [at + DODGE * (number - middle) for at in range(len(cells))]
        bars = [cell.interval or 0.0 for cell in cells]
        shown = bars if any(bars) else None
        style = {"marker": MARKERS[number % len(MARKERS)], "markersize": 4, "linewidth": 1.3}
        colour = f"C{number % 10}"
        upper.errorbar(
            positions,
            [cell.bleu for cell in cells],
            yerr=shown,
            label=name,
            color=colour,
            capsize=2,
            elinewidth=0.8,
            **style,
        )
        lower.plot(positions, [cell.ratio for cell in cells], color=colour, **style)
    lower.axhline(1.0, color="grey", linewidth=0.8, linestyle=":")
    lower.set_xticks(
        range(len(table.buckets)), [f"{bucket.label}\n{bucket.lines:,} lines" for bucket in table.buckets]
    )
    lower.set_xlabel("source length in tokens")
    lower.set_ylabel("length ratio")
    upper.set_ylabel("BLEU")
    upper.grid(axis="y", linewidth=0.4, alpha=0.6)
    upper.legend(frameon=False, fontsize=9)
    if title:
        upper.set_title(title, fontsize=10)
    return figure
