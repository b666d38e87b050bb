"""Set up a training process: memory allocator, threads, device, signals."""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any

import torch

from uwaga.errors import SettingsError
from uwaga.settings import Settings
from uwaga.training.ranks import ALONE, Ranks

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4


def keep_freed_memory() -> None:
    """Make glibc serve large blocks from its heap and never shrink the heap.

    A training step frees and allocates the same hundreds of megabytes every time; by default each block is
    unmapped and faulted in again, at microseconds a page. Does nothing if the C library is not glibc.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return
    mallopt(_MMAP_MAX, 0)
    mallopt(_TRIM_THRESHOLD, 2**31 - 1)
    mallopt(_TOP_PAD, 64 * 2**20)


class Interrupt:
    """Context manager in which SIGINT and SIGTERM only set ``requested``, so that an update can finish.

    A second SIGINT raises KeyboardInterrupt, unless ``patient``: `torchrun` repeats to its processes the
    signal that the terminal has sent them already.
    """

    def __init__(self, patient: bool = False) -> None:
        self.requested, self.patient = False, patient
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT and not self.patient:
            raise KeyboardInterrupt
        self.requested = True


def prepare_process(settings: Settings, ranks: Ranks = ALONE) -> torch.device:
    """Set up allocator, threads outside updates, and seed; return the device to train on.

    Each of several processes on a machine gets its own GPU and a share of the cores.
    """
    training = settings.training
    keep_freed_memory()
    if training.threads or ranks.world > 1:
        torch.set_num_threads(ranks.threads(training.threads))
    torch.manual_seed(training.seed)
    name = training.device
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SettingsError(f"training.device: {training.device} is not available; set it to auto or cpu")
    if device.type != "cuda" or ranks.world == 1:
        return device
    if device.index is not None:
        raise SettingsError(
            f"training.device: {name}, but each of {ranks.local_world} processes needs its own GPU; set "
            "it to cuda"
        )
    if ranks.local_world > torch.cuda.device_count():
        raise SettingsError(
            f"training.device: {ranks.local_world} processes for {torch.cuda.device_count()} GPUs; start one "
            "for each: torchrun --nproc-per-node gpu"
        )
    device = torch.device("cuda", ranks.local)
    torch.cuda.set_device(device)
    return device
