"""Three models as changes of chapter 10's drawing: BERT, GPT-2, and a decoder with an SSRU."""

from c10_transformer import REACH, UNIT, WIDE, Norm, Stacks
from drawing import Drawing

GROUND = 470
SUBLAYERS = {
    "BERT": ("self-attention", "feed-forward"),
    "GPT-2": ("self-attention", "cross-attention", "feed-forward"),
    "SSRU": ("SSRU", "cross-attention", "feed-forward"),
}
LIT = ("BERT segments", "BERT head", "changed")
MISSING = ("GPT-2 cross-attention",)


def _column(figure: Drawing, x: float, model: str, norm: Norm, title: str, mask: str) -> None:
    stacks = Stacks(figure, norm, LIT, MISSING)
    parts = SUBLAYERS[model]
    roof, column_x = GROUND - len(parts) * UNIT, x + REACH
    figure.text(x - 40, 22, title, "bold")
    figure.rectangle(x - 40, roof - 4, REACH + WIDE / 2 + 52, GROUND - roof + 4, "grid")
    figure.line((x, GROUND + 110), (x, roof - 62), arrow=True)
    figure.line((column_x - 76, GROUND + 42), (x + 10, GROUND + 42), arrow=True)
    figure.text(x + 38, GROUND + 19, mask, "small accent")
    stacks.box(x, GROUND + 88, "E", f"{model} embedding", 64, 28)
    stacks.plus(x, GROUND + 42)
    stacks.box(column_x, GROUND + 42, "positions", f"{model} positions")
    for number, part in enumerate(parts):
        stacks.sublayer(x, GROUND - number * UNIT, part, f"{model} {part}", 1)
    stacks.box(column_x, GROUND - (72 if norm == "pre" else 50), parts[0], "changed")


def draw() -> Drawing:
    """Draw the blocks side by side, with new boxes in colour and missing ones faint."""
    figure = Drawing(
        870,
        608,
        "Three changes of one drawing: an encoder alone, a decoder alone, and a decoder with another box",
    )
    left, centre, right = 60, 324, 588
    _column(figure, left, "BERT", "post", "BERT: the encoder alone", "all positions see all")
    _column(figure, centre, "GPT-2", "pre", "GPT-2: the decoder alone", "look-ahead mask")
    _column(figure, right, "SSRU", "post", "SSRU in the decoder", "one vector for all before")
    stacks = Stacks(figure, "post", LIT)
    figure.line((left + REACH - 76, GROUND + 88), (left + 8, GROUND + 49), arrow=True)
    stacks.box(left, GROUND + 15, "norm", "BERT segments", 64, 24)
    stacks.box(left + REACH, GROUND + 88, "segments", "BERT segments")
    stacks.box(left, GROUND - 2 * UNIT - 80, "head, Eᵀ", "BERT head", 78, 28)
    figure.line((left, GROUND - 2 * UNIT - 94), (left, GROUND - 2 * UNIT - 116), arrow=True)
    figure.text(left - 40, GROUND - 2 * UNIT - 124, "the hidden pieces", "")
    figure.text(left, GROUND + 126, "text with gaps", "middle")
    for x, label, name in ((centre, "text so far", "GPT-2"), (right, "target so far", "SSRU")):
        y = GROUND - 3 * UNIT - 48
        if name == "GPT-2":
            stacks.box(x, y + 22, "norm", "GPT-2 last norm", 64, 24)
        stacks.box(x, y - 14, "Eᵀ", f"{name} output", 64, 28)
        figure.line((x, y - 28), (x, y - 44), arrow=True)
        figure.text(x + 12, y - 40, "next piece", "")
        figure.text(x, GROUND + 126, label, "middle")
    cross, edge = GROUND - UNIT - 50, right + REACH + WIDE / 2
    figure.line(
        (edge + 40, cross + 60), (edge + 40, cross), (edge + 2, cross), look="accent-line", arrow=True
    )
    figure.text(edge + 18, cross + 78, "from the", "small")
    figure.text(edge + 18, cross + 94, "encoder", "small")
    return figure


if __name__ == "__main__":
    draw().save()
