"""An encoder-decoder unrolled over a sentence, with the states of a one-unit GRU computed by hand."""

import numpy as np
from drawing import Drawing

SOURCE, INPUTS, TARGET = ("buy", "a", "car"), (1.0, 0.0, 0.0), ("ein", "Auto", "kaufen")
COLUMNS = (112, 222, 332)
ENCODER, DECODER, WORDS = 88, 258, 352


def states() -> list[float]:
    """Return the state after each input, with all weights 1."""
    h, hidden_states = 0.0, []
    for x in INPUTS:
        update = 1 / (1 + np.exp(-(x + h)))
        h = update * h + (1 - update) * np.tanh(x + update * h)
        hidden_states.append(h)
    return hidden_states


def draw() -> Drawing:
    """Draw the encoder above, its last state c, and the decoder below, each from left to right."""
    figure = Drawing(
        400,
        372,
        "An encoder reads buy a car, its last state becomes c, and all that the decoder gets is c",
    )
    figure.text(2, ENCODER + 24, "encoder", "small soft")
    figure.text(2, DECODER + 24, "decoder", "small soft")
    for index, (x, word, value, h) in enumerate(zip(COLUMNS, SOURCE, INPUTS, states(), strict=True)):
        figure.text(x, 22, word, "middle bold source")
        figure.text(x, 42, f"x = {value:g}", "middle small")
        figure.line((x, 50), (x, ENCODER - 2), look="source-line", arrow=True)
        figure.rectangle(x - 38, ENCODER, 76, 38, "source", 0.2)
        figure.text(x, ENCODER + 24, f"{h:.3f}", "middle")
        figure.text(x - 34, ENCODER - 6, f"h{'₁₂₃'[index]}", "small")
        if index < 2:
            figure.line((x + 38, ENCODER + 19), (x + 70, ENCODER + 19), look="source-line", arrow=True)
    middle = COLUMNS[1]
    figure.line(
        (COLUMNS[2], ENCODER + 40), (COLUMNS[2], 172), (middle + 26, 172), look="source-line", arrow=True
    )
    figure.rectangle(middle - 22, 154, 44, 36, "source", 0.45)
    figure.text(middle, 177, "c", "middle bold")
    figure.text(2, 168, "all that the decoder", "small soft")
    figure.text(2, 184, "gets of the source", "small soft")
    figure.line((middle, 192), (middle, 216), look="source-line")
    figure.line((COLUMNS[0], 216), (COLUMNS[2], 216), look="source-line")
    for index, (x, word) in enumerate(zip(COLUMNS, TARGET, strict=True)):
        figure.line((x, 216), (x, DECODER - 2), look="source-line", arrow=True)
        figure.rectangle(x - 38, DECODER, 76, 38, "target", 0.2)
        figure.text(x, DECODER + 24, f"s{'₁₂₃'[index]}", "middle")
        figure.line((x, DECODER + 40), (x, WORDS - 16), look="target-line", arrow=True)
        figure.text(x, WORDS, word, "middle bold target")
        if index < 2:
            figure.line((x + 38, DECODER + 12), (x + 70, DECODER + 12), look="target-line", arrow=True)
            figure.line(
                (x + 24, WORDS - 5),
                (x + 54, WORDS - 5),
                (x + 54, DECODER + 28),
                (x + 70, DECODER + 28),
                look="target-line",
                arrow=True,
            )
    figure.text(2, WORDS, "start", "small target")
    figure.line(
        (34, WORDS - 5),
        (54, WORDS - 5),
        (54, DECODER + 28),
        (72, DECODER + 28),
        look="target-line",
        arrow=True,
    )
    return figure


if __name__ == "__main__":
    draw().save()
