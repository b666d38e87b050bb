"""A score that reads positions only, asked for positions that it was not trained on.

python experiments/location_score.py

The query holds a word and its position; attention over the sequence has to name the word.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from uwaga.models.layers.attention import attend
from uwaga.models.layers.scores import make_score

WORDS, WIDTH, LONGEST, BATCH, UPDATES = 32, 32, 16, 500, 100


class Finder(nn.Module):
    """A single attention over a sequence of different words."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.score = make_score(name, 2 * WIDTH, WIDTH, positions=LONGEST)
        self.embedding, self.output = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        angles = torch.arange(LONGEST)[:, None] * 10 ** (-torch.arange(WIDTH // 2) / 4)
        self.positions = torch.cat([angles.sin(), angles.cos()], dim=1)  # (positions, width)

    def forward(self, words: Tensor, place: Tensor) -> Tensor:
        """Return logits (batch, words) of the words at ``place`` (batch,) in ``words`` (batch, source)."""
        asked = words[torch.arange(len(words)), place]
        query = torch.cat([self.embedding(asked), self.positions[place]], dim=1)[:, None]
        keys = self.embedding(words)
        context, _ = attend(query, self.score.prepare(keys), keys, self.score, need_weights=True)
        logits: Tensor = self.output(context[:, 0])
        return logits


def draw(length: int, first: int, last: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return words (batch, source), places from ``first`` to before ``last``, and the words there."""
    words = torch.rand(BATCH, WORDS).argsort(dim=1)[:, :length]
    place = torch.randint(first, last, (BATCH,))
    return words, place, words[torch.arange(BATCH), place]


def right(name: str, length: int, last: int) -> list[float]:
    """Train on sequences of a length and positions before ``last``; return the accuracy on three ranges."""
    torch.manual_seed(0)
    model = Finder(name)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(UPDATES):
        words, place, answers = draw(length, 0, last)
        loss = nn.functional.cross_entropy(model(words, place), answers)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    shares = []
    with torch.inference_mode():
        for wide, first, end in ((8, 0, 8), (16, 0, 8), (16, 8, 16)):
            words, place, answers = draw(wide, first, end)
            shares.append(float((model(words, place).argmax(dim=1) == answers).double().mean()))
    return shares


if __name__ == "__main__":
    print(f"{'right answers':42}{'8 words':>10}{'16: 0-7':>10}{'16: 8-15':>10}")
    for name, length, last in (
        ("concat", 8, 8),
        ("location", 8, 8),
        ("location", 16, 8),
        ("location", 16, 16),
    ):
        label = f"{name}, trained on {length} words, the first {last}"
        print(f"{label:42}" + "".join(f"{share:10.0%}" for share in right(name, length, last)))
