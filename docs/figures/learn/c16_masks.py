"""Which positions may look at which: encoder only, decoder only, encoder-decoder, ProphetNet's streams."""

import torch
from drawing import Drawing

from uwaga.models.layers.attention import causal_mask
from uwaga.models.layers.streams import stream_mask

CELL = 26


def _mask(figure: Drawing, x: float, y: float, mask: torch.Tensor, title: str, last: str = "") -> None:
    rows, columns = mask.shape
    figure.text(x - 14, y - 30, title, "small")
    for column in range(columns):
        name = last if last and column == columns - 1 else str(column + 1)
        figure.text(x + (column + 0.5) * CELL, y - 8, name, "middle small soft")
    for row in range(rows):
        figure.text(x - 8, y + row * CELL + 17, str(row + 1), "end small soft")
        for column in range(columns):
            cell = (x + column * CELL, y + row * CELL, CELL, CELL)
            figure.rectangle(*cell, "grid")
            if mask[row, column]:
                figure.rectangle(*cell, "accent", 0.55)


def draw() -> Drawing:
    """Draw a row of figures for the three kinds of models, and one for the streams."""
    figure = Drawing(
        740,
        412,
        "Masks of the family: all cells, a triangle, three tables of an encoder-decoder, and three streams",
    )
    full = torch.ones(4, 4, dtype=torch.bool)
    figure.text(20, 24, "BERT", "bold")
    _mask(figure, 34, 78, full, "self-attention")
    figure.text(180, 24, "GPT-2", "bold")
    _mask(figure, 194, 78, causal_mask(4, 4), "self-attention")
    figure.text(340, 24, "T5, BART: source of 4 pieces, target of 3", "bold")
    _mask(figure, 354, 78, full, "encoder")
    _mask(figure, 496, 78, causal_mask(3, 3), "decoder")
    _mask(figure, 612, 78, full[:3], "cross-attention")
    figure.text(20, 222, "ProphetNet, decoder: three streams over 4 positions", "bold")
    names = ("stream 0 reads", "stream 1: next piece", "stream 2: from one piece less")
    for index, (mask, name) in enumerate(zip(stream_mask(3, 4, 4), names, strict=True)):
        _mask(figure, 34 + 230 * index, 276, mask, name, "own")
    figure.text(
        20,
        400,
        "Rows are queries, columns keys; “own” is the stream's own vector.",
        "small soft",
    )
    return figure


if __name__ == "__main__":
    draw().save()
