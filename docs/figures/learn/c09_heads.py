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
    """Draw a row for each head: its query, its weights as bars, its context; and the concatenation."""
    figure = Drawing(
        760,
        285,
        "Two heads give dog and cat their own weights; one head of full width gives both the same weight",
    )
    for x, name in ((146, "query"), (369, "weights"), (640, "context")):
        figure.text(x, 24, name, "middle soft")
    parts = (("head 1", slice(0, 2)), ("head 2", slice(2, 4)), ("one head", slice(0, 4)))
    for (name, columns), top in zip(parts, (42, 108, 220), strict=True):
        weights, context = attend(columns)
        look = "second" if name == "head 2" else "accent"
        figure.text(8, top + 23, name, "small bold")
        query = ", ".join(f"{x:g}" for x in Q[columns])
        figure.rectangle(90, top, 112, 36)
        figure.text(146, top + 23, f"({query})", "middle")
        figure.line((208, top + 18), (248, top + 18), arrow=True)
        for index, (word, weight) in enumerate(zip(WORDS, weights, strict=True)):
            x = 254 + 80 * index
            figure.rectangle(x, top, 70, 36, "grid")
            figure.rectangle(x, top, 70 * weight, 36, look, 0.5)
            figure.text(x + 35, top + 23, f"{weight:.3f}", "middle")
            figure.text(x + 35, top + 50, word, "middle small soft")
        figure.line((490, top + 18), (530, top + 18), arrow=True)
        label = ", ".join(f"{x:.3f}" for x in context)
        figure.rectangle(536, top, 214, 36)
        figure.text(643, top + 23, f"({label})", "middle")
    joined = ", ".join(f"{x:.3f}" for _, part in parts[:2] for x in attend(part)[1])
    figure.text(750, 182, f"side by side: ({joined})", "end bold")
    figure.line((8, 202), (750, 202), look="grid")
    return figure


if __name__ == "__main__":
    draw().save()
