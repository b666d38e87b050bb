"""Dot products of positions: the same along each diagonal, and falling with the distance at a large width."""

import numpy as np
from c08_stripes import sinusoids
from drawing import Drawing


def draw() -> Drawing:
    """Draw the table of width 4 above the products of widths 4 and 256 over the distance."""
    figure = Drawing(
        400,
        640,
        "Dot products of positions depend on the distance alone, and at width 256 they mostly fall with it",
    )
    small = sinusoids(8, 4)
    names = [str(position) for position in range(8)]
    figure.text(30, 24, "width 4: products of positions 0 to 7", "bold")
    figure.table(30, 62, (small @ small.T).tolist(), names, names, cell=42, digits=2, largest=2)
    left, right, top, bottom = 40, 380, 386, 590
    figure.text(30, 346, "product, as a share of its largest", "bold")
    for share in (0, 0.5, 1):
        y = bottom - share * (bottom - top)
        figure.line((left, y), (right, y), look="grid")
        figure.text(left - 8, y + 4, f"{share:g}", "end small soft")
    for distance in (0, 10, 20, 30, 40):
        figure.text(left + 8.5 * distance, bottom + 18, str(distance), "middle small soft")
    figure.text((left + right) / 2, bottom + 38, "distance of the two positions", "middle small soft")
    for width, look in ((4, "second"), (256, "accent")):
        table = sinusoids(41, width)
        shares = table @ table[0] / (width / 2)
        figure.line(
            *((left + 8.5 * index, bottom - share * (bottom - top)) for index, share in enumerate(shares)),
            look=f"{look}-line",
        )
    figure.text(left, 370, "width 4", "small second")
    figure.text(left + 70, 370, "width 256", "small accent")
    return figure


if __name__ == "__main__":
    assert np.allclose(sinusoids(2, 4)[1], [0.841, 0.540, 0.010, 1.000], atol=0.001)
    draw().save()
