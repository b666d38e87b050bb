"""The decoder's self-attention in the bundled model: mean of the four heads of its first layer."""

from drawing import Drawing

import uwaga
from uwaga.inspection import look_inside

CELL, LEFT, TOP = 46, 76, 66


def draw() -> Drawing:
    """Draw the weights (query, key) of the decoder's first layer; hidden cells have no number."""
    insight = look_inside(uwaga.load(), "I want to buy a car.", names=["decoder.1.weights"])
    weights = insight.arrays["decoder.1.weights"].mean(axis=0)
    inputs = [piece.replace("▁", "") for piece in insight.fed]
    title = "Self-attention in the bundled decoder's first layer: no piece gives weight to a later piece"
    right = LEFT + CELL * len(inputs)
    figure = Drawing(right + 84, TOP + 30 * len(inputs) + 12, title, model=True)
    figure.text(LEFT - 10, 22, "read", "end soft")
    figure.text((LEFT + right) / 2, 22, "looks at", "middle soft")
    figure.text(right + 14, 22, "predicts", "soft")
    for index, (name, following) in enumerate(zip(inputs, [*inputs[1:], "</s>"], strict=True)):
        y = TOP + 30 * index
        figure.text(LEFT + (index + 0.5) * CELL, TOP - 10, name, "middle small")
        figure.text(LEFT - 10, y + 20, name, "end")
        figure.text(right + 14, y + 20, following, "bold target")
        for column, weight in enumerate(weights[index]):
            x = LEFT + column * CELL
            figure.rectangle(x, y, CELL, 30, "grid")
            if column > index:
                figure.text(x + CELL / 2, y + 20, "−∞", "middle small soft")
                continue
            figure.rectangle(x, y, CELL, 30, "target", 0.75 * float(weight))
            figure.text(x + CELL / 2, y + 20, f"{weight:.2f}", "middle small")
    return figure


if __name__ == "__main__":
    draw().save()
