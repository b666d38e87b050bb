"""An encoder-decoder unrolled over the steps of a one-unit GRU, with the states computed by hand."""

import numpy as np
from drawing import Drawing

INPUTS = (1.0, 0.0, 0.0)
SOURCE, TARGET, BEFORE = ("x₁", "x₂", "x₃"), ("y₁", "y₂", "y₃"), ("start", "y₁", "y₂")
LEFT, CELL, GAP, TOP = 50, 70, 34, 96


def states() -> list[float]:
    """Return the state after each input, with all weights 1."""
    h, hidden_states = 0.0, []
    for x in INPUTS:
        update = 1 / (1 + np.exp(-(x + h)))
        h = update * h + (1 - update) * np.tanh(x + update * h)
        hidden_states.append(h)
    return hidden_states


def draw() -> Drawing:
    """Draw three encoder cells, the vector, and three decoder cells, from left to right."""
    figure = Drawing(
        820,
        242,
        "A one-unit encoder reads 1, 0, 0, its last state becomes c, and the decoder gets nothing else",
    )
    middle_y = TOP + 24
    figure.text(LEFT + 1.5 * CELL + GAP, 24, "encoder", "middle soft")
    figure.text(670, 24, "decoder", "middle soft")
    figure.text(10, middle_y + 5, "0", "soft")
    for index, (x, name, h) in enumerate(zip(INPUTS, SOURCE, states(), strict=True)):
        left = LEFT + index * (CELL + GAP)
        figure.line((left - (28 if index == 0 else GAP), middle_y), (left, middle_y), arrow=True)
        figure.rectangle(left, TOP, CELL, 48)
        figure.text(left + CELL / 2, middle_y - 2, f"h{'₁₂₃'[index]} =", "middle small")
        figure.text(left + CELL / 2, middle_y + 15, f"{h:.3f}", "middle")
        figure.line((left + CELL / 2, 196), (left + CELL / 2, TOP + 48), arrow=True)
        figure.text(left + CELL / 2, 214, f"{name} = {x:g}", "middle")
    end = LEFT + 3 * CELL + 2 * GAP
    figure.line((end, middle_y), (end + GAP, middle_y), arrow=True)
    figure.rectangle(end + GAP, TOP, 48, 48, "accent", 0.35)
    figure.text(end + GAP + 24, middle_y + 5, "c", "middle bold")
    figure.text(end + GAP + 24, TOP + 68, "all that the", "middle small soft")
    figure.text(end + GAP + 24, TOP + 84, "decoder gets", "middle small soft")
    first = 520
    figure.line((end + GAP + 48, middle_y), (first, middle_y), look="accent-line", arrow=True)
    figure.line(
        (end + GAP + 24, TOP),
        (end + GAP + 24, 48),
        (first + 2.5 * CELL + 2 * GAP - 8, 48),
        look="accent-line",
    )
    for index, (name, before) in enumerate(zip(TARGET, BEFORE, strict=True)):
        left = first + index * (CELL + GAP)
        centre = left + CELL / 2
        if index:
            figure.line((left - GAP, middle_y), (left, middle_y), arrow=True)
        figure.rectangle(left, TOP, CELL, 48)
        figure.text(centre, middle_y + 5, f"s{'₁₂₃'[index]}", "middle")
        figure.line((centre - 8, 48), (centre - 8, TOP), look="accent-line", arrow=True)
        figure.line((centre - 8, 196), (centre - 8, TOP + 48), arrow=True)
        figure.text(centre - 8, 214, before, "middle")
        figure.line((centre + 16, TOP), (centre + 16, 76), arrow=True)
        figure.text(centre + 16, 70, name, "middle")
    figure.text(first - 12, 236, "the word before", "small soft")
    figure.text(LEFT, 236, "the source, one word a step", "small soft")
    return figure


if __name__ == "__main__":
    draw().save()
