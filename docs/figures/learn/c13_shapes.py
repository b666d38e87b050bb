"""One distribution of five words, and what temperature, top-k and top-p make of it."""

import numpy as np
from drawing import Drawing

WORDS = ["Auto", "Wagen", "Fahrzeug", "Haus", "und"]
P = np.array([0.5, 0.25, 0.15, 0.07, 0.03])


def apply_temperature(temperature: float) -> np.ndarray:
    """Return the distribution at a temperature."""
    powers = P ** (1 / temperature)
    return powers / powers.sum()


def apply_top_k(count: int) -> np.ndarray:
    """Return the distribution over the ``count`` most probable words."""
    cut = np.where(np.arange(len(P)) < count, P, 0.0)
    return cut / cut.sum()


def draw() -> Drawing:
    """Draw five distributions side by side as bars."""
    nucleus = int((np.cumsum(P) < 0.8).sum()) + 1
    panels = [
        ("as it is", P),
        ("temperature 0.5", apply_temperature(0.5)),
        ("temperature 2", apply_temperature(2.0)),
        ("top-k 2", apply_top_k(2)),
        ("top-p 0.8", apply_top_k(nucleus)),
    ]
    figure = Drawing(
        740,
        212,
        "Five words: temperature 0.5 sharpens the distribution, 2 flattens it, top-k and top-p cut the tail",
    )
    for row, word in enumerate(WORDS):
        figure.text(74, 62 + 32 * row, word, "end small")
    for index, (name, values) in enumerate(panels):
        left = 84 + 132 * index
        figure.text(left, 28, name, "small bold")
        for row, value in enumerate(values):
            top = 44 + 32 * row
            figure.rectangle(left, top, 116, 26, "grid")
            if value > 0:
                figure.rectangle(left, top, 80 * value, 26, "accent", 0.4)
            figure.text(left + 110, top + 18, f"{value:.2f}", "end small" if value > 0 else "end small soft")
    return figure


if __name__ == "__main__":
    draw().save()
