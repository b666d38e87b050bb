"""Time of one layer over 8 to 512 words: a GRU, one word after another, and self-attention, all at once.

python experiments/layer_times.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from uwaga.models.layers.multihead import MultiHeadAttention
from uwaga.models.layers.recurrent import Gru

WIDTH, HEADS = 256, 4
LENGTHS = (8, 16, 32, 64, 128, 256, 512)
REPEATS = 50


def milliseconds(layer: Callable[[], object]) -> float:
    """Return the shortest of several times of a layer, after one that is not counted."""
    layer()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        layer()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def multiplications(length: int) -> tuple[int, int]:
    """Return those of the matrix products of a GRU and of self-attention with its four projections."""
    return 6 * length * WIDTH**2, 4 * length * WIDTH**2 + 2 * length**2 * WIDTH


def times(gru: Gru, attention: MultiHeadAttention, length: int) -> tuple[float, float]:
    """Return the milliseconds of both layers for a sentence of random words."""
    x = torch.randn(1, length, WIDTH)  # (sentences, source, width)
    return (
        milliseconds(lambda: gru.run(x)),
        milliseconds(lambda: attention(x, attention.project(x))),
    )


def main() -> None:
    """Print a row for each length, for one thread."""
    torch.set_num_threads(1)
    gru, attention = Gru(WIDTH, WIDTH), MultiHeadAttention(WIDTH, HEADS)
    print("        million multiplications     milliseconds")
    print("words      GRU     attention        GRU  attention")
    with torch.no_grad():
        for length in LENGTHS:
            products = [count / 1e6 for count in multiplications(length)]
            recurrent, parallel = times(gru, attention, length)
            print(f"{length:5} {products[0]:8.1f} {products[1]:13.1f} {recurrent:10.2f} {parallel:10.2f}")


if __name__ == "__main__":
    main()
