"""The whole Transformer, both stacks with all boxes; later chapters draw it with boxes lit or left out."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from drawing import Drawing

Norm = Literal["pre", "post"]

ARRAYS = {
    "source embedding": "encoder.embedding",
    "source positions": "encoder.embedding",
    "encoder self-attention": "encoder.1.attention",
    "encoder feed-forward": "encoder.1.feed_forward",
    "encoder norm": "encoder.output",
    "target embedding": "decoder.embedding",
    "target positions": "decoder.embedding",
    "decoder self-attention": "decoder.1.attention",
    "cross-attention": "cross.1.attention",
    "decoder feed-forward": "decoder.1.feed_forward",
    "decoder norm": "decoder.output",
    "output": "logits",
    "softmax": "logits",
}
"""The arrays of :mod:`uwaga.inspection.insight` that contain the results of the boxes, by name of the box."""

READ_FROM_STREAM = {"self-attention": ("query", "key", "value"), "cross-attention": ("query",)}
"""The arrays that an attention computes from the stream beside it."""

UNIT = 108
"""Height of a sublayer."""
REACH = 92
"""Distance from the stream to the middle of the boxes beside it."""
WIDE, HIGH = 124, 32


class Stacks:
    """Draws boxes and streams.

    Args:
        figure: to draw on.
        norm: where the norms stand.
        highlighted: names of boxes to draw in colour.
        missing: names of boxes that the model does not have, drawn faintly.
    """

    def __init__(
        self,
        figure: Drawing,
        norm: Norm = "pre",
        highlighted: Collection[str] = (),
        missing: Collection[str] = (),
    ) -> None:
        self.figure, self.norm, self.highlighted, self.missing = figure, norm, highlighted, missing

    def box(self, x: float, y: float, label: str, name: str, wide: float = WIDE, high: float = HIGH) -> None:
        """Draw a box around a point."""
        attribute = f' data-array="{ARRAYS[name]}"' if name in ARRAYS else ""
        self.figure.parts.append(f'<g{attribute} opacity="{0.25 if name in self.missing else 1}">')
        self.figure.rectangle(x - wide / 2, y - high / 2, wide, high)
        if name in self.highlighted:
            self.figure.rectangle(x - wide / 2, y - high / 2, wide, high, "accent", 0.35)
        self.figure.text(x, y + 5, label, "middle" if high > 28 else "middle small")
        self.figure.parts.append("</g>")

    def plus(self, x: float, y: float, name: str = "") -> None:
        """Draw the place where a vector is added to the stream."""
        self.figure.parts.append(f'<g opacity="{0.25 if name in self.missing else 1}">')
        self.figure.circle(x, y, 9, "box")
        self.figure.line((x - 5, y), (x + 5, y))
        self.figure.line((x, y - 5), (x, y + 5))
        self.figure.parts.append("</g>")

    def sublayer(self, x: float, y: float, label: str, name: str, side: int) -> None:
        """Draw a sublayer beside the stream at ``x``, from ``y`` upwards; ``side`` 1 is right, -1 left."""
        figure, column_x = self.figure, x + side * REACH
        foot, top = y - 8, y - UNIT + 14
        self.figure.parts.append(f'<g opacity="{0.25 if name in self.missing else 1}">')
        centre = y - 72 if self.norm == "pre" else y - 50
        if self.norm == "pre":
            figure.line((x, foot), (column_x, foot), (column_x, y - 20), arrow=True)
            parts = READ_FROM_STREAM.get(label, ("",))
            for index, part in enumerate(parts):
                across = column_x + 16 * (index - (len(parts) - 1) / 2)
                look = f"{part}-line" if part else "line"
                figure.line((across, y - 44), (across, centre + HIGH / 2), look=look, arrow=True)
        else:
            top = y - UNIT + 34
            figure.line((x, foot), (column_x, foot), (column_x, centre + HIGH / 2), arrow=True)
        figure.line((column_x, centre - HIGH / 2), (column_x, top), (x + side * 10, top), arrow=True)
        self.figure.parts.append("</g>")
        if self.norm == "pre":
            self.box(column_x, y - 32, "norm", name, 64, 24)
        self.box(column_x, centre, label, name)
        self.plus(x, top, name)
        if self.norm == "post":
            self.box(x, top - 26, "norm", name, 64, 24)


def transformer(
    figure: Drawing,
    *,
    norm: Norm = "pre",
    layers: tuple[str, str] = ("× 4", "× 2"),
    lit: Collection[str] = (),
    missing: Collection[str] = (),
    top: float = 16,
) -> None:
    """Draw both stacks, 500 wide and 716 high; names of boxes are those of ``ARRAYS``.

    Args:
        figure: to draw on.
        norm: where the norms stand.
        layers: how often the blocks of encoder and decoder are repeated.
        lit: boxes to draw in colour.
        missing: boxes to draw faintly.
        top: of the drawing.
    """
    stacks = Stacks(figure, norm, lit, missing)
    left, right, ground = 50, 450, top + 560
    ends = {}
    for x, side, source, layer_count in ((left, 1, True, layers[0]), (right, -1, False, layers[1])):
        word = "source" if source else "target"
        first, count = ("encoder", 2) if source else ("decoder", 3)
        roof, column_x, reading = ground - count * UNIT, x + side * REACH, "" if source else " end"
        ends[source] = roof - 20 if source else top + 48
        figure.parts.append(f'<g opacity="{0.25 if f"{word} embedding" in missing else 1}">')
        pane = x - 32 if source else x - REACH - WIDE / 2 - 14
        figure.rectangle(pane, roof - 4, REACH + WIDE / 2 + 46, ground - roof + 4, "grid")
        look = "source-line" if source else "target-line"
        figure.line((x, ground + 110), (x, ends[source]), look=look, arrow=True)
        figure.line((column_x - side * WIDE / 2, ground + 42), (x + side * 10, ground + 42), arrow=True)
        figure.text(column_x + (14 if source else 0), roof - 14, f"{first} block {layer_count}", "middle")
        figure.text(x + side * 12, ground + 19, "residual stream", "soft small" + reading)
        figure.text(x + side * 42, ground + 93, "embedding, times √d", "soft small" + reading)
        text = "source pieces" if source else "target so far"
        figure.text(x - side * 32, ground + 126, text, f"bold {word}{reading}")
        figure.parts.append("</g>")
        stacks.box(x, ground + 88, "E", f"{word} embedding", 64, 28)
        stacks.plus(x, ground + 42, f"{word} positions")
        stacks.box(column_x, ground + 42, "positions", f"{word} positions")
        stacks.sublayer(x, ground, "self-attention", f"{first} self-attention", side)
        if not source:
            stacks.sublayer(x, ground - UNIT, "cross-attention", "cross-attention", side)
        stacks.sublayer(x, ground - (count - 1) * UNIT, "feed-forward", f"{first} feed-forward", side)
    if norm == "pre":
        stacks.box(left, ends[True] - 14, "norm", "encoder norm", 64, 28)
        stacks.box(right, top + 186, "norm", "decoder norm", 64, 28)
    foot = ends[True] - (28 if norm == "pre" else 0)
    cross = ground - UNIT - (72 if norm == "pre" else 50)
    gap, edge = 250, right - REACH - WIDE / 2
    figure.parts.append(f'<g opacity="{0.25 if "cross-attention" in missing else 1}">')
    figure.line(
        (left, foot),
        (left, ends[True] - 52),
        (gap, ends[True] - 52),
        (gap, cross),
        (edge - 20, cross),
        look="source-line",
    )
    for part, y in (("key", cross - 6), ("value", cross + 6)):
        figure.line((edge - 20, cross), (edge - 14, y), (edge, y), look=f"{part}-line", arrow=norm == "pre")
    figure.text(left + 8, ends[True] - 76, "memory: keys and values", "small source")
    figure.text(left + 8, ends[True] - 60, "for every decoder block", "small source")
    figure.parts.append("</g>")
    for y, label, name, wide in (
        (top + 138, "Eᵀ", "output", 64),
        (top + 90, "softmax", "softmax", 96),
    ):
        stacks.box(right, y, label, name, wide, 28)
    figure.text(right - 40, top + 143, "logits from the same table", "soft small end")
    figure.parts.append(f'<g opacity="{0.25 if "softmax" in missing else 1}">')
    figure.text(right, top + 36, "next piece", "middle")
    figure.parts.append("</g>")


def draw() -> Drawing:
    """Draw the bundled model: four encoder and two decoder blocks, norms before the sublayers."""
    figure = Drawing(
        500,
        716,
        "The Transformer: an encoder and a decoder stack, each a stream to which sublayers add",
    )
    transformer(figure)
    for y, part in ((22, "query"), (40, "key"), (58, "value")):
        figure.line((12, y - 4), (34, y - 4), look=f"{part}-line")
        figure.text(42, y, part, f"small {part}")
    return figure


if __name__ == "__main__":
    draw().save()
