"""Path lengths between words: operations and gradients by distance, in RNNs and attention.

python experiments/path_length.py [FIGURE.svg]
"""

from __future__ import annotations

import sys
from collections import deque
from pathlib import Path

import torch
from torch import Tensor

from uwaga.inspection.figures import new_figure, save_figure
from uwaga.models.blocks import EncoderBlock
from uwaga.models.layers.multihead import MultiHeadAttention
from uwaga.models.layers.positions import sinusoids
from uwaga.models.layers.recurrent import Gru, GruSteps, Lstm
from uwaga.settings import TransformerSettings

WIDTH, HEADS = 64, 4
DISTANCES = (1, 2, 4, 8, 16, 32, 64)


def operations(output: Tensor, word: Tensor) -> int:
    """Return the minimum number of autograd operations between ``word``, a leaf, and ``output``."""
    assert output.grad_fn is not None
    queue, visited = deque([(output.grad_fn, 0)]), {output.grad_fn}
    while queue:
        node, steps = queue.popleft()
        if getattr(node, "variable", None) is word:
            return steps
        for following, _ in node.next_functions:
            if following is not None and following not in visited:
                visited.add(following)
                queue.append((following, steps + 1))
    raise ValueError("the output does not depend on the word")


def words(count: int) -> list[Tensor]:
    """Return words (1, width), each a leaf."""
    return [torch.randn(1, WIDTH, requires_grad=True) for _ in range(count)]


def recurrent_operations(distance: int) -> int:
    """Return the operations from a word to the state of a GRU ``distance`` words later."""
    layer, inputs = Gru(WIDTH, WIDTH), words(distance + 1)
    steps, state = GruSteps(layer, 1, len(inputs)), torch.zeros(1, WIDTH)
    for word in inputs:
        state = steps(layer.project(word), state)
    return operations(state, inputs[0])


def attention_operations(distance: int) -> int:
    """Return the operations from a word to the output of self-attention ``distance`` words later."""
    layer, inputs = MultiHeadAttention(WIDTH, HEADS), words(distance + 1)
    memory = layer.project(torch.stack(inputs, dim=1))
    output, _ = layer(inputs[-1][:, None], memory, need_weights=True)
    return operations(output, inputs[0])


def gradients(kind: str, distances: tuple[int, ...] = DISTANCES, draws: int = 20) -> list[float]:
    """Return the norm of the gradient of an encoding by the word ``distance`` before it, with random weights.

    Args:
        kind: ``gru`` or ``lstm``, one layer, or ``transformer``, two blocks after sinusoidal positions.
        distances: the distances.
        draws: number of random sentences and weights to average over.
    """
    total = torch.zeros(len(distances))
    for seed in range(draws):
        torch.manual_seed(seed)
        x = torch.randn(1, max(distances) + 1, WIDTH, requires_grad=True)  # (sentences, source, width)
        if kind == "transformer":
            settings = TransformerSettings(width=WIDTH, heads=HEADS, feed_forward=2 * WIDTH, dropout=0.0)
            states = x + sinusoids(x.shape[1], WIDTH)
            for block in (EncoderBlock(settings), EncoderBlock(settings)):
                states = block(states, None)
        elif kind == "lstm":
            states = Lstm(WIDTH, WIDTH).run(x)[0]
        else:
            states = Gru(WIDTH, WIDTH).run(x)
        (gradient,) = torch.autograd.grad((states[0, -1] * torch.randn(WIDTH)).sum(), x)
        norms = gradient[0].norm(dim=-1)
        total += torch.stack([norms[-1 - distance] for distance in distances])
    return (total / draws).tolist()


def main() -> None:
    """Print both tables, and draw them to a file if one is given."""
    operation_counts = {
        "GRU": [recurrent_operations(distance) for distance in DISTANCES],
        "attention": [attention_operations(distance) for distance in DISTANCES],
    }
    gradient_norms = {name: gradients(kind) for name, kind in (("GRU", "gru"), ("LSTM", "lstm"))}
    gradient_norms["Transformer"] = gradients("transformer")
    print("distance          ", *(f"{distance:8}" for distance in DISTANCES))
    for name, row in operation_counts.items():
        print(f"operations {name:11}", *(f"{count:8}" for count in row))
    for name, values in gradient_norms.items():
        print(f"gradient {name:11}  ", *(f"{value / values[0]:8.1e}" for value in values))
    if len(sys.argv) > 1:
        figure = new_figure(7.2, 3.0)
        left, right = figure.subplots(1, 2)
        for name, row in operation_counts.items():
            left.plot(DISTANCES, row, "o-", markersize=4, label=name)
        for name, values in gradient_norms.items():
            right.plot(DISTANCES, [value / values[0] for value in values], "o-", markersize=4, label=name)
        right.set_yscale("log")
        left.set_ylabel("operations between the words")
        right.set_ylabel("gradient, of that at distance 1")
        for axes in (left, right):
            axes.set_xlabel("words apart")
            axes.grid(linewidth=0.4, alpha=0.6)
            axes.legend(frameon=False, fontsize=8)
        save_figure(figure, Path(sys.argv[1]))


if __name__ == "__main__":
    main()
