"""A sentence, its translation and the attention between them: as lines and as a matrix."""

from drawing import Drawing

import uwaga

MIN_WEIGHT = 0.2  # weight of the faintest line
LEFT, RIGHT, TABLE = 90, 190, 344
ROW = 30


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
    figure = Drawing(720, 320, title, model=True)
    figure.text(LEFT, 24, "written", "end bold")
    figure.text(RIGHT, 24, "read", "bold")
    top = 60
    for index, name in enumerate(target):
        figure.text(LEFT, top + ROW * index + 20, name, "end")
    for index, name in enumerate(source):
        figure.text(RIGHT, top + ROW * index + 20, name)
    for row, line in enumerate(result.attention):
        for column, weight in enumerate(line):
            if weight > MIN_WEIGHT:
                figure.parts.append(
                    f'<path d="M{LEFT + 8} {top + ROW * row + 15}L{RIGHT - 8} {top + ROW * column + 15}" '
                    f'class="accent-line" style="stroke-width:{5 * weight:.1f};stroke-opacity:{weight:.2f}"/>'
                )
    figure.text(TABLE + 23 * len(source), 24, "read", "middle bold")
    figure.table(TABLE, top, result.attention.tolist(), target, source, cell=46)
    figure.text(LEFT, 312, "lines: weights above 0.2", "middle small soft")
    return figure


if __name__ == "__main__":
    draw().save()
