"""One update: forward, loss and backward passes over the batches of all processes, then the optimiser.

Unusual: on a CPU, each core computes the gradients of one part of a batch, with a random state that depends
only on the seed, the update and the part; gradients are added in a fixed order. A resumed run therefore gives
bit-identical results. This file does not depend on which pairs a batch has, on when to validate, or on
how processes communicate.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from uwaga.data.batches import Batch
from uwaga.decoder import Ids
from uwaga.models.base import Seq2Seq
from uwaga.models.layers.dropout import seeded_dropout
from uwaga.settings import GuidedAlignmentSettings, TrainingSettings
from uwaga.training.batch_sharding import BatchSharding
from uwaga.training.loss import Loss, alignment_cross_entropy, cross_entropy
from uwaga.training.optimiser import MULTIPLIER, learning_rate
from uwaga.training.ranks import SINGLE_PROCESS, Ranks, to_full_tensor

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float64": torch.float64}
"""Number formats of matrix products by their names in ``training.precision``."""


@dataclass(frozen=True)
class UpdateStats:
    """Statistics of an update.

    Attributes:
        loss: sum of the training loss over the target tokens, in nats.
        nll: sum of the negative log-likelihood of the target tokens, in nats.
        tokens: number of target tokens, including end symbols.
        norm: norm of the gradients before clipping.
        rate: learning rate.
        source_tokens: number of source tokens, including end symbols.
    """

    loss: float
    nll: float
    tokens: int
    norm: float
    rate: float
    source_tokens: int = 0


class BatchPart(NamedTuple):
    """The input of a backward pass: a batch or a part of a batch, and the part's number within the update."""

    batch: Batch
    number: int


