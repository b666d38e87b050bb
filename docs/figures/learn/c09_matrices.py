"""The 32 attention matrices of the bundled model for one sentence."""

import numpy as np
from drawing import Drawing

import uwaga

CELL = 5
LEVELS = 10


def matrix(figure: Drawing, x: float, y: float, table: np.ndarray) -> None:
    """Draw weights (queries, keys) as squares whose colour is as strong as the weight."""
    rows, columns = table.shape
    figure.rectangle(x - 1, y - 1, CELL * columns + 2, CELL * rows + 2, "grid")
    strength = np.rint(table * LEVELS)
    for level in range(1, LEVELS + 1):
        squares = "".join(
            f"M{x + CELL * column:g} {y + CELL * row:g}h{CELL}v{CELL}h-{CELL}z"
            for row, column in np.argwhere(strength == level)
        )
        if squares:
            figure.parts.append(f'<path class="accent" fill-opacity="{level / LEVELS:g}" d="{squares}"/>')


def draw() -> Drawing:
    """Draw the encoder's matrices on the left, the decoder's and the cross-attention's on the right."""
    attentions = uwaga.load().translate("A dog chases a cat.", attention="all").attentions
    assert attentions is not None
    title = "The 32 attention matrices of the bundled model for the sentence A dog chases a cat"
    figure = Drawing(400, 300, title, model=True)
    for kind, left, top in (("encoder", 4, 52), ("decoder", 204, 52), ("cross", 204, 196)):
        matrices: np.ndarray = getattr(attentions, kind)  # (layers, heads, queries, keys)
        figure.text(left, top - 32, "cross-attention" if kind == "cross" else kind, "bold")
        for layer, heads in enumerate(matrices):
            y = top + 54 * layer
            figure.text(left + 8, y + 24, f"{layer + 1}", "end small soft")
            for head, table in enumerate(heads):
                x = left + 16 + 45 * head
                if layer == 0:
                    figure.text(x + 20, y - 8, str(head + 1), "middle small soft")
                matrix(figure, x, y, table)
    return figure


if __name__ == "__main__":
    draw().save()
