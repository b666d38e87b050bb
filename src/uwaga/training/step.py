"""One update: forward, loss and backward over a few batches, then the optimiser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from uwaga.config import TrainingSettings
from uwaga.data.batches import Batch
from uwaga.models.base import Seq2Seq
from uwaga.training.loss import Loss, cross_entropy
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


def batch_loss(model: Seq2Seq, batch: Batch, smoothing: float, precision: str) -> Loss:
    """The loss of one batch, summed over its real target tokens."""
    device = model.device
    dtype = _DTYPES[precision]
    source = torch.from_numpy(batch.source).to(device, non_blocking=True)  # (sentences, source)
    target_in = torch.from_numpy(batch.target_in).to(device, non_blocking=True)  # (sentences, target)
    target_out = torch.from_numpy(batch.target_out).to(device, non_blocking=True)
    with torch.autocast(device.type, dtype, enabled=dtype != torch.float32):
        features = model.features(source, target_in)  # (sentences, target, width)
    real = target_out != model.symbols.pad
    if not bool(real.all()):
        features, target_out = features[real], target_out[real]  # (tokens, width), (tokens,)
    return cross_entropy(
        features.reshape(-1, features.shape[-1]), model.output, target_out.reshape(-1), smoothing, dtype
    )


def update(
    model: Seq2Seq,
    optimiser: torch.optim.Optimizer,
    batches: Sequence[Batch],
    step: int,
    settings: TrainingSettings,
) -> Update:
    """Update ``step`` (from 1): the mean loss over the target tokens of all ``batches``."""
    tokens = sum(batch.tokens for batch in batches)
    loss = torch.zeros((), device=model.device)
    nll = torch.zeros((), device=model.device)
    optimiser.zero_grad(set_to_none=True)
    for batch in batches:
        part = batch_loss(model, batch, settings.label_smoothing, settings.precision)
        (part.smoothed / tokens).backward()  # type: ignore[no-untyped-call]
        loss += part.smoothed.detach()
        nll += part.plain
    norm = nn.utils.clip_grad_norm_(model.parameters(), settings.clip or float("inf"))
    rate = learning_rate(settings.schedule, step, settings.steps)
    for group in optimiser.param_groups:
        group["lr"] = rate
    optimiser.step()
    return Update(float(loss), float(nll), tokens, float(norm), rate)
