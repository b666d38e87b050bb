"""A simple recurrent unit over three positions, by hand, and the same as weights over the inputs."""

import numpy as np
from drawing import Drawing

X = np.array([1.0, 0.0, -1.0])
FORGET = 1 / (1 + np.exp(-np.log(3.0) * X))
NEW = 8 * X


def _number(value: float) -> str:
    return f"{value:g}".replace("-", "−")


def draw() -> Drawing:
    """Draw the chain of cells on the left and the table of weights on the right."""
    figure = Drawing(
        760,
        206,
        "Three cells of a simple recurrent unit, and the weights that they give to the three inputs",
    )
    cell = 0.0
    figure.text(20, 100, "c₀ = 0")
    weights = np.zeros((3, 4))
    weights[:, 0] = np.cumprod(FORGET)
    for index, (forget, new) in enumerate(zip(FORGET, NEW, strict=True)):
        x = 130 + 126 * index
        figure.line((x - 62, 95), (x - 2, 95), arrow=True)
        figure.text(x - 34, 84, f"× {forget:g}", "middle small")
        cell = forget * cell + (1 - forget) * new
        weights[index:, index + 1] = (1 - forget) * np.cumprod([1.0, *FORGET[index + 1 :]])
        figure.rectangle(x, 78, 62, 34)
        figure.text(x + 31, 100, _number(cell), "middle bold")
        figure.line((x + 31, 164), (x + 31, 114), arrow=True)
        figure.text(x + 38, 146, f"× {1 - forget:g}", "small")
        figure.text(x + 31, 182, f"W x{'₁₂₃'[index]} = {_number(new)}", "middle")
        figure.line((x + 31, 78), (x + 31, 50), arrow=True)
        figure.text(x + 31, 40, _number(max(0.0, cell)), "middle accent")
    figure.text(20, 40, "max(0, c)", "small soft")
    figure.text(20, 182, "new", "small soft")
    assert np.allclose(weights[:, 1:] @ NEW, [2, 1, -5.75])
    figure.text(540, 30, "the same cells as weights", "soft")
    rows, columns = ["c₁", "c₂", "c₃"], ["c₀", "W x₁", "W x₂", "W x₃"]
    figure.table(530, 70, weights.tolist(), rows, columns, cell=54, digits=3)
    figure.text(500, 190, "Each row sums to one.", "small soft")
    return figure


if __name__ == "__main__":
    draw().save()
