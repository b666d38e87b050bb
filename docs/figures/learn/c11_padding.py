"""A padding mask hides columns; a mask of rows leaves weight on the padding."""

import torch
from drawing import Drawing

from uwaga.models.layers.attention import masked_softmax

PIECES = ["I", "sleep", "</s>", "<pad>"]


def draw() -> Drawing:
    """Draw the weights of equal scores with the mask on the columns, and on the rows."""
    real = torch.tensor([True, True, True, False])
    scores = torch.zeros(4, 4)
    figure = Drawing(
        680,
        214,
        "With hidden columns no piece gives weight to the padding; with hidden rows real pieces do",
    )
    for x, name, mask in (
        (70, "columns hidden: correct", real[None, :]),
        (420, "rows hidden: wrong", real[:, None]),
    ):
        figure.text(x + 104, 22, name, "middle bold")
        figure.table(x, 64, masked_softmax(scores, mask).tolist(), PIECES, PIECES, cell=52)
    figure.rectangle(70 + 156, 64, 52, 120, "second-line")
    figure.rectangle(420 + 156, 64, 52, 90, "second-line")
    figure.text(174, 204, "the padding gets no weight", "middle small soft")
    figure.text(524, 204, "the padding gets weight", "middle small soft")
    return figure


if __name__ == "__main__":
    draw().save()
