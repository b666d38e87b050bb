"""The same three words in two orders: the same weights and contexts, in other rows and columns."""

import numpy as np
from c07_table import WK, WORDS, WQ, WV, X
from drawing import Drawing


def draw() -> Drawing:
    """Draw the weights and contexts of both orders one above the other."""
    figure = Drawing(
        370,
        366,
        "Weights and contexts of dogs chase cats and of cats chase dogs: rows and columns move with their "
        "words, the numbers stay",
    )
    for top, order in ((0, [0, 1, 2]), (184, [2, 1, 0])):
        x, words = X[order], [WORDS[index] for index in order]
        scores = (x @ WQ) @ (x @ WK).T / np.sqrt(2)
        weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        contexts = weights @ (x @ WV)
        figure.text(56, top + 24, " ".join(words), "bold")
        figure.table(56, top + 70, weights.tolist(), words, words, cell=56, digits=3)
        figure.text(294, top + 62, "context", "middle small soft")
        for row, context in enumerate(contexts):
            figure.text(294, top + 90 + 30 * row, f"({context[0]:.3f}, {context[1]:.3f})", "middle small")
    return figure


if __name__ == "__main__":
    draw().save()
