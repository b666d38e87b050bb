"""The gradient between words some steps apart: without gates, in a GRU and in an LSTM, untrained."""

import numpy as np
import torch
from drawing import Drawing

from uwaga.models.layers.recurrent import Gru, Lstm

WIDTH, FARTHEST, DRAWS = 64, 32, 20
TICKS = (1, 4, 8, 16, 24, 32)
LEFT, RIGHT, TOP, BOTTOM = 84, 330, 34, 270
LOWEST = -7


def plain() -> torch.nn.RNN:
    """Return a layer without gates, with the initial values of uwaga's layers."""
    layer = torch.nn.RNN(WIDTH, WIDTH, batch_first=True, bias=False)
    torch.nn.init.xavier_uniform_(layer.weight_ih_l0)
    torch.nn.init.normal_(layer.weight_hh_l0, std=WIDTH**-0.5)
    return layer


def gradients(kind: str) -> np.ndarray:
    """Return the norm of the last state's gradient by the word before it, two before it, and so on.

    It is the mean over random words and weights, divided by the first entry.
    """
    total = torch.zeros(FARTHEST, dtype=torch.float64)
    for seed in range(DRAWS):
        torch.manual_seed(seed)
        layer = {"plain": plain, "gru": lambda: Gru(WIDTH, WIDTH), "lstm": lambda: Lstm(WIDTH, WIDTH)}[kind]()
        layer = layer.double()
        x = torch.randn(1, FARTHEST + 1, WIDTH, dtype=torch.float64, requires_grad=True)
        states = layer(x)[0] if kind == "plain" else layer.run(x)
        states = states[0] if kind == "lstm" else states
        (gradient,) = torch.autograd.grad((states[0, -1] * torch.randn(WIDTH, dtype=torch.float64)).sum(), x)
        total += gradient[0].norm(dim=-1).flip(0)[1:]
    return (total / total[0]).numpy()


def point(distance: int, value: float) -> tuple[float, float]:
    """Return the point of a distance and a gradient, in whole pixels."""
    x = LEFT + (RIGHT - LEFT) * distance / FARTHEST
    return round(x), round(TOP + (BOTTOM - TOP) * np.log10(value) / LOWEST)


def draw() -> Drawing:
    """Draw three lines over the distance; the vertical axis is logarithmic."""
    figure = Drawing(
        400,
        330,
        "The gradient fades with the distance: fast without gates or in a GRU, more slowly in an LSTM",
    )
    for power in range(LOWEST, 1):
        _, y = point(1, 10.0**power)
        figure.line((LEFT, y), (RIGHT, y), look="grid")
        figure.text(LEFT - 10, y + 4, f"{10.0**power:.{max(0, -power)}f}", "end small soft")
    for distance in TICKS:
        figure.text(point(distance, 1)[0], BOTTOM + 20, str(distance), "middle small soft")
    figure.text((LEFT + RIGHT) / 2, BOTTOM + 44, "steps between the word and the state", "middle soft")
    figure.text(20, TOP - 14, "norm of the gradient, 1 at a distance of one step", "small soft")
    for kind, name, line, colour, lower in (
        ("plain", "no gates", "line", "", 10),
        ("gru", "GRU", "second-line", "second", 0),
        ("lstm", "LSTM", "accent-line", "accent", 4),
    ):
        norms = gradients(kind)
        points = [point(index + 1, value) for index, value in enumerate(norms)]
        figure.line(*points, look=line)
        figure.text(RIGHT + 8, points[-1][1] + lower, name, f"small {colour}")
    return figure


if __name__ == "__main__":
    draw().save()
