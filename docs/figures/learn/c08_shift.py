"""The bundled model with shifted source positions: its loss, and a head's weight on the previous piece."""

import numpy as np
from c09_loss import PAIRS, mean
from drawing import Drawing

import uwaga
from uwaga.engine.interventions import Positions
from uwaga.inspection import look_inside
from uwaga.inspection.interventions import intervene

SHIFTS = [*range(11), *range(15, 101, 5)]


def measure() -> list[tuple[float, float]]:
    """Return for each shift the loss in nats per token, and the weight of head 4 of encoder layer 3."""
    translator, rows = uwaga.load(), []
    for shift in SHIFTS:
        model = intervene(translator, Positions("source", tuple(range(shift, shift + 40))))
        changes = []
        for text, _ in PAIRS:
            weights = look_inside(model, text, names=["encoder.3.weights"]).arrays["encoder.3.weights"]
            changes.append(np.diagonal(weights[3], -1))
        rows.append((-mean(model), float(np.concatenate(changes).mean())))
    return [(loss - rows[0][0], weight) for loss, weight in rows]


def draw() -> Drawing:
    """Draw both over the shift, one above the other."""
    rows = measure()
    figure = Drawing(
        400,
        400,
        "The bundled model with shifted source positions: up to 2 cost nothing, 20 and more cost much",
        model=True,
    )
    left, right = 40, 380
    scale = (right - left) / 100
    panels = (
        (0, 40, "loss in nats per token", (0, 0.5, 1, 1.5), "second", 1.5),
        (1, 225, "weight of head 3.4 on the previous piece", (0, 0.4, 0.8), "accent", 0.8),
    )
    for column, top, name, ticks, look, maximum in panels:
        bottom = top + 125
        figure.text(left, top - 14, name, "bold")
        for tick in ticks:
            y = bottom - tick / maximum * 120
            figure.line((left, y), (right, y), look="grid")
            figure.text(left - 8, y + 4, f"{tick:g}", "end small soft")
        points = [
            (left + scale * shift, bottom - row[column] / maximum * 120)
            for shift, row in zip(SHIFTS, rows, strict=True)
        ]
        figure.line(*points, look=f"{look}-line")
        for shift in range(0, 101, 20):
            figure.text(left + scale * shift, bottom + 20, str(shift), "middle small soft")
    figure.text((left + right) / 2, 390, "shift of all source positions", "middle small soft")
    return figure


if __name__ == "__main__":
    draw().save()
