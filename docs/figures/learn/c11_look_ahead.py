"""The look-ahead mask by hand: scores, scores with minus infinity, weights."""

import numpy as np
from drawing import Drawing

SCORES = np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.6, 0.2, 0.1], [0.1, 0.3, 0.6, 0.1], [0.1, 0.3, 0.3, 0.3]])
CELL = 46


def draw() -> Drawing:
    """Draw the three tables from left to right."""
    masked = np.where(np.tri(4, dtype=bool), SCORES, -np.inf)
    weights = np.exp(masked) / np.exp(masked).sum(axis=1, keepdims=True)
    figure = Drawing(
        680,
        206,
        "Four rows of scores, minus infinity above the diagonal, and the weights, zero above it",
    )
    positions = list("1234")
    for x, name, values in (
        (30, "scores", SCORES),
        (252, "after the mask", masked),
        (474, "weights", weights),
    ):
        figure.text(x + 2 * CELL, 22, name, "middle soft")
        for index, position in enumerate(positions):
            figure.text(x + (index + 0.5) * CELL, 50, position, "middle small")
            figure.text(x - 8, 58 + 30 * index + 20, position, "end small")
        for (row, column), value in np.ndenumerate(values):
            left, top = x + column * CELL, 58 + 30 * row
            figure.rectangle(left, top, CELL, 30, "grid")
            if name == "weights" and value > 0:
                figure.rectangle(left, top, CELL, 30, "accent", 0.75 * value)
            label = "−∞" if np.isinf(value) else f"{value:.2f}" if name == "weights" else f"{value:.1f}"
            look = "middle small" if column <= row else "middle small soft"
            figure.text(left + CELL / 2, top + 20, label, look)
    figure.line((218, 118), (234, 118), arrow=True)
    figure.line((440, 118), (456, 118), arrow=True)
    figure.text(30 + 4 * CELL + 22, 198, "mask", "middle small soft")
    figure.text(252 + 4 * CELL + 22, 198, "softmax", "middle small soft")
    return figure


if __name__ == "__main__":
    draw().save()
