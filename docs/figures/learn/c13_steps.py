"""The bundled model's candidates at each step of a translation, as greedy search sees them."""

import numpy as np
from drawing import Drawing

import uwaga
from uwaga.decoder import Choice

TEXT = "I want to buy a car."
COUNT = 5


def draw() -> Drawing:
    """Draw a column of candidates with their probabilities for each step."""
    [model] = uwaga.load().models
    decoder = model.decoder
    [(source, target)] = model.pair_ids([(TEXT, "Ich möchte ein Auto kaufen.")])
    state, before = decoder.start(decoder.encode([source]), 1), decoder.symbols.start
    figure = Drawing(
        22 + 100 * len(target),
        222,
        "Five candidates of the bundled model at each step of a translation, the most probable first",
        model=True,
    )
    for step_index, token in enumerate(target):
        step = decoder.step(np.array([before]), state, Choice(count=COUNT))
        left = 16 + 100 * step_index
        figure.text(left, 24, f"step {step_index + 1}", "small soft")
        for row, (token_id, log_prob) in enumerate(zip(step.tokens[0], step.log_probs[0], strict=True)):
            top, p = 36 + 36 * row, float(np.exp(log_prob))
            figure.rectangle(left, top, 92, 30, "grid")
            figure.rectangle(left, top, max(92 * p, 1), 30, "accent" if token_id == token else "second", 0.4)
            name = model.target.pieces([int(token_id)])[0].replace("▁", "") or "▁"
            figure.text(left + 5, top + 20, name, "small")
            figure.text(left + 88, top + 20, f"{p:.2f}", "end small")
        state, before = step.state, token
    return figure


if __name__ == "__main__":
    draw().save()
