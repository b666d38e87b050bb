"""Sinusoids of width 16 for the first twenty positions: fast columns on the left, slow ones on the right."""

import numpy as np
from drawing import Drawing

COUNT, WIDTH, CELL = 20, 16, 30


def sinusoids(count: int, width: int) -> np.ndarray:
    """Return (count, width): sine and cosine in turn, slower from pair to pair."""
    angles = np.arange(count)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(count, width)


def draw() -> Drawing:
    """Draw a row for each position and a column for each number."""
    figure = Drawing(
        720,
        450,
        "Sinusoids of width 16: left columns change sign every few positions, right ones hardly change",
    )
    left, top, height = 60, 50, 18
    for pair in range(WIDTH // 2):
        figure.text(left + (2 * pair + 1) * CELL, 20, f"pair {pair}", "middle small")
        for index, name in enumerate(("sin", "cos")):
            figure.text(left + (2 * pair + index + 0.5) * CELL, 42, name, "middle small soft")
    for row, line in enumerate(sinusoids(COUNT, WIDTH)):
        y = top + row * height
        figure.text(left - 10, y + 14, str(row), "end small")
        for index, value in enumerate(line):
            figure.rectangle(
                left + index * CELL, y, CELL, height, "accent" if value > 0 else "second", 0.85 * abs(value)
            )
    figure.text(30, 432, "position i: one row each", "small soft")
    for x, look, name in ((570, "accent", "positive"), (570, "second", "negative")):
        y = 70 if look == "accent" else 100
        figure.rectangle(x, y, 18, 18, look, 0.85)
        figure.text(x + 26, y + 14, name, "small")
    figure.text(570, 140, "strong: near 1 or −1", "small soft")
    figure.text(570, 160, "faint: near 0", "small soft")
    return figure


if __name__ == "__main__":
    draw().save()
