"""Which positions may look at which: one table for BERT and for GPT-2, three for T5 and BART."""

import torch
from drawing import Drawing

from uwaga.models.layers.attention import causal_mask

CELL = 24


def _mask(figure: Drawing, x: float, y: float, mask: torch.Tensor, title: str, look: str) -> None:
    rows, columns = mask.shape
    figure.text(x - 14, y - 26, title, "small")
    for column in range(columns):
        figure.text(x + (column + 0.5) * CELL, y - 8, str(column + 1), "middle small soft")
    for row in range(rows):
        figure.text(x - 6, y + row * CELL + 16, str(row + 1), "end small soft")
        for column in range(columns):
            cell = (x + column * CELL, y + row * CELL, CELL, CELL)
            figure.rectangle(*cell, "grid")
            if mask[row, column]:
                figure.rectangle(*cell, look, 0.5)


def draw() -> Drawing:
    """Draw a row of tables for the models of one stack, and one for those of two."""
    title = "Masks of the family: all cells for BERT, a triangle for GPT-2, and three tables for T5 and BART"
    figure = Drawing(400, 356, title)
    full = torch.ones(4, 4, dtype=torch.bool)
    figure.text(16, 24, "BERT", "bold")
    _mask(figure, 32, 72, full, "self-attention", "source")
    figure.text(200, 24, "GPT-2", "bold")
    _mask(figure, 216, 72, causal_mask(4, 4), "self-attention", "target")
    figure.text(16, 206, "T5, BART: source of 4 pieces, target of 3", "bold")
    _mask(figure, 32, 254, full[:4], "encoder", "source")
    _mask(figure, 168, 254, causal_mask(3, 3), "decoder", "target")
    _mask(figure, 282, 254, full[:3], "cross-attention", "accent")
    return figure


if __name__ == "__main__":
    draw().save()
