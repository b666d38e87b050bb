"""The attention of one sentence, and the same when each step must look at the next source piece."""

from drawing import Drawing

import uwaga
from uwaga.engine.interventions import Heads
from uwaga.inspection.interventions import intervene

CELL, LEFT, NEXT = 46, 92, 300


def draw() -> Drawing:
    """Draw the model's own weights above, the forced ones below."""
    translator = uwaga.load()
    forced = intervene(translator, Heads("cross", weights="diagonal"))
    title = "Attention for I cannot swim today: the model's own, and forced to go from left to right"
    figure = Drawing(400, 2 * NEXT, title, model=True)
    for top, name, model in ((22, "its own", translator), (22 + NEXT, "forced in order", forced)):
        translation = model.translate("I cannot swim today.", attention=True)
        assert translation.attention is not None
        source, target = (
            [*(piece.removeprefix("▁") for piece in tokens), "</s>"]
            for tokens in (translation.source_tokens, translation.tokens)
        )
        figure.text(LEFT, top, name, "small soft")
        figure.text(LEFT, top + 22, translation.text, "bold")
        figure.table(LEFT, top + 62, translation.attention.tolist(), target, source, cell=CELL)
    return figure


if __name__ == "__main__":
    draw().save()
