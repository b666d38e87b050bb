"""One step of attention over three annotations, by hand."""

import numpy as np
from drawing import Drawing

H = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
S = np.array([1.0, 0.0])


def draw() -> Drawing:
    """Draw annotations, scores, weights and the context, from left to right."""
    scores = np.tanh(S + H).sum(axis=1)
    weights = np.exp(scores) / np.exp(scores).sum()
    context = weights @ H
    figure = Drawing(
        680,
        250,
        "Three annotations, their scores, the weights after the softmax, and the context, a weighted sum",
    )
    for x, name in ((70, "annotation"), (230, "score"), (390, "weight"), (590, "context")):
        figure.text(x, 24, name, "middle soft")
    for index, (h, score, weight) in enumerate(zip(H, scores, weights, strict=True)):
        y = 50 + 60 * index
        figure.rectangle(20, y, 100, 36)
        figure.text(70, y + 23, f"h{'₁₂₃'[index]} = ({h[0]:g}, {h[1]:g})", "middle")
        figure.line((120, y + 18), (196, y + 18), arrow=True)
        figure.text(230, y + 23, f"{score:.3f}", "middle")
        figure.line((264, y + 18), (336, y + 18), arrow=True)
        figure.rectangle(340, y, 100, 36, "grid")
        figure.rectangle(340, y, 100 * weight, 36, "accent", 0.5)
        figure.text(390, y + 23, f"{weight:.3f}", "middle")
        figure.line((444, y + 18), (528, 128), arrow=True)
    figure.rectangle(530, 110, 126, 36)
    figure.text(593, 133, f"({context[0]:.3f}, {context[1]:.3f})", "middle bold")
    figure.text(230, 238, "vᵀ tanh(W s + U h)", "middle small soft")
    figure.text(390, 238, "softmax", "middle small soft")
    figure.text(593, 238, "Σ α h", "middle small soft")
    return figure


if __name__ == "__main__":
    draw().save()
