"""What the experiments with small models share: made sentences, a training loop, greedy decoding."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from uwaga.decoder import Symbols
from uwaga.models.base import Seq2Seq
from uwaga.search import SearchOptions, search
from uwaga.training.loss import cross_entropy

SYMBOLS = Symbols(start=1, end=2, pad=0, unknown=3)
WORDS = range(4, 24)
VOCABULARY = len(WORDS) + 4


def sentences(count: int, shortest: int, longest: int, draw: torch.Generator) -> list[list[int]]:
    """Random sentences of :data:`WORDS`."""
    lengths = torch.randint(shortest, longest + 1, (count,), generator=draw).tolist()
    return [torch.randint(WORDS[0], WORDS[-1] + 1, (n,), generator=draw).tolist() for n in lengths]


def padded(rows: list[list[int]]) -> Tensor:
    """(sentences, longest) ids."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[SYMBOLS.pad] * (longest - len(row))] for row in rows])


def loss_of(model: Seq2Seq, rows: list[list[int]], targets: list[list[int]]) -> Tensor:
    """The mean loss a token, in nats, of targets given sources, all positions at once."""
    wanted = [[*row, SYMBOLS.end] for row in targets]
    source, target_out = padded([[*row, SYMBOLS.end] for row in rows]), padded(wanted)
    target_in = padded([[SYMBOLS.start, *row[:-1]] for row in wanted])
    real = target_out != SYMBOLS.pad
    features = model.features(source, target_in)[real]  # (tokens, width)
    return cross_entropy(features, model.output, target_out[real]).smoothed / int(real.sum())


def learn(
    model: Seq2Seq,
    targets: Callable[[list[int]], list[int]],
    lengths: tuple[int, int],
    steps: int,
    rate: float = 2e-3,
    batch: int = 64,
    seed: int = 1,
) -> Iterator[float]:
    """Train on fresh random sentences and their targets; each step gives its mean loss a token, in nats."""
    draw = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.98))
    model.train()
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = rate * min(1.0, (step + 1) / 50) * (1 - step / steps)
        rows = sentences(batch, *lengths, draw)
        loss = loss_of(model, rows, [targets(row) for row in rows])
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        yield float(loss.detach())
    model.eval()


def share_right(
    model: Seq2Seq, targets: Callable[[list[int]], list[int]], lengths: tuple[int, int], count: int = 200
) -> tuple[float, float]:
    """Shares of whole sentences and of words in their places that greedy decoding gets right, on new ones."""
    rows = sentences(count, *lengths, torch.Generator().manual_seed(99))
    options = SearchOptions(beam=1, max_length=lengths[1] + 4)
    found = search(model, [[*row, SYMBOLS.end] for row in rows], options)
    whole, places, total = 0, 0, 0
    for row, (best,) in zip(rows, found, strict=True):
        wanted = targets(row)
        whole += list(best.tokens) == wanted
        places += sum(one == other for one, other in zip(best.tokens, wanted, strict=False))
        total += len(wanted)
    return whole / count, places / total
