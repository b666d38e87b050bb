"""The decoder's self-attention in the bundled model: mean of the four heads of its first layer."""

from drawing import Drawing

import uwaga
from uwaga.inspection import look_inside


def draw() -> Drawing:
    """Draw the weights (query, key) of the decoder's first layer."""
    insight = look_inside(uwaga.load(), "I want to buy a car.", names=["decoder.1.weights"])
    weights = insight.arrays["decoder.1.weights"].mean(axis=0)
    inputs = [piece.replace("▁", "") for piece in insight.fed]
    title = "Self-attention in the bundled decoder's first layer: no piece gives weight to a later piece"
    figure = Drawing(120 + 58 * len(inputs), 56 + 30 * len(inputs), title, model=True)
    figure.table(100, 40, weights.tolist(), inputs, inputs, cell=58)
    return figure


if __name__ == "__main__":
    draw().save()
