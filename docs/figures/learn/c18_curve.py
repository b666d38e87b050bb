"""The learning curves of chapter 18's runs.

The numbers are the dev losses of the settings that the page's Python sample writes, trained with

    uwaga train 0.01.yaml --set training.validate_every=20 --set run=runs/0.01-curve
    uwaga train 0.3.yaml --set training.validate_every=20 --set run=runs/0.3-curve

and read from metrics.jsonl in each folder.
"""

from drawing import Drawing

STEPS = range(20, 201, 20)
LOSSES = {
    "0.01": (1.956, 1.376, 0.739, 0.346, 0.185, 0.123, 0.051, 0.031, 0.025, 0.025),
    "0.3": (2.129, 2.054, 1.995, 1.993, 1.989, 1.987, 1.984, 1.984, 1.982, 1.981),
}
LEFT, RIGHT, TOP, BOTTOM = 44, 290, 40, 240
LARGEST = 2.5


def point(step: float, loss: float) -> tuple[float, float]:
    """Return the point of an update and a loss."""
    return LEFT + (RIGHT - LEFT) * step / 200, BOTTOM - (BOTTOM - TOP) * loss / LARGEST


def draw() -> Drawing:
    """Draw the dev loss over the updates, one line for each peak learning rate."""
    figure = Drawing(
        400, 296, "Dev loss over 200 updates: it falls to 0.025 with rate 0.01 and stays near 2 with rate 0.3"
    )
    for tick in (0, 0.5, 1, 1.5, 2, 2.5):
        _, y = point(0, tick)
        figure.line((LEFT, y), (RIGHT, y), look="grid")
        figure.text(LEFT - 10, y + 4, f"{tick:g}", "end small soft")
    for step in (0, 50, 100, 150, 200):
        x, _ = point(step, 0)
        figure.text(x, BOTTOM + 20, f"{step}", "middle small soft")
    figure.text((LEFT + RIGHT) / 2, BOTTOM + 46, "updates", "middle small soft")
    figure.text(10, TOP - 18, "dev loss in nats", "small soft")
    for (rate, losses), colour in zip(LOSSES.items(), ("accent", "second"), strict=True):
        points = [point(step, loss) for step, loss in zip(STEPS, losses, strict=True)]
        figure.line(*points, look=f"{colour}-line")
        figure.text(RIGHT + 10, points[-1][1] + 4, f"peak {rate}", colour)
    return figure


if __name__ == "__main__":
    draw().save()
