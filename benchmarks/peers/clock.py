"""Code shared by the workers: the job that they are given, the clock, and the result that they write.

Each worker is a script that runs one of the compared systems in a separate process and environment, so this
module may import only torch and numpy. The clock is torch's hook on the step of every optimiser: it records
the same moment in all systems, without changes to them.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import distributed
from torch.optim.optimizer import register_optimizer_step_post_hook


@dataclass(frozen=True)
class Job:
    """The settings of a training run; ``updates`` includes the warm-up updates."""

    settings: Path  # of uwaga, YAML
    batches: Path
    folder: Path  # scratch space
    result: Path
    threads: int
    precision: str
    attention: str
    updates: int
    model: dict[str, Any]
    training: dict[str, Any]
    vocabulary: int
    symbols: dict[str, int]
    cpu_time: bool

    @classmethod
    def from_arguments(cls) -> Job:
        """Return the job in the JSON file that is the only argument of this process; set the number of
        threads.
        """
        values = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
        for name in ("settings", "batches", "folder", "result"):
            values[name] = Path(values[name])
        job = cls(**values)
        torch.set_num_threads(job.threads)
        torch.manual_seed(1)
        return job

    def pairs(self) -> tuple[list[list[int]], list[list[int]], list[list[int]]]:
        """Return the source ids and target ids of all pairs, without special symbols, and the pairs of each
        batch.
        """
        with np.load(self.batches) as file:
            source = _rows(file["source"], file["source_lengths"])
            target = _rows(file["target"], file["target_lengths"])
            stops = np.cumsum(file["sentences"]).tolist()
        groups = [list(range(start, stop)) for start, stop in zip([0, *stops[:-1]], stops, strict=True)]
        return source, target, groups[: self.updates * self.training["accumulate"]]


class Clock:
    """Records the time of each step of an optimiser."""

    def __init__(self, job: Job) -> None:
        self.times: list[float] = []
        self.now = time.process_time if job.cpu_time else time.perf_counter
        register_optimizer_step_post_hook(self._stamp)

    def _stamp(self, *_: Any) -> None:
        self.times.append(self.now())

    def finish(self, job: Job, tokens: int, model: torch.nn.Module, versions: dict[str, str]) -> None:
        """Write the result; ``tokens`` is the number of target tokens that the system counted in all updates.

        If several processes train one model, their tokens and memory are added.
        """
        sums = torch.tensor([tokens, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024])
        if distributed.is_initialized():
            distributed.all_reduce(sums)
            if distributed.get_rank():
                return
        result = {
            "times": self.times,
            "tokens": int(sums[0]),
            "peak_mib": int(sums[1]),
            "weights": sum(p.numel() for p in model.parameters() if p.requires_grad),
            "versions": {"torch": torch.__version__, **versions},
        }
        job.result.write_text(json.dumps(result), encoding="utf-8")


def _rows(values: np.ndarray, lengths: np.ndarray) -> list[list[int]]:
    return [row.tolist() for row in np.split(values, np.cumsum(lengths)[:-1])]
