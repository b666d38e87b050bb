"""A query and a key as arrows: both turn with their positions, and the angle between them stays."""

import math

from drawing import Drawing

RATE = 0.5  # radians for each position
QUERY, KEY = -0.2, 1.6  # angles before the rotation
RADIUS = 76
PAIRS = ((2, 0), (5, 3))


def draw() -> Drawing:
    """Draw two positions of a query and two of a key, three apart on the right."""
    title = "A query and a key of one pair: moved on by three positions, both turn, and their angle stays"
    figure = Drawing(400, 262, title)
    for column, (query, key) in enumerate(PAIRS):
        x, y = 100 + 200 * column, 140
        figure.circle(x, y, RADIUS)
        figure.text(x, 20, f"query at {query}, key at {key}", "middle small")
        first, second = QUERY + RATE * query, KEY + RATE * key
        figure.vector((x, y), RADIUS, first, "query", "q")
        figure.vector((x, y), RADIUS, second, "key", "k")
        figure.text(x, 254, f"product {math.cos(first - second):.2f}", "middle")
    return figure


if __name__ == "__main__":
    draw().save()
