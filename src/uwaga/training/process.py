"""What a process sets before it trains: allocator, threads, seed and device."""

from __future__ import annotations

import torch

from uwaga.errors import SettingsError
from uwaga.settings import Settings
from uwaga.training.allocator import keep_freed_memory
from uwaga.training.ranks import ALONE, Ranks


def prepare_process(settings: Settings, ranks: Ranks = ALONE) -> torch.device:
    """Set allocator, threads of what is not an update, and seed; return the device to train on.

    Of several processes on a machine each gets a GPU of its own, and a share of the cores.

    Raises:
        SettingsError: the device is not there, or there are fewer GPUs than processes.
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
        raise SettingsError(f"training.device: {training.device} is not there; set it to auto or cpu")
    if device.type != "cuda" or ranks.world == 1:
        return device
    if device.index is not None:
        raise SettingsError(
            f"training.device: {name}, but each of {ranks.local_world} processes needs a GPU of its own; set "
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
