"""Model FLOPs utilisation (MFU): the share of peak device speed that a run uses (Chowdhery 2022, app. B)."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from uwaga.models.base import Seq2Seq
from uwaga.settings import TrainingSettings
from uwaga.training.ranks import Ranks
from uwaga.training.step import DTYPES

_SHORT_LENGTH, _LONG_LENGTH = 8, 16  # numbers of tokens of sentences whose operations are counted
_MATRIX_SIZES = {
    "cpu": 512,
    "cuda": 8192,
}  # number of rows and of columns of the matrices that are multiplied
_MEASURING_SECONDS = 0.1
_PASSES = 3  # cost of an update in forward passes: a backward pass costs two


@dataclass(frozen=True)
class ModelFlops:
    """Numbers of floating-point operations in training per source token and per target token."""

    source: float
    target: float

    def total(self, source_tokens: int, target_tokens: int) -> float:
        """Return the number of operations for these numbers of tokens."""
        return self.source * source_tokens + self.target * target_tokens


@dataclass(frozen=True)
class Utilisation:
    """The peak speed with which the speed of updates is compared.

    Attributes:
        flops: operations of the model per token.
        peak: peak speed of all processes together, in operations per second.
        configured: whether ``training.peak_flops`` states the peak; otherwise it was measured.
    """

    flops: ModelFlops
    peak: float
    configured: bool

    def share(self, source_tokens: int, target_tokens: int, seconds: float) -> float:
        """Return the utilisation of updates that processed these numbers of tokens in ``seconds`` seconds."""
        return self.flops.total(source_tokens, target_tokens) / (seconds * self.peak)

    def __str__(self) -> str:
        origin = "training.peak_flops" if self.configured else "measured with a matrix product"
        return (
            "utilisation (MFU) is relative to the peak speed of all processes, "
            f"{self.peak / 1e12:,.3g} TFLOP/s ({origin})"
        )


def find_utilisation(
    model: Seq2Seq, settings: TrainingSettings, ranks: Ranks, device: torch.device
) -> Utilisation | None:
    """Return the peak speed with which the updates of a run are compared; all processes must call this.

    Returns:
        the peak speed; None for a single process on a CPU without ``training.peak_flops``, and for a model
        whose operations cannot be counted.
    """
    if not settings.peak_flops and ranks.world == 1 and device.type == "cpu":
        return None
    flops = count_flops(model)
    if flops is None:
        return None
    threads = ranks.thread_count(settings.threads) if device.type == "cpu" else 1
    peak = settings.peak_flops or measure_peak(device, DTYPES[settings.precision], threads)
    return Utilisation(flops, sum(ranks.gather(peak)), bool(settings.peak_flops))


def count_flops(model: Seq2Seq) -> ModelFlops | None:
    """Return the operations per token of a model, or None if torch cannot count a layer's operations."""
    if any(isinstance(module, nn.RNNBase) for module in model.modules()):
        return None
    short_length_count = _count_operations(model, _SHORT_LENGTH, _SHORT_LENGTH)
    source = (_count_operations(model, _LONG_LENGTH, _SHORT_LENGTH) - short_length_count) / (
        _LONG_LENGTH - _SHORT_LENGTH
    )
    target = (_count_operations(model, _SHORT_LENGTH, _LONG_LENGTH) - short_length_count) / (
        _LONG_LENGTH - _SHORT_LENGTH
    )
    output = 2 * model.output.weight.numel()
    return ModelFlops(_PASSES * source, _PASSES * (target + output))


def measure_peak(device: torch.device, dtype: torch.dtype, threads: int = 1) -> float:
    """Return the speed of large matrix products in operations per second, summed over all threads."""
    size = _MATRIX_SIZES[device.type]

    def measure(_: int) -> float:
        left, right = (torch.full((size, size), 0.5, device=device, dtype=dtype) for _ in range(2))
        best_rate, deadline = 0.0, time.perf_counter() + _MEASURING_SECONDS
        torch.mm(left, right)
        while time.perf_counter() < deadline:
            _synchronise(device)
            start = time.perf_counter()
            torch.mm(left, right)
            _synchronise(device)
            best_rate = max(best_rate, 2.0 * size**3 / (time.perf_counter() - start))
        return best_rate

    with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        return sum(pool.map(measure, range(threads)))


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _count_operations(model: Seq2Seq, source: int, target: int) -> int:
    """Return the number of operations that compute the features of a pair with these lengths."""
    token = model.symbols.end
    training = model.training
    model.eval()
    try:
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            model.training_features(
                torch.full((1, source), token, device=model.device),
                torch.full((1, target), token, device=model.device),
            )
    finally:
        model.train(training)
    return int(counter.get_total_flops())
