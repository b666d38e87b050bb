"""A query and a key as arrows: both turn with their positions, and the angle between them stays."""

import math

from drawing import Drawing

RATE = 0.5  # radians for each position
QUERY, KEY = -0.2, 1.6  # angles before the rotation
RADIUS = 76
PAIRS = ((2, 0), (5, 3))


def _arrow(figure: Drawing, x: float, y: float, angle: float, look: str, label: str) -> None:
    end = (x + RADIUS * math.cos(angle), y - RADIUS * math.sin(angle))
    figure.line((x, y), end, look=f"{look}-line", arrow=True)
    reach = RADIUS + 14
    figure.text(x + reach * math.cos(angle), y - reach * math.sin(angle) + 5, label, f"middle {look} bold")


def draw() -> Drawing:
    """Draw two positions of a query and two of a key, three apart on the right."""
    title = "A query and a key of one pair: moved on by three positions, both turn, and their angle stays"
    figure = Drawing(400, 262, title)
    for column, (query, key) in enumerate(PAIRS):
        x, y = 100 + 200 * column, 140
        figure.parts.append(f'<circle cx="{x}" cy="{y}" r="{RADIUS}" class="grid"/>')
        figure.text(x, 20, f"query at {query}, key at {key}", "middle small")
        first, second = QUERY + RATE * query, KEY + RATE * key
        _arrow(figure, x, y, first, "query", "q")
        _arrow(figure, x, y, second, "key", "k")
        figure.text(x, 254, f"product {math.cos(first - second):.2f}", "middle")
    return figure


if __name__ == "__main__":
    draw().save()
