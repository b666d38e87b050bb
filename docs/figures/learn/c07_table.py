"""Self-attention of three words of width two: queries, keys, values, scores, weights, contexts."""

import numpy as np
from drawing import Drawing

WORDS = ["dogs", "chase", "cats"]
X = np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
WQ = np.array([[0.0, 1.0], [1.0, 0.0]])
WK = np.array([[2.0, 0.0], [0.0, 1.0]])
WV = np.array([[1.0, 1.0], [0.0, 2.0]])


def draw() -> Drawing:
    """Draw the tables from top to bottom, with arrows from each table to the next."""
    queries, keys, values = X @ WQ, X @ WK, X @ WV
    scores = queries @ keys.T / np.sqrt(2)
    weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    contexts = weights @ values
    figure = Drawing(
        390,
        620,
        "Self-attention of three words: queries, keys and values from X, a table of nine scores, the weights "
        "of each row, and the contexts",
    )
    figure.text(206, 20, "words X", "middle bold")
    figure.table(170, 40, X.tolist(), WORDS, ["", ""], cell=36, digits=0, shade=False)
    for x, name, rows, look in (
        (60, "Q = X · Wq", queries, "query"),
        (185, "K = X · Wk", keys, "key"),
        (310, "V = X · Wv", values, "value"),
    ):
        figure.line((206, 136), (x + 36, 158), arrow=True)
        figure.text(x + 36, 178, name, f"middle bold {look}")
        figure.table(x, 194, rows.tolist(), WORDS, ["", ""], cell=36, digits=0, shade=False)
    figure.line((96, 290), (112, 318), look="query-line", arrow=True)
    figure.line((221, 290), (150, 318), look="key-line", arrow=True)
    figure.text(126, 338, "scores Q · Kᵀ / √2", "middle bold")
    figure.table(60, 370, scores.tolist(), WORDS, WORDS, cell=44, largest=float(scores.max()))
    figure.line((198, 333), (240, 333), arrow=True)
    figure.text(312, 338, "weights: softmax", "middle bold")
    figure.table(246, 370, weights.tolist(), WORDS, WORDS, cell=44, digits=3)
    figure.line((312, 466), (260, 490), arrow=True)
    figure.parts.append('<path d="M384 290V565H290" class="value-line" marker-end="url(#arrow)"/>')
    figure.text(220, 510, "contexts: weights · V", "middle bold")
    figure.table(160, 520, contexts.tolist(), WORDS, ["", ""], cell=60, digits=3, shade=False)
    return figure


if __name__ == "__main__":
    draw().save()
