"""From a text to pieces, ids and vectors, with the tokeniser and the table of the bundled model."""

from drawing import Drawing

import uwaga

DIMENSIONS = 3
"""Number of coordinates drawn of each vector."""
ROW, FIRST, CELL = 30, 204, 56


def draw() -> Drawing:
    """Draw a row for each piece: the piece, its id, and the first coordinates of its embedding."""
    translator = uwaga.load(engine="torch")
    text = "The astronomer sleeps."
    ids = translator.source.add_special_tokens(translator.source.encode(text))
    table = translator.decoder.source_embedding.weight.detach().float()  # (vocabulary, width)
    title = f"The text “{text}” as {len(ids)} pieces, their ids, and the first coordinates of their vectors"
    figure = Drawing(400, 78 + ROW * len(ids), title, model=True)
    figure.text(200, 24, text, "middle bold")
    for x, name in ((52, "piece"), (144, "id"), (FIRST + 1.5 * CELL, f"vector of {table.shape[1]} numbers")):
        figure.text(x, 54, name, "middle small soft")
    for index, (piece, token) in enumerate(zip(translator.source.pieces(ids), ids, strict=True)):
        top = 64 + ROW * index
        special = token == translator.source.symbols.end
        figure.rectangle(6, top, 92, ROW - 4)
        figure.text(52, top + 18, piece, "middle bold" if special else "middle")
        figure.line((100, top + 13), (120, top + 13), arrow=True)
        figure.text(144, top + 18, str(token), "middle")
        figure.line((168, top + 13), (198, top + 13), arrow=True)
        for column in range(DIMENSIONS):
            value, x = float(table[token, column]), FIRST + CELL * column
            look = "accent" if value > 0 else "second"
            figure.rectangle(x, top, CELL - 4, ROW - 4, "grid")
            figure.rectangle(x, top, CELL - 4, ROW - 4, look, min(0.6, 3 * abs(value)))
            figure.text(
                x + CELL / 2 - 2, top + 18, f"{round(value, 2) + 0.0:.2f}".replace("-", "−"), "middle small"
            )
        figure.text(FIRST + CELL * DIMENSIONS + 8, top + 18, "…", "middle")
    return figure


if __name__ == "__main__":
    draw().save()
