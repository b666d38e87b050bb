"""A whole report: the machine, its memory, the kernels and a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast, get_args

import uwaga
from uwaga.checkpoints.registry import read
from uwaga.engine import _core
from uwaga.engine.cpu import usable_cores
from uwaga.errors import SettingsError
from uwaga.library.hub import find_model
from uwaga.settings.load_options import MAX_THREADS
from uwaga.settings.options import check_one_of, check_whole
from uwaga.speed.machine import (
    BEYOND,
    Limits,
    count_measurements,
    describe_machine,
    measure_kernels,
    measure_peaks,
    open_rates,
    read_memory,
)
from uwaga.speed.report import FORMAT, VERSION, Build, ModelRates, Numbers, Report, printable
from uwaga.speed.searches import BATCHES, BEAMS, TARGET, load, measure_searches

SEARCHING = 0.5
"""Share of the time for the searches."""
BUNDLED = "bundled"
SHORTEST, LONGEST = 0.01, 3600.0
"""Bounds of the time, in seconds."""

Advance = Callable[[int, int], None]
"""Called with the number of measurements done and their total."""


def measure(
    name: str | None,
    formats: Sequence[str] = (),
    threads: int = 0,
    seconds: float = 10.0,
    advance: Advance = lambda done, total: None,
) -> Report:
    """Measure this machine and a model on it.

    Args:
        name: of the model as :func:`uwaga.load` takes it, None for the bundled one.
        formats: number formats of the model's weights: int8, int4, bfloat16 or float32; by default that
            of a quantised folder, and int8 for other models.
        threads: threads to use, 0 for one for each core that the process may use.
        seconds: time for all measurements, without loading the model; each takes at least one call.
        advance: called after each measurement.
    """
    check_whole("threads", threads, 0, MAX_THREADS)
    if not SHORTEST <= seconds <= LONGEST:
        raise SettingsError(f"seconds must be from {SHORTEST} to {LONGEST:.0f}, not {seconds}")
    numbers: list[Numbers | None] = [_numbers(one.strip()) for one in dict.fromkeys(formats)]
    threads = threads or min(usable_cores(), MAX_THREADS)
    machine = describe_machine(threads)
    checkpoint = read(find_model(name))
    models = [load(checkpoint, each, threads) for each in numbers or [None]]
    sizes = {f"{one.numbers} weights of a step": one.work.step_bytes for one in models}
    own, searches = count_measurements(threads, len(models)), len(models) * len(BATCHES) * len(BEAMS)
    each, done = (1 - SEARCHING) * seconds / own, 0

    def next_done() -> None:
        nonlocal done
        done += 1
        advance(done, own + searches)

    with open_rates(threads) as rates:
        memory = read_memory(rates, sizes, threads, each, next_done)
        peaks = measure_peaks(rates, each, next_done)
        speeds = {one.name: one.all_threads for one in memory}
        products: dict[str, float] = {one.numbers: one.operations_per_second for one in peaks}
        kernels = measure_kernels(rates, Limits(speeds[BEYOND], products), each, next_done)
    found = [
        rate
        for one, size in zip(models, sizes, strict=True)
        for rate in measure_searches(
            one, Limits(speeds[size], products), SEARCHING * seconds / searches, next_done
        )
    ]
    return Report(
        format=FORMAT,
        version=VERSION,
        build=Build(
            version=uwaga.__version__,
            commit=_core.COMMIT,
            compiler=_core.COMPILER,
            flags=printable(f"{_core.BUILD_TYPE} {_core.FLAGS}".strip()),
        ),
        machine=machine,
        seconds=seconds,
        memory=memory,
        peaks=peaks,
        kernels=kernels,
        model=ModelRates(
            name=printable(_short_name(name)),
            family=checkpoint.family,
            weights=models[0].work.once + models[0].work.step,
            target=TARGET,
            searches=found,
        ),
    )


def _numbers(name: str) -> Numbers:
    check_one_of("dtype", name, get_args(Numbers))
    return cast(Numbers, name)


def _short_name(name: str | None) -> str:
    """Return the name of a model, without the folders of this machine."""
    if name is None:
        return BUNDLED
    return Path(name).resolve().name if Path(name).exists() else name
