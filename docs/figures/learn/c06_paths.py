"""The way from a word to one twelve words later: a recurrent layer, convolutions and self-attention."""

from drawing import Drawing

WORDS, FIRST, GAP = 13, 24, 29


def x(word: int) -> float:
    """Return the middle of the column of a word, counted from 0."""
    return FIRST + GAP * word


def dot(figure: Drawing, word: int, y: float, look: str, *, bold: bool = False) -> None:
    """Draw the vector of a word as a circle."""
    radius = 6 if bold else 4
    figure.circle(x(word), y, radius, look)


def names(figure: Drawing, y: float) -> None:
    """Write the first and the last word below the vectors that a layer reads."""
    figure.text(x(0) - 14, y, "house", "small source bold")
    figure.text(x(6), y, "… twelve words later …", "middle small soft")
    figure.text(x(WORDS - 1) + 8, y, "it", "end small source bold")


def draw() -> Drawing:
    """Draw the three layers one below another."""
    figure = Drawing(
        400,
        468,
        "From house to it, twelve words later: twelve steps of a recurrent layer, six layers of convolution, "
        "one step of self-attention",
    )
    last = WORDS - 1
    figure.text(10, 22, "recurrent: 12 steps", "bold")
    for word in range(WORDS):
        figure.line((x(word), 78), (x(word), 56), look="grid")
        dot(figure, word, 84, "soft")
        if word:
            figure.line((x(word - 1) + 6, 50), (x(word) - 6, 50), look="accent-line", arrow=word == last)
    for word in range(WORDS):
        dot(figure, word, 50, "accent", bold=word in (0, last))
    names(figure, 106)
    figure.text(10, 144, "convolution of width 3: 6 layers", "bold")
    top, step = 162, 20
    for level in range(7):
        for word in range(WORDS):
            y = top + step * (6 - level)
            for read in range(max(0, word - 2), word + 1) if level else ():
                figure.line((x(read), y + step), (x(word), y), look="grid")
    for level in range(6):
        y = top + step * (6 - level)
        figure.line((x(2 * level), y), (x(2 * level + 2), y - step), look="accent-line")
    for level in range(7):
        for word in range(WORDS):
            on_path = word == 2 * level
            dot(figure, word, top + step * (6 - level), "accent" if on_path else "soft", bold=on_path)
    names(figure, 306)
    figure.text(10, 344, "self-attention: 1 step", "bold")
    for word in range(WORDS):
        figure.line((x(word), 424), (x(last), 370), look="grid")
    figure.line((x(0), 424), (x(last), 370), look="accent-line")
    for word in range(WORDS):
        dot(figure, word, 424, "accent" if word == 0 else "soft", bold=word == 0)
        dot(figure, word, 370, "accent" if word == last else "soft", bold=word == last)
    names(figure, 448)
    return figure


if __name__ == "__main__":
    draw().save()
