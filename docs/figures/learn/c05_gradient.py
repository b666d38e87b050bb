"""The softmax's gradient against d_k, with and without the division by √d_k."""

import numpy as np
from drawing import Drawing

EXPONENTS = range(0, 11)
KEYS, DRAWS = 32, 20_000
LEFT, RIGHT, TOP, BOTTOM = 64, 380, 50, 290
LOWEST = -5


def gradient(width: int, *, scaled: bool) -> float:
    """Return the median, over random queries and keys, of the largest ``w (1 - w)`` of a query's weights.

    A query's products with keys of standard normal entries are normal themselves, with its length as spread.
    """
    random = np.random.default_rng(0)
    length = np.sqrt(random.chisquare(width, (DRAWS, 1)))
    scores = length * random.standard_normal((DRAWS, KEYS)) / (np.sqrt(width) if scaled else 1)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return float(np.median((weights * (1 - weights)).max(axis=1)))


def point(exponent: float, value: float) -> tuple[float, float]:
    """Return the point of a width, 2 to the power of ``exponent``, and a gradient."""
    x = LEFT + (RIGHT - LEFT) * exponent / EXPONENTS[-1]
    return x, TOP + (BOTTOM - TOP) * np.log10(value) / LOWEST


def draw() -> Drawing:
    """Draw two lines over d_k, both axes logarithmic."""
    figure = Drawing(
        400,
        350,
        "The softmax's gradient over d_k: level with the division, without it falling steeply beyond 64",
    )
    for power in range(LOWEST, 1):
        _, y = point(0, 10.0**power)
        figure.line((LEFT, y), (RIGHT, y), look="grid")
        figure.text(LEFT - 10, y + 4, f"{10.0**power:.{max(0, -power)}f}", "end small soft")
    for exponent in EXPONENTS[::2]:
        x, _ = point(exponent, 1)
        figure.text(x, BOTTOM + 20, f"{2**exponent}", "middle small soft")
    figure.text((LEFT + RIGHT) / 2, BOTTOM + 44, "width d_k", "middle soft")
    figure.text(2, 22, "w (1 − w) of the largest weight", "small soft")
    for scaled, name, line, colour, offset in (
        (True, "divided by √d_k", "accent-line", "accent", -12),
        (False, "not divided", "second-line", "second", -12),
    ):
        points = [point(exponent, gradient(2**exponent, scaled=scaled)) for exponent in EXPONENTS]
        figure.line(*points, look=line)
        figure.text(RIGHT - (0 if scaled else 22), points[-1][1] + offset, name, f"small end {colour}")
    return figure


if __name__ == "__main__":
    draw().save()
