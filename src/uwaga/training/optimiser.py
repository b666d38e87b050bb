"""Adam with decoupled weight decay; its state is saved and restored as named tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from uwaga.errors import CheckpointError
from uwaga.settings import ScheduleSettings, TrainingSettings
from uwaga.training.ranks import distribute_like


def learning_rate(settings: ScheduleSettings, step: int, steps: int) -> float:
    """Return the learning rate of update ``step`` (from 1) of ``steps``.

    The rate rises linearly to the peak during the warm-up. Then ``inverse_sqrt`` decreases it by the factor
    √(warmup / step) (Vaswani 2017 eq. 3, with an explicit peak); ``cosine`` and ``linear`` decrease it to the
    floor at the last step; ``constant`` keeps it.
    """
    warmup = settings.warmup
    if step < warmup:
        return settings.peak * step / warmup
    if settings.kind == "constant":
        return settings.peak
    if settings.kind == "inverse_sqrt":
        return settings.peak * math.sqrt(max(warmup, 1) / max(step, 1))
    decay = min(1.0, (step - warmup) / max(1, steps - warmup))
    factor = 0.5 * (1.0 + math.cos(math.pi * decay)) if settings.kind == "cosine" else 1.0 - decay
    return settings.floor + (settings.peak - settings.floor) * factor


_MOMENTS = ("exp_avg", "exp_avg_sq")
MULTIPLIER = "multiplier"
"""Key under which a parameter group stores the factor of its learning rate."""


def make_optimiser(
    model: nn.Module, settings: TrainingSettings, rates: Mapping[str, float] | None = None
) -> torch.optim.AdamW:
    """Return an AdamW optimiser (Kingma 2015, Loshchilov 2019) without weight decay of biases and norms.

    Args:
        model: model to train; weights that do not require gradients are skipped.
        settings: training settings of the run.
        rates: factor of the learning rate of each weight, by name of the weight; 1 by default.
    """
    groups: dict[tuple[bool, float], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            key = (parameter.ndim < 2, (rates or {}).get(name, 1.0))
            groups.setdefault(key, []).append(parameter)
    return torch.optim.AdamW(
        [
            {
                "params": groups[key],
                "weight_decay": 0.0 if key[0] else settings.weight_decay,
                MULTIPLIER: key[1],
            }
            for key in sorted(groups)
        ],
        lr=settings.schedule.peak,
        betas=settings.betas,
        eps=settings.epsilon,
        fused=True,
    )


def optimiser_tensors(model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the moments of the optimiser, by names such as ``exp_avg.encoder.0.attention.query.weight``."""
    tensors = {}
    for name, parameter in model.named_parameters():
        for moment in _MOMENTS:
            state = optimiser.state.get(parameter, {})
            if moment in state:
                tensors[f"{moment}.{name}"] = state[moment]
    return tensors


def restore_optimiser(
    model: nn.Module, optimiser: torch.optim.Optimizer, step: int, tensors: Mapping[str, Tensor]
) -> None:
    """Restore the moments that :func:`optimiser_tensors` returned after ``step`` updates.

    Raises:
        CheckpointError: a moment is missing, or its shape differs from the shape of its parameter.
    """
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        state: dict[str, Tensor] = {"step": torch.tensor(float(step), device=parameter.device)}
        for moment in _MOMENTS:
            saved_moment = tensors.get(f"{moment}.{name}")
            if saved_moment is None or saved_moment.shape != parameter.shape:
                problem = "is missing" if saved_moment is None else f"has shape {tuple(saved_moment.shape)}"
                raise CheckpointError(
                    f"the checkpoint's {moment} of {name} {problem}, expected shape {tuple(parameter.shape)}"
                )
            state[moment] = distribute_like(saved_moment, parameter)
        optimiser.state[parameter] = state
