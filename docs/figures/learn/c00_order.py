"""The attention of one sentence, and the same when each step must look at the next source piece."""

from drawing import Drawing

import uwaga
from uwaga.engine.interventions import Heads
from uwaga.inspection.interventions import intervene

CELL = 42


def draw() -> Drawing:
    """Draw the model's own weights on the left, the forced ones on the right."""
    translator = uwaga.load()
    forced = intervene(translator, Heads("cross", weights="diagonal"))
    title = "Attention for I cannot swim today: the model's own, and forced to go from left to right"
    figure = Drawing(720, 310, title, model=True)
    for x, name, model in ((88, "its own", translator), (452, "forced in order", forced)):
        translation = model.translate("I cannot swim today.", attention=True)
        assert translation.attention is not None
        source, target = (
            [*(piece.removeprefix("▁") for piece in tokens), "</s>"]
            for tokens in (translation.source_tokens, translation.tokens)
        )
        figure.text(x, 22, name, "small soft")
        figure.text(x, 44, translation.text, "bold")
        figure.table(x, 84, translation.attention.tolist(), target, source, cell=CELL)
    return figure


if __name__ == "__main__":
    draw().save()
