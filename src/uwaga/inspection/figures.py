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


FIGURE_SUFFIXES = (".png", ".svg", ".pdf")
DOTS_PER_INCH = 150


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a given size in inches, which uses no global state, so any thread may draw.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("drawing needs matplotlib: pip install 'uwaga[inspect]'") from None
    return Figure(figsize=(width, height), layout="constrained")


def check_format(path: Path) -> None:
    """Raise an error if a file name does not have the suffix of a known format.

    Raises:
        SettingsError: the suffix is unknown; the message lists the known suffixes.
    """
    if path.suffix.lower() not in FIGURE_SUFFIXES:
        raise SettingsError(f"{path}: the name of a figure must end in one of {', '.join(FIGURE_SUFFIXES)}")


def check_drawing(path: Path) -> None:
    """Raise an error if a figure cannot be drawn, before time is spent on computing its contents.

    Raises:
        SettingsError: the file name has no known suffix.
        MissingExtraError: matplotlib is not installed.
    """
    check_format(path)
    new_figure(1, 1)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure atomically, in the format that the suffix names; equal figures give equal bytes.

    Raises:
        SettingsError: the file name has no known suffix.
        DataError: the file cannot be written.
    """
    check_format(path)
    from matplotlib import rc_context

    file_format = path.suffix.lower().removeprefix(".")
    dates = {"svg": "Date", "pdf": "CreationDate"}
    with rc_context({"svg.hashsalt": "uwaga"}), new_file(path) as file:
        metadata = {dates[file_format]: None} if file_format in dates else None
        figure.savefig(file, format=file_format, dpi=DOTS_PER_INCH, metadata=metadata)


CELL_SIZE = 0.32  # inches
LETTER_WIDTH = 0.085
MIN_INCHES = 2.0
MAX_INCHES = 100.0  # matplotlib refuses figures of more than about 60,000 dots


def draw_alignments(alignments: Sequence[Alignment]) -> Figure:
    """Return a figure of matrices side by side, with target tokens as rows and source tokens as columns.

    White is 0 and black is 1; in an attribution, black is the maximum, and red is negative.

    Raises:
        SettingsError: there is nothing to draw.
        MissingExtraError: matplotlib is not installed.
    """
    if not alignments:
        raise SettingsError("there is no alignment to draw")
    widths = [
        max(MIN_INCHES, CELL_SIZE * len(alignment.source) + LETTER_WIDTH * _longest(alignment.target))
        for alignment in alignments
    ]
    height = max(
        CELL_SIZE * len(alignment.target)
        + LETTER_WIDTH * _longest(alignment.source)
        + (0.4 if alignment.title else 0.1)
        for alignment in alignments
    )
    figure = new_figure(min(sum(widths), MAX_INCHES), min(max(height, MIN_INCHES), MAX_INCHES))
    panels = figure.subplots(1, len(alignments), squeeze=False, width_ratios=widths)[0]
    for axes, alignment in zip(panels, alignments, strict=True):
        _draw_matrix(axes, alignment)
    return figure


def _draw_matrix(axes: Axes, alignment: Alignment) -> None:
    # Cells are rectangles, not pixels, so that SVG and PDF stay sharp; light lines separate them.
    is_signed = alignment.kind == "attribution"
    colours, minimum = ("RdGy", -1.0) if is_signed else ("Greys", 0.0)
    axes.pcolormesh(
        alignment.shades, cmap=colours, vmin=minimum, vmax=1.0, edgecolors="#dddddd", linewidth=0.4
    )
    axes.invert_yaxis()
    axes.set_aspect("equal")
    axes.xaxis.tick_top()
    axes.set_xticks(
        [column + 0.5 for column in range(len(alignment.source))], escape_dollars(alignment.source)
    )
    axes.tick_params(length=0, labelsize=9)
    for label in axes.get_xticklabels():
        label.set_rotation(90)
    axes.set_yticks([row + 0.5 for row in range(len(alignment.target))], escape_dollars(alignment.target))
    if alignment.title:
        axes.set_title(escape_dollars([alignment.title])[0], fontsize=10)


def escape_dollars(labels: Sequence[str]) -> list[str]:
    """Return labels with escaped dollar signs, which matplotlib would read as mathematics."""
    return [label.replace("$", r"\$") for label in labels]


def _longest(labels: Sequence[str]) -> int:
    return max(map(len, labels))


MAX_ROW_INCHES = 20.0  # inches of all panels of a row
MAX_CELL, MIN_CELL, MIN_LABELLED_CELL = 0.2, 0.03, 0.085  # inches
SMALL_FONT_LETTER_WIDTH = 0.06  # inches
TITLE_HEIGHT, MARGIN = 0.22, 0.08
MAX_HEIGHT = 100.0  # matplotlib refuses figures of more than about 60,000 dots
MAX_SHAPES = 20_000
"""Maximum number of cells drawn as shapes; more are drawn as pixels to keep SVG files small."""


def draw_matrices(alignments: Sequence[Alignment]) -> Figure:
    """Return a figure of many small matrices: one row per layer, one column per head.

    Rows, columns and colours are as in :func:`uwaga.inspection.draw_alignments`. The first matrix of a row
    and the first row of a kind are labelled if cells are large enough for letters.

    Raises:
        SettingsError: there is nothing to draw.
        MissingExtraError: matplotlib is not installed.
    """
    if not alignments:
        raise SettingsError("there is no matrix to draw")
    rows = [list(row) for _, row in groupby(alignments, key=_row_key)]
    columns = max(map(len, rows))
    max_tokens = max(len(alignment.source) for alignment in alignments)
    cell = min(MAX_CELL, max(MIN_CELL, MAX_ROW_INCHES / (columns * max_tokens)))
    has_labels = cell >= MIN_LABELLED_CELL
    column_labels = [
        has_labels and (not index or _column_key(row[0]) != _column_key(rows[index - 1][0]))
        for index, row in enumerate(rows)
    ]
    heights = [
        cell * len(row[0].target)
        + TITLE_HEIGHT
        + (SMALL_FONT_LETTER_WIDTH * _longest(row[0].source) if has_column_labels else 0)
        for row, has_column_labels in zip(rows, column_labels, strict=True)
    ]
    label_width = (
        SMALL_FONT_LETTER_WIDTH * max(_longest(alignment.target) for alignment in alignments)
        if has_labels
        else 0
    )
    figure = new_figure(label_width + columns * (cell * max_tokens + MARGIN), min(sum(heights), MAX_HEIGHT))
    panels = figure.subplots(len(rows), columns, squeeze=False, height_ratios=heights)
    draws_shapes = sum(alignment.weights.size for alignment in alignments) <= MAX_SHAPES
    for row_panels, row, has_column_labels in zip(panels, rows, column_labels, strict=True):
        for axes in row_panels[len(row) :]:
            axes.set_axis_off()
        for column, (axes, alignment) in enumerate(zip(row_panels, row, strict=False)):
            name = _title(alignment, cell * max_tokens)
            _draw_panel(
                axes,
                alignment,
                name,
                72 * cell * 0.7 if has_labels else 0,
                column == 0,
                has_column_labels,
                draws_shapes,
            )
    return figure


def _row_key(alignment: Alignment) -> tuple[str, str, int | None]:
    """Return the model, kind and layer that the matrices of a row share."""
    model = alignment.title.rsplit(f"{alignment.kind}, layer", 1)[0]
    return model, alignment.kind, alignment.layer


def _column_key(alignment: Alignment) -> tuple[str, tuple[str, ...]]:
    return alignment.kind, alignment.source


def _title(alignment: Alignment, width: float) -> str:
    """Return the longest title of a matrix that fits into ``width`` inches."""
    number = f"{alignment.layer}.{'mean' if alignment.head is None else alignment.head}"
    return next(
        (
            name
            for name in (alignment.title, f"{alignment.kind} {number}")
            if SMALL_FONT_LETTER_WIDTH * len(name) < width
        ),
        number,
    )


def _draw_panel(
    axes: Axes,
    alignment: Alignment,
    title: str,
    size: float,
    has_row_labels: bool,
    has_column_labels: bool,
    draws_shapes: bool,
) -> None:
    edges: Any = {"edgecolors": "#dddddd", "linewidth": 0.2} if draws_shapes and size else {}
    axes.pcolormesh(alignment.weights, cmap="Greys", vmin=0.0, vmax=1.0, rasterized=not draws_shapes, **edges)
    axes.invert_yaxis()
    axes.set_aspect("equal")
    axes.xaxis.tick_top()
    axes.tick_params(length=0, labelsize=min(size, 8), pad=1)
    axes.set_xticks([])
    axes.set_yticks([])
    if size and has_column_labels:
        axes.set_xticks(
            [column + 0.5 for column in range(len(alignment.source))], escape_dollars(alignment.source)
        )
    if size and has_row_labels:
        axes.set_yticks([row + 0.5 for row in range(len(alignment.target))], escape_dollars(alignment.target))
    for text in axes.get_xticklabels():
        text.set_rotation(90)
    for spine in axes.spines.values():
        spine.set_linewidth(0.4)
    axes.set_title(escape_dollars([title])[0], fontsize=6, pad=2)


MARKERS = "osD^vPX*"
OFFSET = 0.06
"""Horizontal offset between systems, as a share of a bucket, so that error bars do not overlap."""


def draw_lengths(table: LengthTable, *, title: str = "") -> Figure:
    """Return a figure of BLEU by source length, with the length ratio below it and 95% intervals.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    figure = new_figure(7.0, 5.0)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    middle = (len(table.systems) - 1) / 2
    for system_index, name in enumerate(table.systems):
        cells = [bucket.systems[name] for bucket in table.buckets]
        positions = [index + OFFSET * (system_index - middle) for index in range(len(cells))]
        bars = [cell.interval or 0.0 for cell in cells]
        error_bars = bars if any(bars) else None
        style = {"marker": MARKERS[system_index % len(MARKERS)], "markersize": 4, "linewidth": 1.3}
        colour = f"C{system_index % 10}"
        upper.errorbar(
            positions,
            [cell.bleu for cell in cells],
            yerr=error_bars,
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
"""The upper bound of each range of weights, with characters that show the range without colours."""

COLUMN_WIDTH = 3


def heat_map(alignment: Alignment, width: int) -> Text:
    """Return a matrix as shaded text, with target tokens as rows and source tokens as columns.

    Source tokens are written vertically.

    Args:
        alignment: matrix to draw.
        width: width of the terminal in columns; wider matrices are split into several blocks.
    """
    margin = max(map(cell_len, alignment.target)) + 1
    columns = max(1, (width - margin) // COLUMN_WIDTH)
    blocks = []
    for start in range(0, len(alignment.source), columns):
        lines = list(_block_lines(alignment, margin, start, start + columns))
        blocks.append(Text("\n").join(lines))
    title = [Text(alignment.title, style="bold")] if alignment.title else []
    return Text("\n").join([*title, Text("\n\n").join(blocks)])


def heat_maps(alignments: Sequence[Alignment], width: int) -> Text:
    """Return the heat maps of several matrices, separated by blank lines; see :func:`heat_map`."""
    return Text("\n\n").join(heat_map(alignment, width) for alignment in alignments)


def _block_lines(alignment: Alignment, margin: int, start: int, stop: int) -> Iterator[Text]:
    labels = alignment.source[start:stop]
    height = max(map(len, labels))
    for row_index in range(height):
        line = Text(" " * margin)
        for label in labels:
            index = row_index - (height - len(label))  # labels end just above their column
            letter = label[index] if index >= 0 else " "
            line.append(letter + " " * max(COLUMN_WIDTH - cell_len(letter), 0))
        yield _strip_trailing_space(line)
    for row, label in enumerate(alignment.target):
        line = Text(" " * (margin - 1 - cell_len(label)) + label + " ")
        for weight in alignment.shades[row, start:stop].tolist():
            shade = next(shade for bound, shade in SHADES if abs(weight) < bound)
            line.append(shade, style=_style(weight))
        yield _strip_trailing_space(line)


def _style(weight: float) -> str:
    if weight < -SHADES[0][0]:
        return "red"
    return "bright_yellow" if weight >= 0.4 else "yellow" if weight >= 0.2 else "blue"


def _strip_trailing_space(line: Text) -> Text:
    line.rstrip()
    return line
