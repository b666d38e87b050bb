"""One head of the bundled model's cross-attention, with its scale and without."""

from drawing import Drawing

import uwaga
from uwaga.engine.interventions import Heads
from uwaga.inspection import look_inside
from uwaga.inspection.interventions import intervene

TEXT = "I want to buy a car."
LAYER, HEAD, LEFT, CELL = 1, 4, 72, 38


def draw() -> Drawing:
    """Draw the head's matrix (target, source) twice, for the same translation."""
    translator = uwaga.load()
    translation = translator.translate(TEXT)
    unscaled = intervene(translator, Heads("cross", LAYER, scale=1.0))
    insights = [
        look_inside(model, TEXT, translation.text, names=[f"cross.{LAYER}.weights"])
        for model in (translator, unscaled)
    ]
    source = [piece.replace("▁", "") for piece in insights[0].source]
    target = [piece.replace("▁", "") for piece in insights[0].predicted]
    tall = 30 * len(target)
    figure = Drawing(
        LEFT + 12 + CELL * len(source),
        2 * tall + 150,
        "Weights of one head of the bundled model: spread with the division, almost all on one piece without",
        model=True,
    )
    for index, (insight, name) in enumerate(
        zip(insights, ("divided by √64 = 8", "not divided"), strict=True)
    ):
        top = 58 + index * (tall + 76)
        figure.text(LEFT, top - 32, name, "bold")
        weights = insight.arrays[f"cross.{LAYER}.weights"][HEAD - 1]
        figure.table(LEFT, top, weights.tolist(), target, source, cell=CELL)
    return figure


if __name__ == "__main__":
    draw().save()
