"""Which article the bundled model writes if its decoder may look at the vector of *the* alone."""

import numpy as np
from drawing import Drawing

import uwaga
from uwaga.engine.interventions import Heads
from uwaga.inspection.interventions import intervene

NOUNS, ARTICLES = ("letter", "book", "newspaper"), ("den", "das", "die")


def probabilities(encoder_mask: np.ndarray, noun: str) -> list[float]:
    """Return the probabilities of the three articles, with all vectors hidden except for that of the second
    *the*.
    """
    cross = np.zeros((7, 8), dtype=bool)  # (target, source), with the end symbols
    cross[:, 4] = True
    model = intervene(uwaga.load(), Heads("encoder", mask=encoder_mask), Heads("cross", mask=cross))
    source = f"The man reads the {noun}."
    pairs = [(source, f"Der Mann liest {article} Brief.") for article in ARTICLES]
    return [float(np.exp(score.token_scores[3])) for score in model.score(pairs)]


def draw() -> Drawing:
    """Draw a table for each restriction of the encoder."""
    figure = Drawing(
        360,
        466,
        "Probabilities of den, das and die: right for each noun if words see all words, and the same for all "
        "nouns if they see only earlier words or only themselves",
        model=True,
    )
    for index, (name, mask) in enumerate(
        (
            ("each word sees all words", np.ones((8, 8), dtype=bool)),
            ("each word sees itself and earlier words", np.tri(8, dtype=bool)),
            ("each word sees only itself", np.eye(8, dtype=bool)),
        )
    ):
        top = 22 + 154 * index
        figure.text(10, top, name, "bold")
        rows = [probabilities(mask, noun) for noun in NOUNS]
        figure.table(110, top + 34, rows, [f"the {noun}" for noun in NOUNS], list(ARTICLES), cell=76)
    return figure


if __name__ == "__main__":
    draw().save()
