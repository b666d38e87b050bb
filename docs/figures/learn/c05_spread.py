"""How far dot products spread with the width of the vectors, with and without the division by √d_k."""

import numpy as np
from drawing import Drawing

WIDTHS = (4, 64, 256)
DRAWS = 20_000
LARGEST = 50
LEFT, WIDE, GAP, ROW, BINS = 58, 146, 34, 84, 50


def draw() -> Drawing:
    """Draw a histogram of scores for each width: dot products on the left, divided ones on the right."""
    random = np.random.default_rng(0)
    figure = Drawing(
        400,
        330,
        "Histograms of random dot products for three widths: wider vectors spread more, divided ones alike",
    )
    figure.text(LEFT + WIDE / 2, 24, "dot product", "middle bold")
    figure.text(LEFT + WIDE * 1.5 + GAP, 24, "divided by √d_k", "middle bold")
    figure.text(LEFT - 14, 24, "d_k", "end soft")
    for row, width in enumerate(WIDTHS):
        query, key = random.standard_normal((2, DRAWS, width))
        plain = (query * key).sum(axis=1)
        bottom = 40 + (row + 1) * ROW - 8
        figure.text(LEFT - 14, bottom - 26, f"{width}", "end")
        for column, scores in enumerate((plain, plain / np.sqrt(width))):
            left = LEFT + column * (WIDE + GAP)
            counts, edges = np.histogram(scores, bins=BINS, range=(-LARGEST, LARGEST))
            largest = counts.max()
            for count, edge in zip(counts, edges[:-1], strict=True):
                tall = 44 * count / largest
                x = left + (edge + LARGEST) / (2 * LARGEST) * WIDE
                if tall >= 0.5:
                    look = "second" if column == 0 else "accent"
                    figure.rectangle(x, bottom - tall, WIDE / BINS - 0.4, tall, look)
            figure.line((left, bottom), (left + WIDE, bottom), look="grid")
            figure.text(left + WIDE, bottom - 46, f"± {scores.std():.1f}", "end small soft")
    for column in (0, 1):
        left = LEFT + column * (WIDE + GAP)
        for mark in (-LARGEST, 0, LARGEST):
            x = left + (mark + LARGEST) / (2 * LARGEST) * WIDE
            figure.text(x, 40 + 3 * ROW + 12, f"{mark}".replace("-", "−"), "middle small soft")
    return figure


if __name__ == "__main__":
    draw().save()
