"""BLEU against source length with one vector for a sentence and with a vector for each word."""

import json
from pathlib import Path

from drawing import Drawing

MEASURED = Path(__file__).parents[1] / "lengths-joined.json"
LEFT, RIGHT, TOP, BOTTOM, HIGHEST = 34, 394, 40, 260, 50


def draw() -> Drawing:
    """Draw a line for each of two models over groups of sentences of similar length."""
    buckets = json.loads(MEASURED.read_text(encoding="utf-8"))["buckets"]
    figure = Drawing(
        400,
        330,
        "BLEU falls with the source length, and farther for Cho's model of one vector than for Bahdanau's",
    )
    for bleu in range(0, HIGHEST + 1, 10):
        y = BOTTOM - (BOTTOM - TOP) * bleu / HIGHEST
        figure.line((LEFT - 5, y), (RIGHT if bleu == 0 else LEFT, y), look="grid")
        figure.text(LEFT - 10, y + 4, str(bleu), "end small soft")
    figure.line((LEFT, TOP), (LEFT, BOTTOM), look="grid")
    figure.text(20, TOP - 16, "BLEU", "small soft")
    width = (RIGHT - LEFT) / len(buckets)
    for index, bucket in enumerate(buckets):
        label = f"{bucket['shortest']}–{bucket['longest']}"
        figure.text(LEFT + (index + 0.5) * width, BOTTOM + 20, label, "middle small soft")
    figure.text((LEFT + RIGHT) / 2, BOTTOM + 44, "tokens of the source", "middle soft")
    for system, name, line, colour, offset in (
        ("Bahdanau", "Bahdanau: a vector a word", "accent-line", "accent", True),
        ("Cho", "Cho: one vector", "second-line", "second", False),
    ):
        points = []
        for index, bucket in enumerate(buckets):
            bleu = bucket["systems"][system]["bleu"]
            x, y = round(LEFT + (index + 0.5) * width), round(BOTTOM - (BOTTOM - TOP) * bleu / HIGHEST)
            points.append((x, y))
            figure.text(
                x + (10 if offset else -8), y - 9 if offset else y + 19, f"{bleu:.1f}", "middle small"
            )
        figure.line(*points, look=line)
        figure.text(
            points[2][0] + (32 if offset else -120), points[2][1] + (-20 if offset else 46), name, colour
        )
    return figure


if __name__ == "__main__":
    draw().save()
