"""Figures of attention matrices and of quality by length, and heat maps for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.text import Text

from uwaga.errors import MissingExtraError, SettingsError
from uwaga.files.atomic import new_file
from uwaga.inspection.lengths import LengthTable
from uwaga.inspection.matrices import Alignment

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


FORMATS = (".png", ".svg", ".pdf")
DOTS_PER_INCH = 150


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches, without global state, so that threads may draw.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("drawing needs matplotlib: pip install 'uwaga[inspect]'") from None
    return Figure(figsize=(width, height), layout="constrained")


def check_format(path: Path) -> None:
    """Check that a file name has the suffix of a known format.

    Raises:
        SettingsError: names the known suffixes.
    """
    if path.suffix.lower() not in FORMATS:
        raise SettingsError(f"{path}: the name of a figure must end in one of {', '.join(FORMATS)}")


def check_drawing(path: Path) -> None:
    """Check that a figure can be drawn, before the work for it begins.

    Raises:
        SettingsError: the file name has no known suffix.
        MissingExtraError: matplotlib is not installed.
    """
    check_format(path)
    new_figure(1, 1)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure atomically, in the format of its suffix; the same figure gives the same bytes.

    Raises:
        SettingsError: the file name has no known suffix.
        DataError: the file cannot be written.
    """
    check_format(path)
    from matplotlib import rc_context

    kind = path.suffix.lower().removeprefix(".")
    dates = {"svg": "Date", "pdf": "CreationDate"}
    with rc_context({"svg.hashsalt": "uwaga"}), new_file(path) as file:
        metadata = {dates[kind]: None} if kind in dates else None
        figure.savefig(file, format=kind, dpi=DOTS_PER_INCH, metadata=metadata)


CELL_SIZE = 0.32  # inches
LETTER_WIDTH = 0.085
LEAST = 2.0
LARGEST = 100.0  # beyond some 60,000 dots matplotlib refuses


def draw_alignments(alignments: Sequence[Alignment]) -> Figure:
    """Draw matrices side by side, with target tokens downwards and source tokens across.

    White is 0 and black is 1; in an attribution black is the largest value, and red is negative.

    Raises:
        SettingsError: there is nothing to draw.
        MissingExtraError: matplotlib is not installed.
    """
    if not alignments:
        raise SettingsError("no alignment to draw")
    widths = [
        max(LEAST, CELL_SIZE * len(one.source) + LETTER_WIDTH * _longest(one.target)) for one in alignments
    ]
    height = max(
        CELL_SIZE * len(one.target) + LETTER_WIDTH * _longest(one.source) + (0.4 if one.title else 0.1)
        for one in alignments
    )
    figure = new_figure(min(sum(widths), LARGEST), min(max(height, LEAST), LARGEST))
    panels = figure.subplots(1, len(alignments), squeeze=False, width_ratios=widths)[0]
    for axes, one in zip(panels, alignments, strict=True):
        _draw_matrix(axes, one)
    return figure


def _draw_matrix(axes: Axes, one: Alignment) -> None:
    # Cells are rectangles, not pixels, so that SVG and PDF stay sharp; light lines separate them.
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
    """Escape dollar signs, which matplotlib reads as mathematics."""
    return [label.replace("$", r"\$") for label in labels]


def _longest(labels: Sequence[str]) -> int:
    return max(map(len, labels))


WIDEST = 20.0  # inches of all panels of a row
LARGEST_CELL, SMALLEST_CELL, READABLE_CELL = 0.2, 0.03, 0.085  # inches
LETTER = 0.06
TITLE_HEIGHT, MARGIN = 0.22, 0.08
TALLEST = 100.0  # beyond some 60,000 dots matplotlib refuses
MOST_SHAPES = 20_000
"""Most cells that are drawn as shapes; more are drawn as pixels, or an SVG would have megabytes."""


def draw_matrices(alignments: Sequence[Alignment]) -> Figure:
    """Draw matrices as small multiples: one row per layer, one column per head.

    Rows, columns and colours are as in :func:`uwaga.inspection.draw_alignments`. The first matrix of a row
    and the first row of a kind have labels if cells are large enough for letters.

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
        cell * len(row[0].target) + TITLE_HEIGHT + (LETTER * _longest(row[0].source) if top else 0)
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
            _draw_panel(axes, one, name, 72 * cell * 0.7 if letters else 0, at == 0, top, shapes)
    return figure


def _row(one: Alignment) -> tuple[str, str, int | None]:
    """Return what the matrices of one row share: model, kind and layer."""
    model = one.title.rsplit(f"{one.kind}, layer", 1)[0]
    return model, one.kind, one.layer


def _side(one: Alignment) -> tuple[str, tuple[str, ...]]:
    return one.kind, one.source


def _title(one: Alignment, room: float) -> str:
    """Return the longest name of a matrix that fits into ``room`` inches."""
    number = f"{one.layer}.{'mean' if one.head is None else one.head}"
    return next((name for name in (one.title, f"{one.kind} {number}") if LETTER * len(name) < room), number)


def _draw_panel(
    axes: Axes, one: Alignment, title: str, size: float, first: bool, top: bool, shapes: bool
) -> None:
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


MARKERS = "osD^vPX*"
DODGE = 0.06  # of a bucket, so that error bars do not hide each other


def draw_lengths(table: LengthTable, *, title: str = "") -> Figure:
    """Draw BLEU against source length, and below it the length ratio; bars are 95% intervals.

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


SHADES = ((0.05, "   "), (0.2, "░░ "), (0.4, "▒▒ "), (0.7, "▓▓ "), (float("inf"), "██ "))
"""Characters for weights below each bound, readable without colours."""

COLUMN = 3


def heat_map(alignment: Alignment, width: int) -> Text:
    """Return a matrix as shaded text, with target tokens downwards and source tokens, turned, across.

    Args:
        alignment: the matrix.
        width: columns of the terminal; a longer source is shown in several blocks.
    """
    margin = max(map(cell_len, alignment.target)) + 1
    room = max(1, (width - margin) // COLUMN)
    blocks = []
    for first in range(0, len(alignment.source), room):
        lines = list(_block(alignment, margin, first, first + room))
        blocks.append(Text("\n").join(lines))
    title = [Text(alignment.title, style="bold")] if alignment.title else []
    return Text("\n").join([*title, Text("\n\n").join(blocks)])


def heat_maps(alignments: Sequence[Alignment], width: int) -> Text:
    """Return the heat maps of several matrices, one below the other; see :func:`heat_map`."""
    return Text("\n\n").join(heat_map(one, width) for one in alignments)


def _block(alignment: Alignment, margin: int, first: int, stop: int) -> Iterator[Text]:
    labels = alignment.source[first:stop]
    deepest = max(map(len, labels))
    for level in range(deepest):
        line = Text(" " * margin)
        for label in labels:
            at = level - (deepest - len(label))  # labels end just above their column
            letter = label[at] if at >= 0 else " "
            line.append(letter + " " * max(COLUMN - cell_len(letter), 0))
        yield _trimmed(line)
    for row, label in enumerate(alignment.target):
        line = Text(" " * (margin - 1 - cell_len(label)) + label + " ")
        for weight in alignment.shades[row, first:stop].tolist():
            shade = next(shade for bound, shade in SHADES if abs(weight) < bound)
            line.append(shade, style=_style(weight))
        yield _trimmed(line)


def _style(weight: float) -> str:
    if weight < -SHADES[0][0]:
        return "red"
    return "bright_yellow" if weight >= 0.4 else "yellow" if weight >= 0.2 else "blue"


def _trimmed(line: Text) -> Text:
    line.rstrip()
    return line
