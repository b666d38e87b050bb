"""A head of the bundled model's encoder with its own positions, and with position 0 for every piece."""

from drawing import Drawing

import uwaga
from uwaga.engine.interventions import Positions
from uwaga.inspection import look_inside
from uwaga.inspection.interventions import intervene

TEXT = "A dog chases a cat."


def draw() -> Drawing:
    """Draw the weights of head 2 of layer 1 (query, key), twice."""
    translator = uwaga.load()
    same = intervene(translator, Positions("source", (0,) * 8))
    figure = Drawing(
        390,
        640,
        "Head 2 of the encoder's first layer: A, es, a and the full stop give the next piece more than 0.8 "
        "of the weight; with position 0 for every piece, at most 0.43",
        model=True,
    )
    for top, name, model in ((0, "own positions", translator), (322, "position 0 for every piece", same)):
        insight = look_inside(model, TEXT, names=["encoder.1.weights"])
        pieces = [piece.replace("▁", "") for piece in insight.source]
        figure.text(52, top + 24, name, "bold")
        figure.table(52, top + 62, insight.arrays["encoder.1.weights"][1].tolist(), pieces, pieces, cell=41)
    return figure


if __name__ == "__main__":
    draw().save()
