"""A small MARGE (Lewis 2020): retrieval is learned from the reconstruction loss alone.

python experiments/marge.py
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from uwaga.models.layers.attention import Adjustments, attend
from uwaga.models.layers.scores import make_score

WORDS, LENGTH, EVIDENCE, WIDTH = 40, 6, 5, 48


def attend_evidence(
    query: Tensor, keys: Tensor, values: Tensor, similarity: Tensor, weight: Tensor | float
) -> tuple[Tensor, Tensor]:
    """Attend to all tokens of several documents, with their similarity added to the scores (M30; §2.3).

    Args:
        query: (targets, target, width).
        keys: (targets, documents, source, width).
        values: of the same shape.
        similarity: (targets, documents), f(x, z_j) between the target and each document.
        weight: β, the factor of the similarity.

    Returns:
        contexts (targets, target, width) and weights (targets, target, documents, source).
    """
    targets, documents, source, width = keys.shape
    bias = (weight * similarity)[:, None, :, None].expand(-1, 1, -1, source).flatten(2)
    context, weights = attend(
        query,
        keys.reshape(targets, documents * source, width),
        values.reshape(targets, documents * source, width),
        make_score("scaled_dot", width, width),
        need_weights=True,
        adjustments=Adjustments(bias=bias),
    )
    assert weights is not None
    return context, weights.unflatten(-1, (documents, source))


class Marge(nn.Module):
    """A model that reconstructs a text from several others, and learns their similarity.

    The similarity is the cosine between mean word vectors of the two texts.
    """

    def __init__(self) -> None:
        super().__init__()
        self.evidence, self.target = nn.Embedding(WORDS, WIDTH), nn.Embedding(WORDS, WIDTH)
        self.evidence_likeness, self.target_likeness = nn.Embedding(WORDS, WIDTH), nn.Embedding(WORDS, WIDTH)
        self.positions = nn.Parameter(torch.randn(LENGTH, WIDTH))
        self.query, self.key = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.output = nn.Linear(WIDTH, WORDS)
        self.weight = nn.Parameter(torch.tensor(1.0))  # β

    def similarity(self, target: Tensor, evidence: Tensor) -> Tensor:
        """Return f (targets, documents) of texts (targets, target) and (targets, documents, source)."""
        target_mean = self.target_likeness(target).mean(dim=1)[:, None]  # (targets, 1, width)
        evidence_mean = self.evidence_likeness(evidence).mean(dim=2)  # (targets, documents, width)
        return functional.cosine_similarity(target_mean, evidence_mean, dim=-1)

    def forward(self, target: Tensor, evidence: Tensor) -> Tensor:
        """Return logits (targets, target, words) of each target word from its position and the evidence."""
        query = self.query(self.positions).expand(len(target), -1, -1)
        values = self.evidence(evidence)  # (targets, documents, source, width)
        keys = self.key(values + self.positions)
        context, _ = attend_evidence(query, keys, values, self.similarity(target, evidence), self.weight)
        logits: Tensor = self.output(context)
        return logits


def draw_texts(count: int, translate: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return targets (count, target), evidence (count, documents, source), and the translation's index."""
    evidence = torch.randint(WORDS, (count, EVIDENCE, LENGTH))
    translation = torch.randint(EVIDENCE, (count,))
    return translate[evidence[torch.arange(count), translation]], evidence, translation


def learn(steps: int, seed: int = 1, report_every: int = 0) -> tuple[float, float]:
    """Train on the loss of the targets alone.

    Returns:
        the last loss in nats per word, and the share of new targets whose most similar document is their
        translation, for which there is no supervision.
    """
    torch.manual_seed(seed)
    translate = torch.randperm(WORDS)
    model = Marge()
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    results = (float("nan"), 1 / EVIDENCE)
    for step in range(steps + 1):
        target, evidence, _ = draw_texts(128, translate)
        loss = functional.cross_entropy(model(target, evidence).flatten(0, 1), target.flatten())
        if step == steps or (report_every and step % report_every == 0):
            with torch.inference_mode():
                new, texts, translation = draw_texts(1000, translate)
                retrieved = (model.similarity(new, texts).argmax(dim=1) == translation).float().mean()
            results = (float(loss.detach()), float(retrieved))
            if report_every:
                weight = float(model.weight.detach())
                print(f"{step:5} {results[0]:12.3f} {results[1]:10.0%} {weight:7.1f}", flush=True)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return results


def main() -> None:
    """Print loss and retrieval accuracy during training."""
    print(f" step   nats a word   retrieved  β   (chance: {1 / EVIDENCE:.0%})")
    learn(160, report_every=20)


if __name__ == "__main__":
    main()
