"""How far each encoding of the bundled model moves when the last word of the source is replaced."""

import numpy as np
from drawing import Drawing

import uwaga
from uwaga.inspection import look_inside

NAMES = ["encoder.embedding", "encoder.1.feed_forward", "encoder.output"]


def draw() -> Drawing:
    """Draw the distance over the length of the vector, for each piece and three places in the encoder."""
    translator = uwaga.load()
    target = "Ich möchte ein Auto kaufen."
    original, changed = (
        look_inside(translator, f"I want to buy a {word}.", target, names=NAMES) for word in ("car", "house")
    )
    differences = [
        np.linalg.norm(original.arrays[name] - changed.arrays[name], axis=1)
        / np.linalg.norm(original.arrays[name], axis=1)
        for name in NAMES
    ]  # (places, source)
    pieces = [piece.replace("▁", "") for piece in original.source]
    title = "How far each encoding moves, in parts of its length, when car is replaced by house in the source"
    figure = Drawing(130 + 64 * len(pieces), 140, title, model=True)
    rows = [row.tolist() for row in differences]
    figure.table(
        120,
        36,
        rows,
        ["embeddings", "after block 1", "encoder's output"],
        pieces,
        cell=64,
        digits=3,
        largest=1.2,
    )
    return figure


if __name__ == "__main__":
    draw().save()
