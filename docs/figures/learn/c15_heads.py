"""Which heads align, and which the model needs: two measurements of the eight heads of cross-attention."""

from drawing import Drawing

MEASURED = {
    "1.1": (0.503, 0.049),
    "1.2": (0.192, 0.420),
    "1.3": (0.596, 0.036),
    "1.4": (0.641, 0.016),
    "2.1": (0.324, 0.148),
    "2.2": (0.382, 0.080),
    "2.3": (0.375, 0.066),
    "2.4": (0.391, 0.133),
}
"""Of the bundled model on Multi30k's test_2016_flickr, which is not in this repository.

First the alignment error rate on the hundred pairs of benchmarks/alignments, at the better of two steps, by
``uwaga align --choose --gold``; then the loss without the head, ``head_importance`` of all 1,000 pairs.
"""
LEFT, RIGHT, TOP, BOTTOM = 44, 376, 44, 250
LABEL_OFFSETS = {
    "1.2": (9, 5, ""),
    "1.1": (-4, -10, ""),
    "1.3": (-8, -10, ""),
    "1.4": (-2, -10, ""),
    "2.1": (-9, 5, "end"),
    "2.2": (9, 2, ""),
    "2.3": (-9, 8, "end"),
    "2.4": (9, 2, ""),
}


def point(error: float, loss: float) -> tuple[float, float]:
    """Return the position in the figure of a point of the plane."""
    return LEFT + (RIGHT - LEFT) * error / 0.7, BOTTOM - (BOTTOM - TOP) * loss / 0.45


def draw() -> Drawing:
    """Draw a point for each head: its alignment error to the right, the loss without it upwards."""
    title = "Loss without a head over its alignment error, for eight heads of cross-attention of the model"
    figure = Drawing(400, 312, title, model=True)
    for tick in range(5):
        figure.line(point(0, tick / 10), point(0.7, tick / 10), look="grid")
        figure.text(LEFT - 10, point(0, tick / 10)[1] + 4, f"{tick / 10:.1f}", "end small soft")
    for tick in range(0, 8):
        figure.text(point(tick / 10, 0)[0], BOTTOM + 20, f"{tick / 10:.1f}", "middle small soft")
    figure.text(12, 20, "loss without the head, nats per target token", "small soft")
    figure.text((LEFT + RIGHT) / 2, BOTTOM + 44, "alignment error rate of the head", "middle small soft")
    for name, measured in MEASURED.items():
        x, y = point(*measured)
        look = "accent" if name.startswith("1") else "second"
        figure.rectangle(x - 4, y - 4, 8, 8, look)
        right, down, end = LABEL_OFFSETS.get(name, (8, -4, ""))
        figure.text(x + right, y + down, name, f"bold {end}".strip())
    for index, (name, look) in enumerate((("layer 1", "accent"), ("layer 2", "second"))):
        figure.rectangle(290, 84 + 22 * index, 10, 10, look)
        figure.text(308, 94 + 22 * index, name)
    return figure


if __name__ == "__main__":
    draw().save()
