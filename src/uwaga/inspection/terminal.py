"""An alignment matrix as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from uwaga.inspection.alignment import Alignment

SHADES = ((0.05, "   "), (0.2, "░░ "), (0.4, "▒▒ "), (0.7, "▓▓ "), (float("inf"), "██ "))
"""What stands for a weight below each bound: readable without colours too."""

COLUMN = 3


def heat_map(alignment: Alignment, width: int) -> Text:
    """Target tokens downwards, source tokens across (read from top to bottom), as shades of each weight.

    Args:
        alignment: what to show.
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
    """The heat maps of several alignments, one below the other; see :func:`heat_map`."""
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
