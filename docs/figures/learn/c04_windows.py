"""Weights of the same scores with global attention and with two kinds of window."""

import numpy as np
from drawing import Drawing

SCORES = np.array([0.2, 1.0, 0.1, 1.6, 1.2, 0.3, 0.1, 1.8])
REACH, STEP, SHARE = 2, 3, 0.45
WIDE, TALL, LEFT = 42, 70, 8


def weights() -> list[tuple[str, str, float | None, np.ndarray]]:
    """Return name, centre and weights of each kind: the window's softmax, for local-p times the Gaussian."""
    positions = np.arange(len(SCORES))
    rows: list[tuple[str, str, float | None, np.ndarray]] = []
    predicted = SHARE * len(SCORES)
    for name, note, centre in (
        ("global", "all positions", None),
        ("local-m", f"p = {STEP}, D = {REACH}", float(STEP)),
        ("local-p", f"p = {predicted:.1f}, D = {REACH}", predicted),
    ):
        in_window = np.full(len(SCORES), True) if centre is None else np.abs(positions - centre) <= REACH
        powers = np.where(in_window, np.exp(SCORES), 0)
        row_weights = powers / powers.sum()
        if name == "local-p":
            row_weights = row_weights * np.exp(-((positions - predicted) ** 2) / (2 * (REACH / 2) ** 2))
        rows.append((name, note, centre, row_weights))
    return rows


def draw() -> Drawing:
    """Draw a row of bars for each kind, with the window as a frame and its centre as a line."""
    figure = Drawing(
        400,
        500,
        "Weights of eight positions: global attention uses all, a window leaves five or four, a Gaussian "
        "lowers those far from its centre",
    )
    figure.text(LEFT, 18, "scores", "small soft")
    for position, score in enumerate(SCORES):
        figure.text(LEFT + (position + 0.5) * WIDE, 40, f"{score:.1f}", "middle soft")
    figure.text(LEFT + len(SCORES) * WIDE + 10, 40, "sum", "soft")
    for row, (name, note, centre, row_weights) in enumerate(weights()):
        bottom = 180 + 140 * row
        figure.text(LEFT, bottom - TALL - 32, name, "bold")
        figure.text(LEFT + 64, bottom - TALL - 32, note, "small soft")
        nonzero = np.flatnonzero(row_weights)
        left, right = LEFT + nonzero[0] * WIDE, LEFT + (nonzero[-1] + 1) * WIDE
        figure.rectangle(left, bottom - TALL - 24, right - left, TALL + 24)
        if centre is not None:
            x = LEFT + (centre + 0.5) * WIDE
            figure.line((x, bottom), (x, bottom + 10), look="second-line")
            figure.text(x + 6, bottom + 13, "p", "small second")
        for position, value in enumerate(row_weights):
            x = LEFT + position * WIDE
            if value > 0:
                tall = TALL * value / 0.5
                figure.rectangle(x + 8, bottom - tall, WIDE - 16, tall, "accent", 0.6)
            figure.text(x + WIDE / 2, bottom - TALL * value / 0.5 - 6, f"{value:.2f}", "middle small")
        figure.text(LEFT + len(SCORES) * WIDE + 10, bottom - 6, f"{row_weights.sum():.2f}")
    for position in range(len(SCORES)):
        figure.text(LEFT + (position + 0.5) * WIDE, 494, str(position), "middle small soft")
    figure.text(LEFT + len(SCORES) * WIDE + 2, 494, "position", "small soft")
    return figure


if __name__ == "__main__":
    draw().save()
