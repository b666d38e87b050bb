"""A block of GPT-2 beside a block of Llama 3: the same drawing with other boxes."""

from drawing import Drawing

GPT2 = ("feed-forward, GELU", "layer norm", "12 heads, 12 keys", "layer norm", "+ position", "embedding")
LLAMA3 = ("feed-forward, SwiGLU", "RMS norm", "32 heads, 8 keys", "RMS norm", "", "embedding")
TURNED = 2
"""Index of the box in which positions turn queries and keys."""
WIDE, HIGH, STEP = 172, 40, 56


def _column(figure: Drawing, x: float, title: str, boxes: tuple[str, ...], others: tuple[str, ...]) -> None:
    figure.text(x + WIDE / 2, 22, title, "middle bold")
    figure.line((x + WIDE / 2, 40 + STEP * 6), (x + WIDE / 2, 34), arrow=True)
    for index, (label, other) in enumerate(zip(boxes, others, strict=True)):
        y = 48 + STEP * index
        if not label:
            continue
        figure.rectangle(x, y, WIDE, HIGH)
        if label != other:
            figure.rectangle(x, y, WIDE, HIGH, "accent", 0.3)
        turned = boxes is LLAMA3 and index == TURNED
        figure.text(x + WIDE / 2, y + (18 if turned else 25), label, "middle")
        if turned:
            figure.text(x + WIDE / 2, y + 34, "positions turn q and k", "middle small")


def draw() -> Drawing:
    """Draw the boxes of a block in the order in which a vector passes them, from below."""
    title = "A block of GPT-2 beside a block of Llama 3: other norms, heads, feed-forward and positions"
    figure = Drawing(400, 384, title)
    _column(figure, 14, "GPT-2", GPT2, GPT2)
    _column(figure, 214, "Llama 3", LLAMA3, GPT2)
    return figure


if __name__ == "__main__":
    draw().save()
