"""Draw the remembered pieces that the pieces of a translation retrieved.

python docs/figures/retrieval.py        writes docs/figures/retrieval.svg
"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from learn.drawing import Drawing

import uwaga
from uwaga.inspection import look_up
from uwaga_memory import Memory, Pair

REMEMBERED = Pair("A man in a red shirt is sleeping.", "Ein Herr im roten Hemd schlummert.")
TEXT = "A man in a blue shirt is sleeping on a bench."
LEFT, HEIGHT = 92, 30
REMEMBERED_TOP, TRANSLATION_TOP = 38, 158


def spans(tokens: Sequence[str]) -> list[tuple[float, float]]:
    """Return the left edge and the width of each piece's box; there is more space between words."""
    result, x = list[tuple[float, float]](), float(LEFT)
    for token in tokens:
        width = max(33, 8 * len(token.replace("▁", "")) + 14)
        x += 10 if result and token[0] in "▁<" else 3
        result.append((x, width))
        x += width
    return result


def draw() -> Drawing:
    """Draw both sentences, and a line for each piece whose nearest state is within the radius."""
    with TemporaryDirectory() as folder, Memory.create(Path(folder) / "memory.uwm", "en", "de") as memory:
        memory.add([REMEMBERED])
        lookups = look_up(uwaga.load(), TEXT, memory)
    tokens = [lookup.token for lookup in lookups.tokens]
    remembered = lookups.pairs[0].tokens
    targets, boxes = spans(remembered), spans(tokens)
    title = "Pieces of a translation point at the pieces of a remembered sentence whose states are near"
    figure = Drawing(round(sum(boxes[-1]) + 8), 292, title, model=True)
    figure.text(LEFT + 3, 24, REMEMBERED.source, "small soft")
    figure.text(LEFT + 3, 278, TEXT, "small soft")
    for label, y in (
        ("remembered", 58),
        ("translation", 178),
        ("λ", 208),
        ("p, model", 228),
        ("p, mixed", 248),
    ):
        figure.text(LEFT - 8, y, label, "end small soft")
    for piece, (x, width) in zip(remembered, targets, strict=True):
        figure.rectangle(x, REMEMBERED_TOP, width, HEIGHT)
        figure.text(x + width / 2, REMEMBERED_TOP + 20, piece.replace("▁", ""), "middle small")
    for lookup, (x, width) in zip(lookups.tokens, boxes, strict=True):
        middle = x + width / 2
        figure.rectangle(x, TRANSLATION_TOP, width, HEIGHT)
        look = "target bold" if lookup.weight else ""
        figure.text(middle, TRANSLATION_TOP + 20, lookup.token.replace("▁", ""), f"middle small {look}")
        for y, value in ((208, lookup.weight), (228, lookup.model_probability), (248, lookup.probability)):
            figure.text(middle, y, f"{value:.2f}", "middle small")
        if lookup.weight:
            left, size = targets[lookup.position]
            ends = (middle, TRANSLATION_TOP - 2), (left + size / 2, REMEMBERED_TOP + HEIGHT + 2)
            figure.line(*ends, look="target-line", arrow=True, alpha=lookup.weight)
    return figure


if __name__ == "__main__":
    draw().save()
