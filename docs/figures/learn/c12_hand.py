"""Three greedy steps of a decoder that has nothing but cross-attention, by hand."""

import numpy as np
from drawing import Drawing

KEYS = np.array([[0.0, 2, 0, 0], [2, 0, 0, 0], [0, 0, 2, 0]])
VALUES = np.array([[0.0, 4, 0], [4, 0, 0], [0, 0, 4]])
QUERIES = np.array([[2.0, 1, 0, 0], [0, 3, 1, 0], [0, 0, 3, 0]])
SOURCE, WORDS, INPUTS = ["black", "cat", "</s>"], ["chat", "noir", "</s>"], ["<s>", "chat", "noir"]


def _softmax(scores: np.ndarray) -> np.ndarray:
    return np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)


def draw() -> Drawing:
    """Draw a row for each step: the token fed, weights, probabilities, the token written."""
    weights = _softmax(QUERIES @ KEYS.T / 2)  # (step, source)
    chances = _softmax(weights @ VALUES)  # (step, vocabulary)
    figure = Drawing(
        720, 330, "Three greedy steps: token fed, weights over the source, probabilities, token written"
    )
    for x, name in ((58, "fed"), (234, "weights over the source"), (498, "probabilities"), (664, "written")):
        figure.text(x, 22, name, "middle soft")
    for step, (row, chance) in enumerate(zip(weights, chances, strict=True)):
        y = 66 + 96 * step
        figure.rectangle(18, y, 80, 32)
        figure.text(58, y + 21, INPUTS[step], "middle")
        figure.line((98, y + 16), (136, y + 16), arrow=True)
        for x, names, numbers, side in ((138, SOURCE, row, "source"), (402, WORDS, chance, "target")):
            for index, (name, number) in enumerate(zip(names, numbers, strict=True)):
                figure.text(x + 64 * index + 32, y - 8, name, "middle small")
                figure.rectangle(x + 64 * index, y, 64, 32, "grid")
                figure.rectangle(x + 64 * index, y, 64, 32, side, 0.7 * number)
                figure.text(x + 64 * index + 32, y + 21, f"{number:.3f}", "middle small")
        figure.line((330, y + 16), (400, y + 16), arrow=True)
        figure.text(364, y + 8, "times V", "middle small soft")
        figure.text(364, y + 34, "softmax", "middle small soft")
        figure.line((594, y + 16), (622, y + 16), arrow=True)
        figure.rectangle(624, y, 80, 32)
        figure.text(664, y + 21, WORDS[int(chance.argmax())], "middle bold")
        if step < 2:
            figure.line(
                (664, y + 32), (664, y + 54), (40, y + 54), (40, y + 94), look="target-line", arrow=True
            )
    figure.text(
        361, 316, "Each token written is fed at the next step; the keys and values stay.", "middle small"
    )
    return figure


if __name__ == "__main__":
    draw().save()
