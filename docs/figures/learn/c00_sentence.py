"""A sentence, its translation and the attention between them: as lines and as a matrix."""

from drawing import Drawing

import uwaga

MIN_WEIGHT = 0.2  # weight of the faintest line
LEFT, RIGHT, TABLE = 150, 250, 72
ROW, CELL = 26, 38


def names(tokens: tuple[str, ...]) -> list[str]:
    """Return pieces without the mark of a word's beginning, and the end symbol."""
    return [*(piece.removeprefix("▁") for piece in tokens), "</s>"]


def draw() -> Drawing:
    """Draw lines on the left, numbers on the right: mean of the last layer's heads."""
    result = uwaga.load().translate("I want to buy a car.", attention=True)
    assert result.attention is not None
    source, target = names(result.source_tokens), names(result.tokens)
    title = (
        f"Where the bundled model looks while it writes “{result.text}”, as lines and as a matrix of weights"
    )
    top, matrix = 40, 110 + ROW * len(source)
    figure = Drawing(TABLE + CELL * len(source) + 12, matrix + 30 * len(target) + 12, title, model=True)
    figure.text(LEFT, 24, "written", "end bold")
    figure.text(RIGHT, 24, "read", "bold")
    for index, name in enumerate(target):
        figure.text(LEFT, top + ROW * index + 20, name, "end target")
    for index, name in enumerate(source):
        figure.text(RIGHT, top + ROW * index + 20, name, "source")
    for row, line in enumerate(result.attention):
        for column, weight in enumerate(line):
            if weight > MIN_WEIGHT:
                figure.parts.append(
                    f'<path d="M{LEFT + 8} {top + ROW * row + 15}L{RIGHT - 8} {top + ROW * column + 15}" '
                    f'class="accent-line" style="stroke-width:{5 * weight:.1f};stroke-opacity:{weight:.2f}"/>'
                )
    figure.text(200, top + ROW * len(source) + 16, "lines: weights above 0.2", "middle small soft")
    figure.text(2, matrix - 26, "written", "small bold")
    figure.text(TABLE + CELL * len(source) / 2, matrix - 26, "read", "middle small bold")
    figure.table(TABLE, matrix, result.attention.tolist(), target, source, cell=CELL)
    return figure


if __name__ == "__main__":
    draw().save()
