"""Six frames of the Transformer's training: its cross-attention for one sentence."""

import html

from drawing import Drawing
from recorded import matrices, run, sentence

UPDATES = (0, 50, 100, 350, 450, 4000)
CELL, ACROSS, DOWN = 17, 205, 190


def draw() -> Drawing:
    """Draw the matrices (predicted, source) of six updates, three in a row."""
    source, target = sentence(0)
    figure = Drawing(
        720,
        410,
        "Cross-attention of a Transformer for I want to buy a car at six updates: spread evenly at 0 and 50; "
        "at 100 only the first row is dark, and at 450 the row kaufen looks at buy",
    )
    figure.text(79, 17, "update", "end small bold")
    for number, update in enumerate(UPDATES):
        left, top = 85 + ACROSS * (number % 3), 65 + DOWN * (number // 3)
        figure.text(left + CELL * len(source) / 2, top - 48, f"{update:,}", "middle small bold")
        for index, name in enumerate(source):
            x = left + CELL * (index + 0.7)
            attributes = f'x="{x:g}" y="{top - 5}" transform="rotate(-60 {x:g} {top - 5})"'
            figure.parts.append(f'<text {attributes} class="small">{html.escape(name)}</text>')
        for row, line in enumerate(matrices(run("transformer"), "mean", 0)[update]):
            y = top + CELL * row
            if number % 3 == 0:
                figure.text(left - 6, y + 13, target[row], "end small")
            for column, weight in enumerate(line):
                figure.rectangle(left + CELL * column, y, CELL, CELL, "grid")
                if weight > 0.005:
                    figure.rectangle(left + CELL * column, y, CELL, CELL, "accent", float(weight))
    return figure


if __name__ == "__main__":
    draw().save()
