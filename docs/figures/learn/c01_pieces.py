"""From a text to pieces, ids and vectors, with the tokeniser and the table of the bundled model."""

from drawing import Drawing

import uwaga

DIMENSIONS = 5
"""Coordinates of each vector that are drawn."""
CELL = 66


def draw() -> Drawing:
    """Draw text, pieces, ids and the first coordinates of each embedding, from top to bottom."""
    translator = uwaga.load(engine="torch")
    text = "The astronomer sleeps."
    ids = translator.source.add_special_tokens(translator.source.encode(text))
    table = translator.decoder.source_embedding.weight.detach().float()  # (vocabulary, width)
    left = 92
    title = f"The text “{text}” as {len(ids)} pieces, their ids, and the first coordinates of their vectors"
    figure = Drawing(left + CELL * len(ids) + 10, 340, title, model=True)
    figure.text(80, 32, "text", "end soft")
    figure.text(left + CELL * len(ids) / 2, 32, text, "middle bold")
    figure.line((left, 46), (left + CELL * len(ids), 46), look="grid")
    for name, y in (("pieces", 79), ("ids", 133), ("vectors", 227)):
        figure.text(80, y, name, "end soft")
    for index, (piece, token) in enumerate(zip(translator.source.pieces(ids), ids, strict=True)):
        x = left + CELL * index
        special = token == translator.source.symbols.end
        figure.rectangle(x + 3, 58, CELL - 6, 32)
        figure.text(x + CELL / 2, 79, piece, "middle small bold" if special else "middle small")
        figure.line((x + CELL / 2, 92), (x + CELL / 2, 114), arrow=True)
        figure.text(x + CELL / 2, 133, str(token), "middle")
        figure.line((x + CELL / 2, 141), (x + CELL / 2, 163), arrow=True)
        for row in range(DIMENSIONS):
            value, y = float(table[token, row]), 168 + 26 * row
            look = "accent" if value > 0 else "second"
            figure.rectangle(x + 6, y, CELL - 12, 26, "grid")
            figure.rectangle(x + 6, y, CELL - 12, 26, look, min(0.6, 3 * abs(value)))
            figure.text(
                x + CELL / 2, y + 18, f"{round(value, 2) + 0.0:.2f}".replace("-", "−"), "middle small"
            )
        figure.text(x + CELL / 2, 315, "⋮", "middle")
    figure.text(80, 315, f"to {table.shape[1]}", "end small soft")
    return figure


if __name__ == "__main__":
    draw().save()
