"""Two steps of a decoder over a vocabulary of three pieces, by hand."""

import numpy as np
from drawing import Drawing

PIECES = ("cats", "sleep", "</s>")
E = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
STEPS = (("<s>", "(ln 2, 0)", np.log([2.0, 1.0]), 0), ("cats", "(ln 18, ln 18)", np.log([18.0, 18.0]), 2))


def draw() -> Drawing:
    """Draw for each step: what is read, the vector, logits and probabilities, and the chosen factor."""
    figure = Drawing(
        400, 316, "Two steps over three pieces: the factors 0.4 and 0.9 multiply to a probability of 0.36"
    )
    for x, name in ((54, "read, vector d"), (192, "logits E d"), (310, "probabilities")):
        figure.text(x, 24, name, "middle small soft")
    product = 1.0
    for step, (read, label, vector, token) in enumerate(STEPS):
        top = 44 + 122 * step
        logits = E @ vector
        shares = np.exp(logits) / np.exp(logits).sum()
        product *= shares[token]
        figure.rectangle(14, top, 80, 28)
        figure.text(54, top + 19, read, "middle")
        figure.line((54, top + 30), (54, top + 56), arrow=True)
        figure.rectangle(2, top + 58, 104, 30)
        figure.text(54, top + 78, label, "middle")
        figure.line((108, top + 73), (132, top + 60), arrow=True)
        for index, piece in enumerate(PIECES):
            y = top + 32 * index
            best = index == token
            figure.text(180, y + 20, piece, "end bold" if best else "end")
            figure.text(234, y + 20, f"{logits[index]:.3f}", "end")
            figure.line((240, y + 15), (258, y + 15), arrow=True)
            figure.rectangle(262, y, 96, 28, "grid")
            figure.rectangle(262, y, 96 * shares[index], 28, "second" if best else "accent", 0.5)
            figure.text(364, y + 20, f"{shares[index]:.2f}", "bold" if best else "")
    figure.line((4, 282), (396, 282), look="grid")
    figure.text(200, 304, f"p(cats </s>) = 0.4 · 0.9 = {product:.2f}", "middle bold")
    return figure


if __name__ == "__main__":
    draw().save()
