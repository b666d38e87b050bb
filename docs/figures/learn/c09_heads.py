"""Two heads of width two against one head of width four, on the same three keys."""

import numpy as np
from drawing import Drawing

WORDS = ("dog", "chases", "cat")
Q = np.array([2.0, 0.0, 0.0, 2.0])
K = np.array([[1.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 1.0]])  # also the values


def attend(columns: slice) -> tuple[np.ndarray, np.ndarray]:
    """Return weights and context of a head that has these columns."""
    q, k = Q[columns], K[:, columns]
    scores = np.exp(k @ q / len(q) ** 0.5)
    weights = scores / scores.sum()
    return weights, weights @ k


def draw() -> Drawing:
    """Draw a block for each head: its query, its weights as bars, its context; and the concatenation."""
    figure = Drawing(
        390,
        404,
        "Two heads give dog and cat their own weights; one head of full width gives both the same weight",
    )
    parts = (("head 1", slice(0, 2)), ("head 2", slice(2, 4)), ("one head", slice(0, 4)))
    for (name, columns), top in zip(parts, (10, 126, 288), strict=True):
        weights, context = attend(columns)
        query = ", ".join(f"{x:g}" for x in Q[columns])
        figure.text(10, top + 14, name, "bold")
        figure.text(96, top + 14, f"query ({query})", "query")
        for index, (word, weight) in enumerate(zip(WORDS, weights, strict=True)):
            x = 10 + 126 * index
            figure.rectangle(x, top + 26, 116, 30, "grid")
            figure.rectangle(x, top + 26, 116 * weight, 30, "accent", 0.5)
            figure.text(x + 58, top + 46, f"{weight:.3f}", "middle")
            figure.text(x + 58, top + 72, word, "middle small key")
        label = ", ".join(f"{x:.3f}" for x in context)
        figure.text(10, top + 96, f"context ({label})")
    joined = ", ".join(f"{x:.3f}" for _, part in parts[:2] for x in attend(part)[1])
    figure.text(10, 256, f"side by side ({joined})", "bold")
    figure.line((10, 272), (380, 272), look="grid")
    return figure


if __name__ == "__main__":
    draw().save()
