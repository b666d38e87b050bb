"""Three families as parts of one drawing: the encoder, the decoder without cross-attention, and both."""

from drawing import Drawing

WIDE, HIGH = 112, 40
COLUMNS = (
    ("BERT", "source", ("sees all", "feed-forward"), 10),
    ("GPT-2", "target", ("sees earlier", "feed-forward"), 144),
)


def _box(figure: Drawing, x: float, y: float, look: str, label: str) -> None:
    figure.rectangle(x, y, WIDE, HIGH, "box")
    figure.rectangle(x, y, WIDE, HIGH, look, 0.25)
    figure.text(x + WIDE / 2, y + 25, label, "middle small")


def _stack(figure: Drawing, x: float, look: str, labels: tuple[str, ...], bottom: float) -> None:
    figure.line((x + WIDE / 2, bottom + 12), (x + WIDE / 2, bottom - 52 * len(labels) - 8), arrow=True)
    for index, label in enumerate(labels):
        _box(figure, x, bottom - 52 * index - HIGH, look, label)


def draw() -> Drawing:
    """Draw the three families side by side, with the encoder and the decoder in their colours."""
    title = "BERT is the encoder, GPT-2 the decoder without cross-attention, and T5 and BART are both stacks"
    figure = Drawing(400, 372, title)
    for name, look, labels, x in COLUMNS:
        figure.text(x + WIDE / 2, 22, name, "middle bold")
        _stack(figure, x, look, labels, 330)
    x = 268
    figure.text(x + WIDE / 2, 22, "T5, BART", "middle bold")
    _stack(figure, x, "source", ("sees all", "feed-forward"), 330)
    _stack(figure, x, "target", ("sees earlier", "cross-attention", "feed-forward"), 190)
    figure.text(x + WIDE / 2 + 8, 208, "target", "small soft")
    edge = x + WIDE
    figure.line((x + WIDE / 2, 222), (edge + 10, 222), (edge + 10, 118), (edge + 1, 118), arrow=True)
    for column, label in ((10, "text with gaps"), (144, "text so far"), (x, "damaged text")):
        figure.text(column + WIDE / 2, 362, label, "middle small soft")
    figure.text(66, 204, "hidden pieces", "middle small soft")
    figure.text(200, 204, "next piece", "middle small soft")
    return figure


if __name__ == "__main__":
    draw().save()
