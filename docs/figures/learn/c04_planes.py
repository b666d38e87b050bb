"""Five scores of one query over the plane of keys, with the scores of three keys."""

import math
from collections.abc import Callable

from drawing import Drawing

KEYS = ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0))
POSITIONS = (1.0, 0.0, 2.0)
"""Entries of ``W s``, where W has the rows (1, -1), (0, 1) and (2, 1): the scores of the three positions."""
CELLS, SIDE, FARTHEST, LARGEST = 12, 168, 2.0, 4.0
# the query is (1, 0), and the first two rows of W turn it into (1, -1)
SCORES: tuple[tuple[str, str, Callable[[float, float], float] | None], ...] = (
    ("dot", "sᵀ h", lambda x, _: x),
    ("scaled dot", "sᵀ h / √2", lambda x, _: x / math.sqrt(2)),
    ("general", "sᵀ W h", lambda x, y: x - y),
    ("concat", "vᵀ tanh(W [s; h])", lambda x, y: math.tanh(1 + x) + math.tanh(y)),
    ("location", "(W s) at the position", None),
)


def plane(figure: Drawing, left: float, top: float, score: Callable[[float, float], float] | None) -> None:
    """Draw the plane of keys, each cell with the colour of its score; without a score it stays empty."""
    figure.rectangle(left, top, SIDE, SIDE, "grid")
    cell, step = SIDE / CELLS, 2 * FARTHEST / CELLS
    for row in range(CELLS if score else 0):
        for column in range(CELLS):
            assert score is not None
            value = score(-FARTHEST + (column + 0.5) * step, FARTHEST - (row + 0.5) * step)
            look = "accent" if value > 0 else "second"
            alpha = round(0.85 * abs(value) / LARGEST, 2)
            if alpha:
                figure.rectangle(left + column * cell, top + row * cell, cell, cell, look, alpha)


def draw() -> Drawing:
    """Draw five planes and the query as an arrow from the origin of each."""
    figure = Drawing(
        400,
        724,
        "Five scores of the query (1, 0) over the plane of keys: stripes, paler stripes, tilted stripes, a "
        "curved surface, and a plane without colour",
    )
    for column, (name, formula, score) in enumerate(SCORES):
        left, top = 14 + column % 2 * 204, 56 + column // 2 * 234
        figure.text(left, top - 28, name, "bold")
        figure.text(left, top - 10, formula, "small soft")
        plane(figure, left, top, score)
        centre, unit = (left + SIDE / 2, top + SIDE / 2), SIDE / (2 * FARTHEST)
        figure.line(centre, (centre[0] + unit, centre[1]), arrow=True)
        figure.text(centre[0] + 12, centre[1] - 6, "s", "small")
        for index, ((x, y), (right, down, look)) in enumerate(
            zip(KEYS, ((2, 22, "middle"), (-4, -10, "end"), (46, -10, "end")), strict=True)
        ):
            value = score(x, y) if score else POSITIONS[index]
            x, y = centre[0] + unit * x, centre[1] - unit * y
            figure.text(x, y + 5, "●", "middle small")
            label = f"h{'₁₂₃'[index]}: {value:.2f}".replace("-", "−")
            figure.text(x + right, y + down, label, f"{look} small")
    left, top = 14 + 204, 56 + 2 * 234
    for column, (name, look, alpha) in enumerate(
        (("score 4", "accent", 0.85), ("score 2", "accent", 0.425), ("score −2", "second", 0.425))
    ):
        figure.rectangle(left, top + 34 * column, 24, 24, look, alpha)
        figure.text(left + 34, top + 34 * column + 17, name, "small")
    figure.text(left, top + 132, "Planes of keys with", "small soft")
    figure.text(left, top + 150, "coordinates −2 to 2", "small soft")
    return figure


if __name__ == "__main__":
    draw().save()
