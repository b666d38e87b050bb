"""A sublayer with the norm before it and one with the norm after it, with the numbers of the example."""

import numpy as np
from c10_transformer import UNIT, Norm, Stacks
from drawing import Drawing

X = np.array([9.0, 3.0, 3.0, 1.0])
W1 = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
W2 = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 0.0], [0.0, 3.0]])


def layer_norm(x: np.ndarray) -> np.ndarray:
    """Return x with mean 0 and variance 1."""
    return (x - x.mean()) / x.std()


def feed_forward(x: np.ndarray) -> np.ndarray:
    """Return the output of the example's feed-forward layer."""
    return W2 @ np.maximum(0, W1 @ x)


def vector(x: np.ndarray) -> str:
    """Return the numbers of a vector with at most two digits."""
    return "(" + ", ".join(f"{value:.2f}".rstrip("0").rstrip(".").replace("-", "−") for value in x) + ")"


def draw() -> Drawing:
    """Draw pre-norm on the left and post-norm on the right."""
    figure = Drawing(
        620,
        290,
        "One sublayer twice: with the norm before the feed-forward layer, and with it after the addition",
    )
    kinds: tuple[tuple[float, Norm, str], ...] = (
        (40, "pre", "pre-norm: the stream keeps x"),
        (350, "post", "post-norm: the stream is normalised"),
    )
    for left, norm, title in kinds:
        stacks, ground = Stacks(figure, norm), 232
        figure.text(left - 30, 24, title, "bold")
        figure.line((left, ground + 26), (left, 50), arrow=True)
        stacks.sublayer(left, ground, "feed-forward", "", 1)
        figure.text(left - 30, ground + 46, f"x = {vector(X)}")
        inner = layer_norm(X) if norm == "pre" else X
        branch = feed_forward(inner)
        total = X + branch
        right_edge = left + 76
        if norm == "pre":
            figure.text(left + 134, ground - 28, vector(inner), "small")
            figure.text(right_edge, ground - UNIT + 4, vector(branch), "small accent")
            figure.text(left + 14, ground - UNIT - 14, vector(total), "bold")
        else:
            figure.text(right_edge + 60, ground - UNIT + 26, vector(branch), "small accent")
            figure.text(left + 14, ground - UNIT - 26, vector(layer_norm(total)), "bold")
            figure.text(left + 40, ground - UNIT + 12, vector(total), "small")
    return figure


if __name__ == "__main__":
    draw().save()
