"""Measurement of a complete report: the machine, its memory, the kernels and a model."""

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
from uwaga.settings.options import check_choice, check_integer
from uwaga_bench.machine import (
    BEYOND_CACHES,
    Limits,
    count_measurements,
    describe_machine,
    measure_kernels,
    measure_peaks,
    open_rates,
    read_memory,
)
from uwaga_bench.report import FORMAT, VERSION, Build, ModelRates, Numbers, Report, printable
from uwaga_bench.searches import BATCH_SIZES, BEAM_SIZES, TARGET_TOKENS, load_model, measure_searches

SEARCH_SHARE = 0.5
"""Proportion of the time that is used for searches."""
BUNDLED = "bundled"
"""The name of the bundled model in a report."""
MIN_SECONDS, MAX_SECONDS = 0.01, 3600.0
"""Minimum and maximum time of all measurements, in seconds."""

Advance = Callable[[int, int], None]
"""A function that receives the number of completed measurements and their total number."""


def measure(
    name: str | None,
    formats: Sequence[str] = (),
    threads: int = 0,
    seconds: float = 10.0,
    advance: Advance = lambda completed_count, total: None,
) -> Report:
    """Measure this machine and a model on it, and return the report.

    Args:
        name: the model, as for :func:`uwaga.load`; None for the bundled model.
        formats: number formats of the model's weights: int8, int4, bfloat16 or float32. The default is the
            format of a quantised folder, or int8 for other models.
        threads: number of threads; 0 for one per core that the process may use.
        seconds: time for all measurements, not including loading the model; each measurement runs at least
            once.
        advance: called after each measurement.
    """
    check_integer("threads", threads, 0, MAX_THREADS)
    if not MIN_SECONDS <= seconds <= MAX_SECONDS:
        raise SettingsError(f"seconds must be from {MIN_SECONDS} to {MAX_SECONDS:.0f}, not {seconds}")
    numbers: list[Numbers | None] = [_numbers(dtype.strip()) for dtype in dict.fromkeys(formats)]
    threads = threads or min(usable_cores(), MAX_THREADS)
    machine = describe_machine(threads)
    checkpoint = read(find_model(name))
    models = [load_model(checkpoint, number_format, threads) for number_format in numbers or [None]]
    sizes = {f"{model.numbers} weights of a step": model.work.step_bytes for model in models}
    machine_count = count_measurements(threads, len(models))
    search_count = len(models) * len(BATCH_SIZES) * len(BEAM_SIZES)
    measurement_seconds, completed_count = (1 - SEARCH_SHARE) * seconds / machine_count, 0

    def count_measurement() -> None:
        nonlocal completed_count
        completed_count += 1
        advance(completed_count, machine_count + search_count)

    with open_rates(threads) as rates:
        memory = read_memory(rates, sizes, threads, measurement_seconds, count_measurement)
        peaks = measure_peaks(rates, measurement_seconds, count_measurement)
        speeds = {rate.name: rate.all_threads for rate in memory}
        products: dict[str, float] = {peak.numbers: peak.operations_per_second for peak in peaks}
        kernels = measure_kernels(
            rates, Limits(speeds[BEYOND_CACHES], products), measurement_seconds, count_measurement
        )
    search_rates = [
        rate
        for model, size in zip(models, sizes, strict=True)
        for rate in measure_searches(
            model, Limits(speeds[size], products), SEARCH_SHARE * seconds / search_count, count_measurement
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
            weights=models[0].work.per_batch + models[0].work.step,
            target=TARGET_TOKENS,
            searches=search_rates,
        ),
    )


def _numbers(name: str) -> Numbers:
    check_choice("dtype", name, get_args(Numbers))
    return cast(Numbers, name)


def _short_name(name: str | None) -> str:
    """Return the name of a model without the path of its folder on this machine."""
    if name is None:
        return BUNDLED
    return Path(name).resolve().name if Path(name).exists() else name