class Updater:
    """Updates a model, dividing the batches of each update among CPU cores and processes.

    Each core computes the gradients of a part of a batch, which is much faster than splitting every operation
    across the cores. Each part has a random state derived from the seed, the update and the part's number,
    and gradients are added in a fixed order. The result therefore depends only on the settings and the
    numbers of processes and threads, and checkpoints need no random state.
    """

    def __init__(
        self,
        model: nn.Module,
        optimiser: torch.optim.Optimizer,
        settings: TrainingSettings,
        ranks: Ranks = SINGLE_PROCESS,
    ) -> None:
        self.model, self.optimiser, self.settings, self.ranks = model, optimiser, settings, ranks
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.device = self.parameters[0].device
        self.workers = ranks.thread_count(settings.threads) if self.device.type == "cpu" else 1
        self.all_workers = sum(ranks.gather(self.workers))
        self._pool = ThreadPoolExecutor(self.workers, initializer=torch.set_num_threads, initargs=(1,))

    def update(
        self, batches: Sequence[Batch], step: int, sharding: BatchSharding | None = None
    ) -> UpdateStats:
        """Update the weights once, to reduce the mean loss over the target tokens of all batches.

        Args:
            batches: batches of this process.
            step: number of the update, from 1.
            sharding: sharding of the batches over the processes; None if this process has all of them.

        Raises:
            RankLostError: another process has ended or has not answered in time.
        """
        sharding = sharding or BatchSharding.single_process(batches)
        parts_per_batch = -(-self.all_workers // len(sharding.sizes))
        parts = [
            BatchPart(part, part_number)
            for batch, first_number in zip(batches, sharding.first_part_numbers(parts_per_batch), strict=True)
            for part_number, part in enumerate(split_batch(batch, parts_per_batch), first_number)
        ]
        loss, nll = self.backward(parts, sharding.tokens, step)
        norm = to_full_tensor(nn.utils.clip_grad_norm_(self.parameters, self.settings.clip or float("inf")))
        rate = learning_rate(self.settings.schedule, step, self.settings.steps)
        for group in self.optimiser.param_groups:
            group["lr"] = rate * group[MULTIPLIER]
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return UpdateStats(loss, nll, sharding.tokens, float(norm), rate, sharding.source_tokens)

    def backward(self, parts: Sequence[BatchPart], tokens: int, step: int) -> tuple[float, float]:
        """Set the gradients of the parameters, and return the sums of the smoothed and of the plain loss.

        Gradients and sums are reduced over all processes, once per update.
        """
        loss = nll = 0.0
        total: list[Tensor] | None = None
        run = map if self.workers == 1 else self._pool.map
        for part, gradients in run(self._gradients, parts, repeat(tokens), repeat(step)):
            loss += float(part.smoothed)
            nll += float(part.plain)
            if total is None:
                total = gradients
            else:
                torch._foreach_add_(total, gradients)
        assert total is not None
        losses = torch.tensor([loss, nll], dtype=torch.float64)
        self.ranks.sum_tensors([losses])
        self.ranks.sum_tensors(total)
        for parameter, gradient in zip(self.parameters, total, strict=True):
            parameter.grad = gradient
        return float(losses[0]), float(losses[1])

    def close(self) -> None:
        """Stop the worker threads."""
        self._pool.shutdown()

    def loss(self, part: BatchPart, step: int) -> Loss:
        """Return the loss of a part; the dropout depends only on the seed, the step and the part number."""
        key = [self.settings.seed % 2**64, step, part.number]
        seed = int(np.random.SeedSequence(key).generate_state(1)[0])
        with seeded_dropout(seed, self.device):
            loss: Loss = self.forward(part.batch)
        return loss

    def forward(self, batch: Batch) -> Loss:
        """Return the loss of a batch."""
        settings = self.settings
        assert isinstance(self.model, Seq2Seq)
        return batch_loss(
            self.model, batch, settings.label_smoothing, settings.precision, settings.guided_alignment
        )

    def _gradients(self, part: BatchPart, tokens: int, step: int) -> tuple[Loss, list[Tensor]]:
        loss = self.loss(part, step)
        gradients = torch.autograd.grad(loss.smoothed / tokens, self.parameters)
        return Loss(loss.smoothed.detach(), loss.plain), list(gradients)


def split_batch(batch: Batch, parts: int) -> list[Batch]:
    """Split a batch into at most ``parts`` non-empty batches; pair i goes to batch ``i % parts``."""
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
    part_links = links[links[:, 0] % parts == start]  # (links, 3)
    return np.concatenate([part_links[:, :1] // parts, part_links[:, 1:]], axis=1)


def batch_loss(
    model: Seq2Seq,
    batch: Batch,
    smoothing: float,
    precision: str,
    guide_settings: GuidedAlignmentSettings | None = None,
) -> Loss:
    """Return the loss of a batch, summed over its target tokens without padding.

    With ``guide_settings`` and links in the batch, the smoothed loss includes the alignment loss.
    According to :attr:`GuidedAlignmentSettings.step`, a target token's alignment is the attention of the step
    that predicts the token, or of the next step, which reads it.
    """
    device = model.device
    dtype = DTYPES[precision]
    weights = None
    source = torch.from_numpy(batch.source).to(device, non_blocking=True)  # (sentences, source)
    target_in = torch.from_numpy(batch.target_in).to(device, non_blocking=True)  # (sentences, target)
    target_out = torch.from_numpy(batch.target_out).to(device, non_blocking=True)
    with torch.autocast(device.type, dtype, enabled=dtype == torch.bfloat16):
        if guide_settings is None or batch.links is None:
            outputs = model.training_features(source, target_in)  # each (sentences, target, width)
        else:
            features, weights = model.guided_features(source, target_in)
            outputs = ((features, 1.0),)
    token_mask = target_out != model.symbols.pad
    next_tokens = target_out[token_mask]  # (tokens,)
    losses = [
        cross_entropy(features[token_mask], model.output, next_tokens, smoothing, dtype)
        for features, _ in outputs
    ]
    total = losses[0].smoothed
    if len(losses) > 1:
        shares = [share for _, share in outputs]
        total = torch.stack([share * loss.smoothed for share, loss in zip(shares, losses, strict=True)]).sum()
    if weights is not None and guide_settings is not None and batch.links is not None:
        links = torch.from_numpy(batch.links).to(device)  # (links, 3)
        if guide_settings.step == "reading":
            links = links + links.new_tensor([0, 1, 0])
        total = total + guide_settings.weight * alignment_cross_entropy(weights, links)
    return Loss(total, losses[0].plain)


class TrainableModel:
    """Access to the weights that updates change; in this class, those are the weights of the run's model."""

    def __init__(self, model: Seq2Seq, settings: TrainingSettings, ranks: Ranks) -> None:
        self.model, self.settings, self.ranks = model, settings, ranks

    def updater(self, optimiser: torch.optim.Optimizer) -> Updater:
        """Return an updater for these weights."""
        return Updater(self.model, optimiser, self.settings, self.ranks)

    def copy_from(self, model: Seq2Seq) -> None:
        """Copy the weights of the run's model to these weights."""

    def copy_to(self, model: Seq2Seq, keep: bool) -> None:
        """Copy these weights to the run's model if ``keep`` is True; all processes must call this."""

    @contextlib.contextmanager
    def on_device(self, model: Seq2Seq) -> Iterator[None]:
        """Keep the run's model on the training device within the block."""
        yield
