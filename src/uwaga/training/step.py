"""One update: forward, loss and backward over a few batches, then the optimiser."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat

import numpy as np
import torch
from torch import Tensor, nn

from uwaga.contracts import Ids
from uwaga.data.batches import Batch
from uwaga.engine.cores import usable_cores
from uwaga.models.base import Seq2Seq
from uwaga.nn.dropout import seeded_dropout
from uwaga.settings import GuidedAlignmentSettings, TrainingSettings
from uwaga.training.loss import Loss, alignment_cross_entropy, cross_entropy
from uwaga.training.optimiser import MULTIPLIER
from uwaga.training.schedule import learning_rate

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Update:
    """What an update saw: sums of the loss in nats, and target tokens (end symbols included)."""

    loss: float
    nll: float
    tokens: int
    norm: float
    rate: float


class Updater:
    """Updates a model, the cores of a CPU sharing the batches of each update.

    A core computes the gradients of a whole part by itself, which is much faster than splitting every
    operation over the cores. Each part has a random state of its own, made from seed, update and part, and
    the gradients are added in a fixed order: the result depends on the settings and the number of threads
    alone, and nothing random has to be kept in a checkpoint.
    """

    def __init__(self, model: Seq2Seq, optimiser: torch.optim.Optimizer, settings: TrainingSettings) -> None:
        self.model, self.optimiser, self.settings = model, optimiser, settings
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        on_cpu = model.device.type == "cpu"
        self.workers = (settings.threads or usable_cores()) if on_cpu else 1
        self._pool = ThreadPoolExecutor(self.workers, initializer=torch.set_num_threads, initargs=(1,))

    def update(self, batches: Sequence[Batch], step: int) -> Update:
        """Update ``step`` (from 1): the mean loss over the target tokens of all ``batches``."""
        parts = [part for batch in batches for part in split(batch, -(-self.workers // len(batches)))]
        tokens = sum(batch.tokens for batch in batches)
        loss = nll = 0.0
        total: list[Tensor] | None = None
        run = map if self.workers == 1 else self._pool.map
        for part, gradients in run(self._gradients, parts, repeat(tokens), repeat(step), range(len(parts))):
            loss += float(part.smoothed)
            nll += float(part.plain)
            if total is None:
                total = gradients
            else:
                torch._foreach_add_(total, gradients)
        assert total is not None
        for parameter, gradient in zip(self.parameters, total, strict=True):
            parameter.grad = gradient
        norm = nn.utils.clip_grad_norm_(self.parameters, self.settings.clip or float("inf"))
        rate = learning_rate(self.settings.schedule, step, self.settings.steps)
        for group in self.optimiser.param_groups:
            group["lr"] = rate * group[MULTIPLIER]
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return Update(loss, nll, tokens, float(norm), rate)

    def close(self) -> None:
        """Let the worker threads go."""
        self._pool.shutdown()

    def _gradients(self, part: Batch, tokens: int, step: int, index: int) -> tuple[Loss, list[Tensor]]:
        seed = int(np.random.SeedSequence([self.settings.seed % 2**64, step, index]).generate_state(1)[0])
        with seeded_dropout(seed, self.model.device):
            settings = self.settings
            loss = batch_loss(
                self.model, part, settings.label_smoothing, settings.precision, settings.guided_alignment
            )
        gradients = torch.autograd.grad(loss.smoothed / tokens, self.parameters)
        return Loss(loss.smoothed.detach(), loss.plain), list(gradients)


def split(batch: Batch, parts: int) -> list[Batch]:
    """The batch as at most ``parts`` batches of every parts-th pair, none of them empty."""
    parts = min(parts, batch.sentences)
    if parts == 1:
        return [batch]
    return [
        Batch(
            batch.source[start::parts],
            batch.source_lengths[start::parts],
            batch.target_in[start::parts],
            batch.target_out[start::parts],
            batch.target_lengths[start::parts],
            batch.pairs[start::parts],
            _split_links(batch.links, start, parts),
        )
        for start in range(parts)
    ]


def _split_links(links: Ids | None, start: int, parts: int) -> Ids | None:
    if links is None:
        return None
    own = links[links[:, 0] % parts == start]  # (links, 3)
    return np.concatenate([own[:, :1] // parts, own[:, 1:]], axis=1)


def batch_loss(
    model: Seq2Seq,
    batch: Batch,
    smoothing: float,
    precision: str,
    guided: GuidedAlignmentSettings | None = None,
) -> Loss:
    """The loss of one batch, summed over its real target tokens; with that of its links where they guide.

    The alignment of the token at a place of ``target_out`` is the attention there, or at the next place,
    where the token is read: :attr:`GuidedAlignmentSettings.step`. The plain loss is without it.
    """
    device = model.device
    dtype = _DTYPES[precision]
    weights = None
    source = torch.from_numpy(batch.source).to(device, non_blocking=True)  # (sentences, source)
    target_in = torch.from_numpy(batch.target_in).to(device, non_blocking=True)  # (sentences, target)
    target_out = torch.from_numpy(batch.target_out).to(device, non_blocking=True)
    with torch.autocast(device.type, dtype, enabled=dtype != torch.float32):
        if guided is None or batch.links is None:
            predicting = model.training_features(source, target_in)  # each (sentences, target, width)
        else:
            features, weights = model.guided_features(source, target_in)
            predicting = ((features, 1.0),)
    real = target_out != model.symbols.pad
    wanted = target_out[real]  # (tokens,)
    losses = [
        cross_entropy(features[real], model.output, wanted, smoothing, dtype) for features, _ in predicting
    ]
    total = losses[0].smoothed
    if len(losses) > 1:
        shares = [share for _, share in predicting]
        total = torch.stack([share * loss.smoothed for share, loss in zip(shares, losses, strict=True)]).sum()
    if weights is not None and guided is not None and batch.links is not None:
        links = torch.from_numpy(batch.links).to(device)  # (links, 3)
        if guided.step == "reading":
            links = links + links.new_tensor([0, 1, 0])
        total = total + guided.weight * alignment_cross_entropy(weights, links)
    return Loss(total, losses[0].plain)
