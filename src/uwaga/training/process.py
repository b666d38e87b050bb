"""Setup of a training process: memory allocator, threads, device, signals."""

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
from uwaga.training.ranks import SINGLE_PROCESS, Ranks

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # parameters of mallopt(3)


def keep_freed_memory() -> None:
    """Make glibc allocate large blocks on its heap, and never shrink the heap; do nothing without glibc.

    Every training step frees and allocates the same hundreds of megabytes. By default, glibc unmaps each
    freed block, and mapping it again takes microseconds per page.
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
    """Context manager within which SIGINT and SIGTERM only set ``requested``, so that an update can finish.

    A second SIGINT raises KeyboardInterrupt, unless ``ignore_repeats`` is True. That option is for torchrun,
    which forwards a signal that its processes have already received from the terminal.
    """

    def __init__(self, ignore_repeats: bool = False) -> None:
        self.requested, self.ignore_repeats = False, ignore_repeats
        self._handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            for signal_number in (signal.SIGINT, signal.SIGTERM):
                self._handlers[signal_number] = signal.signal(signal_number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for signal_number, handler in self._handlers.items():
            signal.signal(signal_number, handler)

    def _handle(self, signal_number: int, frame: FrameType | None) -> None:
        if self.requested and signal_number == signal.SIGINT and not self.ignore_repeats:
            raise KeyboardInterrupt
        self.requested = True


def prepare_process(settings: Settings, ranks: Ranks = SINGLE_PROCESS) -> torch.device:
    """Set the allocator, the number of threads and the seed; return the device to train on.

    If there are several processes on a machine, each uses a different GPU and an equal share of the cores.
    """
    training = settings.training
    keep_freed_memory()
    if training.threads or ranks.world > 1:
        torch.set_num_threads(ranks.thread_count(training.threads))
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
