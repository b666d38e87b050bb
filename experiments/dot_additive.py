"""Dot product against additive attention: time, and accuracy at small and large d_k.

python experiments/dot_additive.py
"""

from __future__ import annotations

import time

import torch
from torch import Tensor, nn

from uwaga.models.layers.attention import attend
from uwaga.models.layers.scores import make_score

SCORES = ("dot", "scaled_dot", "additive")
WIDTHS, STEPS, SEEDS = (16, 64, 256, 1024), (50, 100, 200), (1,)
SYMBOLS, PAIRS, EMBEDDING = 64, 16, 64


def seconds(name: str, length: int, width: int, rounds: int = 5) -> float:
    """Return the minimum time of scores, softmax and weighted sum for ``length`` queries and keys."""
    torch.manual_seed(0)
    query, keys = torch.randn(1, length, width), torch.randn(1, length, width)
    score, times = make_score(name, width, width), []
    with torch.inference_mode():
        for _ in range(rounds):
            start = time.perf_counter()
            attend(query, score.prepare(keys), keys, score, need_weights=True)
            times.append(time.perf_counter() - start)
    return min(times)


class Lookup(nn.Module):
    """A single attention that looks up the value of a key in pairs of symbols.

    Entries of queries and keys have variance 1 at the start, as Vaswani 2017 §3.2.1 assumes.
    """

    def __init__(self, name: str, width: int) -> None:
        super().__init__()
        self.symbols, self.value = nn.Embedding(SYMBOLS, EMBEDDING), nn.Embedding(SYMBOLS, EMBEDDING)
        self.query = nn.Linear(EMBEDDING, width, bias=False)
        self.key = nn.Linear(EMBEDDING, width, bias=False)
        for layer in (self.query, self.key):
            nn.init.normal_(layer.weight, std=EMBEDDING**-0.5)
        self.score = make_score(name, width, width)
        self.output = nn.Linear(EMBEDDING, SYMBOLS)

    def forward(self, symbols: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Logits (batch, symbols) of what stands beside ``asked`` (batch,), of pairs (batch, pairs) each."""
        query = self.query(self.symbols(symbols))[:, None]  # (batch, 1, width)
        prepared = self.score.prepare(self.key(self.symbols(keys)))
        context, _ = attend(query, prepared, self.value(values), self.score, need_weights=True)
        logits: Tensor = self.output(context[:, 0])
        return logits


def draw_pairs(count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return queries (count,), keys and values (count, pairs), and answers (count,)."""
    keys = torch.rand(count, SYMBOLS).argsort(dim=1)[:, :PAIRS]  # each symbol once
    values = torch.randint(SYMBOLS, (count, PAIRS))
    index = torch.randint(PAIRS, (count, 1))
    return keys.gather(1, index)[:, 0], keys, values, values.gather(1, index)[:, 0]


def learned(name: str, width: int, seed: int, report_steps: tuple[int, ...] = STEPS) -> list[float]:
    """Return the accuracy on new queries after each of ``report_steps`` updates."""
    torch.manual_seed(seed)
    model, shares = Lookup(name, width), []
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(1, report_steps[-1] + 1):
        symbols, keys, values, answers = draw_pairs(128)
        loss = nn.functional.cross_entropy(model(symbols, keys, values), answers)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step in report_steps:
            with torch.inference_mode():
                symbols, keys, values, answers = draw_pairs(2000)
                correct = model(symbols, keys, values).argmax(dim=-1) == answers
            shares.append(float(correct.float().mean()))
    return shares


def main() -> None:
    """Print both tables."""
    print("milliseconds: queries x keys, d_k", *(f"{name:>11}" for name in SCORES))
    for length, width in ((32, 64), (32, 512), (128, 64), (128, 512), (512, 64), (512, 512)):
        milliseconds = [1000 * seconds(name, length, width) for name in SCORES]
        print(
            f"{length:16} x {length:4}, {width:7} ", *(f"{value:11.2f}" for value in milliseconds), flush=True
        )
    print(f"answers right after {STEPS} updates, d_k", *(f"{name:>17}" for name in SCORES))
    for width in WIDTHS:
        runs = [[learned(name, width, seed) for seed in SEEDS] for name in SCORES]
        means = [[sum(shares) / len(SEEDS) for shares in zip(*seeds, strict=True)] for seeds in runs]
        cells = (" ".join(f"{share:4.0%}" for share in shares) for shares in means)
        print(f"{width:43}", *(f"{cell:>17}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
