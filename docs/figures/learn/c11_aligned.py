"""A target of seven pieces in training: input, mask and output, with the bundled model's probabilities."""

import numpy as np
import torch
from drawing import Drawing

import uwaga
from uwaga.models.transformer import Transformer

CELL = 54


def pieces_and_probabilities() -> tuple[list[str], list[str], list[float]]:
    """Return input and output pieces of a reference, and the probability of each output piece."""
    translator = uwaga.load(engine="torch")
    model = translator.decoder
    assert isinstance(model, Transformer)
    source, target = translator.source, translator.target
    read = source.add_special_tokens(source.encode("I want to buy a car."))
    out = target.add_special_tokens(target.encode("Ich möchte ein Auto kaufen."))
    inputs = [model.symbols.start, *out[:-1]]
    with torch.inference_mode():
        log_probs = model(torch.tensor([read]), torch.tensor([inputs]))[0]
    names = [[piece.replace("▁", "") for piece in target.pieces(ids)] for ids in (inputs, out)]
    return (
        names[0],
        names[1],
        np.exp([float(log_probs[position, token]) for position, token in enumerate(out)]).tolist(),
    )


def draw() -> Drawing:
    """Draw the mask as a table: a row for each position, a column for each input that it may read."""
    inputs, out, probabilities = pieces_and_probabilities()
    count, left, top = len(inputs), 96, 74
    right = left + CELL * count
    figure = Drawing(
        680,
        top + 34 * count + 34,
        "Each position of the decoder reads the inputs up to its own and predicts the next piece",
        model=True,
    )
    figure.text(left + CELL * count / 2, 22, "inputs that a position may read", "middle soft")
    figure.text(left - 12, 58, "input", "end soft")
    figure.text(right + 50, 58, "to predict", "soft")
    figure.text(right + 152, 58, "p", "soft")
    for index, (name, expected, probability) in enumerate(zip(inputs, out, probabilities, strict=True)):
        figure.text(left + (index + 0.5) * CELL, 58, name, "middle small")
        y = top + 34 * index
        figure.text(left - 12, y + 22, name, "end")
        for column in range(count):
            x = left + column * CELL
            figure.rectangle(x, y, CELL, 34, "grid")
            if column <= index:
                figure.rectangle(x, y, CELL, 34, "accent", 0.5)
            else:
                figure.text(x + CELL / 2, y + 22, "−∞", "middle small soft")
        figure.line((right + 8, y + 17), (right + 42, y + 17), arrow=True)
        figure.text(right + 50, y + 22, expected, "bold")
        figure.text(right + 140, y + 22, f"{probability:.2f}")
    bottom = top + 34 * count + 24
    figure.text(
        left, bottom, "coloured: the row’s position reads this input; −∞: hidden from it", "small soft"
    )
    return figure


if __name__ == "__main__":
    draw().save()
