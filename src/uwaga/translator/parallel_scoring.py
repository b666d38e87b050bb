"""Scoring all positions of known targets at once, for models in torch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import torch

from uwaga.models.base import Seq2Seq, pad
from uwaga.translator.scoring import Scorer

ROWS = 256
"""Target positions whose log-probabilities over the whole vocabulary exist at one time."""


def parallel_scorer(model: Seq2Seq) -> Scorer:
    """Scoring by the training path; equals :func:`uwaga.translator.scoring.step_scorer` of the model."""

    @torch.inference_mode()
    def score(
        sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], start: int | None = None
    ) -> list[list[float]]:
        symbols = model.symbols
        first = symbols.start if start is None else start
        source = pad(sources, symbols.pad, model.device)  # (sentences, source)
        shifted = [[first, *target[:-1]] for target in targets]
        features = model.features(source, pad(shifted, symbols.pad, model.device))
        lengths = torch.tensor([len(target) for target in targets], device=model.device)
        real = torch.arange(features.shape[1], device=model.device) < lengths[:, None]  # (sentences, target)
        rows = features[real]  # (tokens, width)
        wanted = torch.tensor([token for target in targets for token in target], device=model.device)
        scores = []
        for row in range(0, len(rows), ROWS):
            log_probs = torch.log_softmax(model.logits(rows[row : row + ROWS]), dim=-1)
            scores.append(log_probs.gather(1, wanted[row : row + ROWS, None])[:, 0])  # (rows,)
        flat = iter(torch.cat(scores).tolist())
        return [list(islice(flat, len(target))) for target in targets]

    return score
