"""A whole translation of the bundled model in three greedy steps: the best candidates of each."""

import numpy as np
from drawing import Drawing

import uwaga
from uwaga.decoder import Choice


def draw() -> Drawing:
    """Draw the four best candidates of each step as bars."""
    translator = uwaga.load()
    model = translator.decoder
    source = translator.source.add_special_tokens(translator.source.encode("Thank you."))
    state, token = model.start(model.encode([source]), beams=1), np.array([model.symbols.start])
    title = "The four best candidates at each of the three greedy steps that translate the sentence Thank you"
    figure = Drawing(720, 200, title, model=True)
    for number in range(3):
        x, input_piece = 10 + 240 * number, translator.target.pieces(token.tolist())[0].replace("▁", "")
        figure.text(x, 22, f"step {number + 1}, fed: {input_piece}", "bold")
        step = model.step(token, state, Choice(count=4))
        names = [name.replace("▁", "") for name in translator.target.pieces(step.tokens[0].tolist())]
        for index, (name, log_prob) in enumerate(zip(names, step.log_probs[0], strict=True)):
            y, chance = 42 + 38 * index, float(np.exp(log_prob))
            figure.text(x + 46, y + 20, name, "end small")
            figure.rectangle(x + 54, y, 120, 28, "grid")
            figure.rectangle(x + 54, y, max(1, 120 * chance), 28, "accent", 0.6 if index == 0 else 0.3)
            figure.text(x + 182, y + 20, f"{chance:.3f}", "small")
        token, state = step.tokens[:, 0], step.state
    return figure


if __name__ == "__main__":
    draw().save()
