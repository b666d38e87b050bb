"""How large the residual stream of the bundled model is at each sublayer, and what the sublayer adds."""

import numpy as np
from drawing import Drawing

import uwaga
from uwaga.inspection import look_inside


def draw() -> Drawing:
    """Draw two bars for each sublayer, the encoder's first."""
    insight = look_inside(uwaga.load(), "I want to buy a car.")
    figure = Drawing(
        700,
        570,
        "Size of the residual stream before the 14 sublayers of the bundled model, and of what they add",
        model=True,
    )
    figure.text(196, 24, "stream before", "soft small")
    figure.rectangle(176, 14, 14, 12, "second", 0.45)
    figure.text(326, 24, "added by the sublayer", "soft small")
    figure.rectangle(306, 14, 14, 12, "accent", 0.75)
    y = 40
    for stack, layers, kinds in (
        ("encoder", 4, ("encoder.{}.attention", "encoder.{}.feed_forward")),
        ("decoder", 2, ("decoder.{}.attention", "cross.{}.attention", "decoder.{}.feed_forward")),
    ):
        x = insight.arrays[f"{stack}.embedding"]
        for layer in range(1, layers + 1):
            for kind in kinds:
                name = kind.format(layer)
                after = insight.arrays[name]
                sizes = [float(np.sqrt(np.square(part).mean())) for part in (x, after - x)]
                figure.text(164, y + 20, name, "end small code")
                for index, (size, look, alpha) in enumerate(
                    zip(sizes, ("second", "accent"), (0.45, 0.75), strict=True)
                ):
                    figure.rectangle(176, y + 2 + 15 * index, 34 * size, 14, look, alpha)
                    figure.text(182 + 34 * size, y + 13 + 15 * index, f"{size:.1f}", "soft small")
                x = after
                y += 36
        y += 10
    return figure


if __name__ == "__main__":
    draw().save()
