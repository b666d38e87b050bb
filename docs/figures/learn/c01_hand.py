"""Two steps of a decoder over a vocabulary of three pieces, by hand."""

import numpy as np
from drawing import Drawing

PIECES = ("cats", "sleep", "</s>")
E = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
STEPS = (("<s>", "(ln 2, 0)", np.log([2.0, 1.0]), 0), ("cats", "(ln 18, ln 18)", np.log([18.0, 18.0]), 2))


def draw() -> Drawing:
    """Draw for each step: what is read, the vector, logits and probabilities, and the chosen factor."""
    figure = Drawing(
        720, 316, "Two steps over three pieces: the factors 0.4 and 0.9 multiply to a probability of 0.36"
    )
    for x, name in ((60, "read"), (190, "vector d"), (350, "logits E d"), (560, "probabilities")):
        figure.text(x, 24, name, "middle soft")
    product = 1.0
    for step, (read, label, vector, token) in enumerate(STEPS):
        top = 44 + 122 * step
        logits = E @ vector
        shares = np.exp(logits) / np.exp(logits).sum()
        product *= shares[token]
        figure.rectangle(20, top + 30, 80, 36)
        figure.text(60, top + 53, read, "middle")
        figure.line((102, top + 48), (126, top + 48), arrow=True)
        figure.rectangle(130, top + 30, 120, 36)
        figure.text(190, top + 53, label, "middle")
        figure.line((252, top + 48), (286, top + 48), arrow=True)
        for index, piece in enumerate(PIECES):
            y = top + 32 * index
            best = index == token
            figure.text(330, y + 20, piece, "end bold" if best else "end")
            figure.text(390, y + 20, f"{logits[index]:.3f}", "end")
            figure.line((400, y + 15), (436, y + 15), arrow=True)
            figure.rectangle(440, y, 200, 28, "grid")
            figure.rectangle(440, y, 200 * shares[index], 28, "second" if best else "accent", 0.5)
            figure.text(650, y + 20, f"{shares[index]:.2f}", "bold" if best else "")
    figure.line((20, 282), (700, 282), look="grid")
    figure.text(360, 304, f"p(cats </s>) = 0.4 · 0.9 = {product:.2f}", "middle bold")
    return figure


if __name__ == "__main__":
    draw().save()
