"""The cross-attention of the bundled model for one sentence: mean of the last layer's heads."""

from drawing import Drawing

import uwaga


def draw() -> Drawing:
    """Draw the matrix (target, source) with its pieces."""
    translation = uwaga.load().translate("I want to buy a car.", attention=True)
    assert translation.attention is not None
    rows, columns = translation.attention.shape
    source = [*(piece.replace("▁", "") for piece in translation.source_tokens), "</s>"][:columns]
    target = [*(piece.replace("▁", "") for piece in translation.tokens), "</s>"][:rows]
    title = f"Attention of the bundled model: pieces of “{translation.text}” over the pieces of the source"
    figure = Drawing(120 + 52 * columns, 60 + 30 * rows, title, model=True)
    figure.table(110, 44, translation.attention.tolist(), target, source, cell=52)
    return figure


if __name__ == "__main__":
    draw().save()
