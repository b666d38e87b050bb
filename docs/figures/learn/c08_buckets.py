"""T5's 32 buckets of distances: one distance each when near, more and more of them when far."""

import torch
from drawing import Drawing

from uwaga.models.layers.positions import relative_bucket

FARTHEST = 60


def draw() -> Drawing:
    """Draw the bucket over the distance, earlier keys on the left."""
    figure = Drawing(
        400,
        330,
        "Buckets of distances, 32 of them: one for each near distance, wider ones for far distances",
    )
    left, bottom, step, rise = 32, 270, 3, 7
    buckets = relative_bucket(torch.arange(-FARTHEST, FARTHEST + 1), 32, 128, bidirectional=True).tolist()
    for bucket in (0, 8, 16, 24, 31):
        y = bottom - rise * bucket
        figure.line((left, y), (left + step * (2 * FARTHEST + 1), y), look="grid")
        figure.text(left - 8, y + 4, str(bucket), "end small soft")
    for index, bucket in enumerate(buckets):
        look = "second" if index > FARTHEST else "accent"
        figure.rectangle(left + step * index, bottom - rise * bucket - 3, step, 6, look)
    for distance in (-60, -40, -20, 0, 20, 40, 60):
        x = left + step * (distance + FARTHEST + 0.5)
        figure.text(x, bottom + 22, str(distance).replace("-", "−"), "middle small soft")
    figure.text(
        left + step * (FARTHEST + 0.5), bottom + 46, "distance j − i: key minus query", "middle small soft"
    )
    figure.text(left, 24, "bucket", "small soft")
    figure.text(left + 90, 130, "itself and earlier: 0 to 15", "middle small accent")
    figure.text(left + 275, 180, "later: 17 to 31", "middle small second")
    return figure


if __name__ == "__main__":
    draw().save()
