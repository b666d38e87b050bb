"""One pair of numbers as an arrow: the positions 0 to 3, and a query and a key that are turned by theirs."""

import math

from drawing import Drawing

RADIUS, ROWS = 62, ((2, 1), (5, 4))


def draw() -> Drawing:
    """Draw four positions of a fast and of a slow pair, and below a query and a key, twice."""
    figure = Drawing(
        400,
        490,
        "Each position turns a pair by the same angle; query and key at 2 and 1 have the product of 5 and 4",
    )
    x, y = 100, 140
    figure.text(x, 20, "one pair, rate 1", "middle bold")
    figure.text(x, 40, "positions 0 to 3", "middle small soft")
    figure.circle(x, y, RADIUS)
    for position in range(4):
        figure.vector((x, y), RADIUS, position, "accent", str(position))
    figure.text(x, 240, "a step is one turn", "middle small")
    x = 300
    figure.text(x, 20, "rate 0.01", "middle bold")
    figure.text(x, 40, "positions 0 to 3", "middle small soft")
    figure.circle(x, y, RADIUS)
    for position in range(4):
        end = (x + RADIUS * math.cos(0.01 * position), y - RADIUS * math.sin(0.01 * position))
        figure.line((x, y), end, look="accent-line", arrow=position == 3)
    figure.text(x + RADIUS + 16, y + 5, "0–3", "middle bold accent")
    figure.text(x, 240, "a slow pair hardly turns", "middle small")
    for x, (query, key) in zip((100, 300), ROWS, strict=True):
        y = 380
        figure.text(x, 284, f"query at {query}, key at {key}", "middle bold")
        figure.circle(x, y, RADIUS)
        figure.vector((x, y), RADIUS, query, "query", "q")
        figure.vector((x, y), RADIUS, key, "key", "k")
        figure.text(x, 476, f"product {math.cos(query - key):.3f}", "middle")
    return figure


if __name__ == "__main__":
    draw().save()
