"""Sinusoids of width 16 for the first twenty positions: fast columns on the left, slow ones on the right."""

import numpy as np
from drawing import Drawing

COUNT, WIDTH, CELL = 20, 16, 22


def sinusoids(count: int, width: int) -> np.ndarray:
    """Return (count, width): sine and cosine in turn, slower from pair to pair."""
    angles = np.arange(count)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(count, width)


def draw() -> Drawing:
    """Draw a row for each position and a column for each number."""
    figure = Drawing(
        400,
        450,
        "Sinusoids of width 16: left columns change sign every few positions, right ones hardly change",
    )
    left, top, height = 40, 50, 17
    for pair in range(WIDTH // 2):
        figure.text(left + (2 * pair + 1) * CELL, 40, str(pair), "middle small")
    for row, line in enumerate(sinusoids(COUNT, WIDTH)):
        y = top + row * height
        figure.text(left - 10, y + 13, str(row), "end small")
        for index, value in enumerate(line):
            figure.rectangle(
                left + index * CELL, y, CELL, height, "accent" if value > 0 else "second", 0.85 * abs(value)
            )
    figure.text(left, 18, "pair: sine and cosine", "small soft")
    figure.text(4, 412, "position i: one row each", "small soft")
    for x, look, name in ((190, "accent", "positive"), (290, "second", "negative")):
        figure.rectangle(x, 400, 16, 16, look, 0.85)
        figure.text(x + 22, 412, name, "small")
    figure.text(190, 438, "strong: near 1 or −1, faint: near 0", "small soft")
    return figure


if __name__ == "__main__":
    draw().save()
