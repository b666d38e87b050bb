"""A whole translation of the bundled model: what each step reads, where it looks, and what it writes."""

from drawing import Drawing

import uwaga
from uwaga.inspection import look_inside

TEXT = "I want to buy a car."
CELL, LEFT, TOP = 38, 76, 66


def draw() -> Drawing:
    """Draw a row for each step, with the weights (step, source) of the last block's cross-attention."""
    translator = uwaga.load()
    insight = look_inside(translator, TEXT, names=["cross.2.weights"])
    weights = insight.arrays["cross.2.weights"].mean(axis=0)  # of the heads
    source, reads = ([piece.replace("▁", "") for piece in side] for side in (insight.source, insight.fed))
    writes = [*reads[1:], "</s>"]
    right = LEFT + CELL * len(source)
    title = "Seven steps of a translation: each reads a piece, looks at the source, and writes the next piece"
    figure = Drawing(right + 90, TOP + 30 * len(reads) + 12, title, model=True)
    figure.text(LEFT - 10, 22, "read", "end soft")
    figure.text((LEFT + right) / 2, 22, "looks at", "middle soft")
    figure.text(right + 14, 22, "writes", "soft")
    for column, piece in enumerate(source):
        figure.text(LEFT + (column + 0.5) * CELL, TOP - 10, piece, "middle small source")
    for row, line in enumerate(weights):
        y = TOP + 30 * row
        figure.text(LEFT - 10, y + 20, reads[row], "end target" if row else "end soft")
        for column, weight in enumerate(line):
            figure.rectangle(LEFT + column * CELL, y, CELL, 30, "grid")
            figure.rectangle(LEFT + column * CELL, y, CELL, 30, "source", 0.8 * float(weight))
            if weight >= 0.1:
                figure.text(LEFT + (column + 0.5) * CELL, y + 20, f"{weight:.1f}", "middle small")
        figure.text(right + 14, y + 20, writes[row], "bold target")
    return figure


if __name__ == "__main__":
    draw().save()
