"""Common parts of experiments with small models: random sentences, training, greedy decoding."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from uwaga.decoder import Symbols
from uwaga.models.base import Seq2Seq
from uwaga.search import SearchInput, SearchOptions, search
from uwaga.training.loss import cross_entropy

SYMBOLS = Symbols(start=1, end=2, pad=0, unknown=3)
WORDS = range(4, 24)
VOCABULARY = len(WORDS) + 4


def sentences(count: int, shortest: int, longest: int, generator: torch.Generator) -> list[list[int]]:
    """Return random sentences of :data:`WORDS`."""
    lengths = torch.randint(shortest, longest + 1, (count,), generator=generator).tolist()
    return [torch.randint(WORDS[0], WORDS[-1] + 1, (n,), generator=generator).tolist() for n in lengths]


def pad_rows(rows: list[list[int]]) -> Tensor:
    """Return padded ids (sentences, longest)."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[SYMBOLS.pad] * (longest - len(row))] for row in rows])


def mean_loss(model: Seq2Seq, rows: list[list[int]], targets: list[list[int]]) -> Tensor:
    """Return the mean loss per token, in nats, of targets given sources, for all positions at once."""
    full_targets = [[*row, SYMBOLS.end] for row in targets]
    source, target_out = pad_rows([[*row, SYMBOLS.end] for row in rows]), pad_rows(full_targets)
    target_in = pad_rows([[SYMBOLS.start, *row[:-1]] for row in full_targets])
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
    """Train on new random sentences; yield the mean loss per token, in nats, of each step."""
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.98))
    model.train()
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = rate * min(1.0, (step + 1) / 50) * (1 - step / steps)
        rows = sentences(batch, *lengths, generator)
        loss = mean_loss(model, rows, [targets(row) for row in rows])
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        yield float(loss.detach())
    model.eval()


def accuracy(
    model: Seq2Seq, targets: Callable[[list[int]], list[int]], lengths: tuple[int, int], count: int = 200
) -> tuple[float, float]:
    """Return the shares of new sentences and of words that greedy decoding gets right."""
    rows = sentences(count, *lengths, torch.Generator().manual_seed(99))
    options = SearchOptions(beam=1, max_length=lengths[1] + 4)
    results = search(model, [SearchInput([*row, SYMBOLS.end]) for row in rows], options)
    sentences_right, words_right, total = 0, 0, 0
    for row, (best,) in zip(rows, results, strict=True):
        expected = targets(row)
        sentences_right += list(best.tokens) == expected
        words_right += sum(
            token == expected_token for token, expected_token in zip(best.tokens, expected, strict=False)
        )
        total += len(expected)
    return sentences_right / count, words_right / total
