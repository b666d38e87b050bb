"""Multiplications of three layers of width 256 over the number of words, both axes logarithmic."""

from math import log2

from drawing import Drawing

WIDTH = 256
LENGTHS = [2**power for power in range(3, 12)]
LEFT, RIGHT, TOP, BOTTOM = 48, 380, 56, 286


def multiplications(words: int, width: int) -> dict[str, int]:
    """Return the number of multiplications of a recurrent layer, a convolution of width 3 and self-attention.

    Projections are not counted.
    """
    return {
        "recurrent": 2 * words * width**2,
        "convolution, width 3": 3 * words * width**2,
        "self-attention": 2 * words**2 * width,
    }


def draw() -> Drawing:
    """Draw a line for each layer, and mark where words and width are equal."""
    figure = Drawing(
        400,
        340,
        "Multiplications over the words at width 256: self-attention needs fewer than the recurrent "
        "layer below 256 words and more above",
    )
    low, high = 14.0, 32.0

    def point(words: int, value: int) -> tuple[float, float]:
        share = (log2(value) - low) / (high - low)
        return LEFT + (log2(words) - 3) / 8 * (RIGHT - LEFT), BOTTOM - share * (BOTTOM - TOP)

    figure.text(10, 20, "million multiplications, width 256", "bold")
    for value, label in ((10**5, "0.1"), (10**6, "1"), (10**7, "10"), (10**8, "100"), (10**9, "1000")):
        y = point(8, value)[1]
        figure.line((LEFT, y), (RIGHT, y), look="grid")
        figure.text(LEFT - 8, y + 4, label, "end small soft")
    for words in LENGTHS[::2]:
        figure.text(point(words, 1)[0], BOTTOM + 18, str(words), "middle small soft")
    figure.text((LEFT + RIGHT) / 2, BOTTOM + 40, "words", "middle small soft")
    for name, look in (
        ("recurrent", ""),
        ("convolution, width 3", "second"),
        ("self-attention", "accent"),
    ):
        values = [(words, multiplications(words, WIDTH)[name]) for words in LENGTHS]
        figure.line(*(point(*value) for value in values), look=f"{look}-line".strip("-"))
    x, y = point(WIDTH, multiplications(WIDTH, WIDTH)["recurrent"])
    figure.line((x, y), (x, BOTTOM), look="grid")
    figure.circle(x, y, 4, "accent")
    figure.text(x + 8, y + 24, "equal at 256", "small")
    figure.text(LEFT + 6, 44, "self-attention", "small accent")
    figure.text(LEFT + 98, 44, "recurrent", "small")
    figure.text(LEFT + 164, 44, "convolution, width 3", "small second")
    return figure


if __name__ == "__main__":
    assert multiplications(4, 2) == {"recurrent": 32, "convolution, width 3": 48, "self-attention": 64}
    draw().save()
