"""Self-attention of three words of width two: queries, keys, values, scores, weights, contexts."""

import numpy as np
from drawing import Drawing

WORDS = ["dogs", "chase", "cats"]
X = np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
WQ = np.array([[0.0, 1.0], [1.0, 0.0]])
WK = np.array([[2.0, 0.0], [0.0, 1.0]])
WV = np.array([[1.0, 1.0], [0.0, 2.0]])


def draw() -> Drawing:
    """Draw the tables from left to right, with arrows from each table to the next."""
    queries, keys, values = X @ WQ, X @ WK, X @ WV
    scores = queries @ keys.T / np.sqrt(2)
    weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    contexts = weights @ values
    figure = Drawing(
        750,
        440,
        "Self-attention of three words: queries, keys and values from X, a table of nine scores, the weights "
        "of each row, and the contexts",
    )
    figure.text(92, 164, "words: X", "middle")
    figure.table(56, 190, X.tolist(), WORDS, ["", ""], cell=36, digits=0, shade=False)
    for y, name, rows in (
        (50, "queries: X · Wq", queries),
        (190, "keys: X · Wk", keys),
        (330, "values: X · Wv", values),
    ):
        figure.text(246, y - 12, name, "middle")
        figure.table(210, y, rows.tolist(), WORDS, ["", ""], cell=36, digits=0, shade=False)
        figure.line((134, 235), (158, y + 45), arrow=True)
    figure.text(437, 94, "scores: Q · Kᵀ / √2", "middle")
    figure.table(368, 120, scores.tolist(), WORDS, WORDS, shade=True, largest=float(scores.max()))
    figure.line((286, 95), (322, 145), arrow=True)
    figure.line((286, 235), (322, 185), arrow=True)
    figure.text(659, 94, "weights: softmax of rows", "middle")
    figure.table(590, 120, weights.tolist(), WORDS, WORDS, digits=3)
    figure.line((510, 165), (540, 165), arrow=True)
    figure.text(659, 318, "contexts: weights · V", "middle")
    figure.table(599, 330, contexts.tolist(), WORDS, ["", ""], cell=60, digits=3, shade=False)
    figure.line((659, 216), (659, 300), arrow=True)
    figure.line((286, 375), (546, 375), arrow=True)
    return figure


if __name__ == "__main__":
    draw().save()
