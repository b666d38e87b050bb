"""Rates of the memory, of products in registers, and of the engine's kernels."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, get_args

from uwaga.engine import _core
from uwaga.engine.cpu import chosen_isa, processor_name, usable, usable_cores
from uwaga.errors import SettingsError, reason
from uwaga.speed.report import (
    Bound,
    Kernel,
    KernelNumbers,
    KernelRate,
    Machine,
    MemoryRate,
    PeakNumbers,
    PeakRate,
    printable,
)

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
MEMORY_LIMIT = Path("/sys/fs/cgroup/memory.max")
LEAST_MEMORY, MOST_MEMORY = 1 << 26, 1 << 30
"""Bounds of the memory that is read, in bytes."""
USUAL_MEMORY = 1 << 28
"""Bytes that are more than most caches hold."""
SIZES = {"256 KiB": 1 << 18, "4 MiB": 1 << 22, "32 MiB": 1 << 25}
"""Bytes that are read again and again, the same on every machine: from the caches, as far as they go."""
BEYOND = "beyond caches"
LEAST_READ = 256
"""Bytes that a thread reads at a time."""
NUMBERS = {"int8": 0, "int4": 1, "bfloat16": 2, "float32": 3}
"""Values of ``Numbers`` in native/rates/rates.h."""
INTEGERS = ("int8", "int4")
"""Formats whose products are those of 8-bit integers."""
WIDTH, INNER, VOCABULARY, POSITIONS = 512, 2048, 32_000, 32
"""Sizes of a Transformer-base: of its rows, its feed-forward layers, its output and a sentence."""


class Limits(NamedTuple):
    """Rates of all threads: ``memory`` in bytes, ``products`` in operations per second by numbers."""

    memory: float
    products: Mapping[str, float]

    def shortest(self, weight_bytes: float, operations: float, numbers: str) -> tuple[float, Bound]:
        """Return the least seconds for reading weights and for operations on them, and what needs them."""
        reading = weight_bytes / self.memory
        peak = self.products.get("int8" if numbers in INTEGERS else "float32")
        computing = operations / peak if peak else 0.0
        return max(reading, computing), "memory" if reading >= computing else "products"


class _Case(NamedTuple):
    """A kernel with its sizes; ``outputs`` is None for those that have rows only."""

    kernel: Kernel
    numbers: KernelNumbers
    rows: int
    outputs: int | None


CASES = (
    *(_Case("product", "int8", rows, INNER) for rows in (1, 8, 32, 128)),
    *(_Case("product", "int4", rows, INNER) for rows in (1, 32)),
    *(_Case("product", "bfloat16", rows, INNER) for rows in (1, 32)),
    *(_Case("product", "float32", rows, INNER) for rows in (1, 32)),
    *(_Case("output", "int8", rows, VOCABULARY) for rows in (1, 32)),
    _Case("attention", "float16", 32, POSITIONS),
    _Case("quantise", "float32", 32, None),
    _Case("norm", "float32", 32, None),
)
"""Kernels that are measured, with rows of :data:`WIDTH` numbers."""


def describe_machine(threads: int) -> Machine:
    """Return the facts about the machine; ``threads`` are those to be used."""
    load = None
    with suppress(OSError, AttributeError):  # Windows has none
        load = os.getloadavg()[0]
    return Machine(
        processor=printable(processor_name()),
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        instruction_set=_core.ISAS[chosen_isa()],
        instruction_sets=usable(),
        cores=usable_cores(),
        threads=threads,
        load=load,
    )


@contextmanager
def open_rates(threads: int) -> Iterator[_core.Rates]:
    """Yield the measurements of the chosen instruction set, with memory for them."""
    try:
        yield _core.Rates(chosen_isa(), memory_size(), threads)
    except (MemoryError, RuntimeError) as error:
        raise SettingsError(f"the measurement cannot run: {reason(error)}; use fewer --threads") from None


def memory_size() -> int:
    """Return the bytes to read for the speed of memory: twice the largest cache, if so much may be used."""
    largest = max((_cache_bytes(path) for path in CACHES.glob("index*/size")), default=0)
    allowed = float(MOST_MEMORY)
    with suppress(OSError, ValueError, AttributeError):  # Windows has no sysconf
        allowed = min(allowed, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 4)
    with suppress(OSError, ValueError):  # "max": no limit
        allowed = min(allowed, int(MEMORY_LIMIT.read_text(encoding="ascii")) / 4)
    return max(LEAST_MEMORY, int(min(max(USUAL_MEMORY, 2 * largest), allowed)) >> 20 << 20)


def _cache_bytes(path: Path) -> int:
    """Return the size of a cache as the kernel states it: ``2048K``."""
    try:
        text = path.read_text(encoding="ascii").strip()
        return int(text.removesuffix("K").removesuffix("M")) << (20 if text.endswith("M") else 10)
    except (OSError, ValueError):
        return 0


Measured = Callable[[], None]
"""Called after each measurement."""


def read_memory(
    rates: _core.Rates, models: Mapping[str, int], threads: int, seconds: float, done: Measured
) -> list[MemoryRate]:
    """Measure the reading of several sizes.

    Args:
        rates: the measurements.
        models: further sizes by name.
        threads: all threads; each size is also read by one.
        seconds: time for each measurement.
        done: called after each.
    """
    beyond = memory_size()
    found = []
    for name, size in {**SIZES, BEYOND: beyond, **models}.items():
        read = max(min(size, beyond), LEAST_READ * threads)
        one = every = rates.read(read, 1, seconds)
        done()
        if threads > 1:
            every = rates.read(read, threads, seconds)
            done()
        found.append(MemoryRate(name=name, bytes=size, one_thread=one, all_threads=every))
    return found


def measure_peaks(rates: _core.Rates, seconds: float, done: Measured) -> list[PeakRate]:
    """Measure products in registers; the portable kernels have no instructions of their own for them."""
    found = []
    for numbers in get_args(PeakNumbers):
        operations = rates.peak(NUMBERS[numbers], seconds)
        done()
        if operations:
            found.append(PeakRate(numbers=numbers, operations_per_second=operations))
    return found


def measure_kernels(rates: _core.Rates, limits: Limits, seconds: float, done: Measured) -> list[KernelRate]:
    """Measure the kernels, whose weights, keys and values come from memory in turn.

    Args:
        rates: the measurements.
        limits: those of all threads beyond the caches.
        seconds: time for each kernel.
        done: called after each.
    """
    found = []
    for case in CASES:
        operations, read = _measure(rates, case, seconds)
        done()
        # The least seconds for what was done in one: its share of the limit. Rows in cache have none.
        share, bound = limits.shortest(read, operations, case.numbers) if operations else (None, None)
        found.append(
            KernelRate(
                kernel=case.kernel,
                numbers=case.numbers,
                rows=case.rows,
                inputs=WIDTH,
                outputs=case.outputs,
                operations_per_second=operations or None,
                bytes_per_second=read,
                bound=bound,
                share=share,
            )
        )
    return found


def _measure(rates: _core.Rates, case: _Case, seconds: float) -> tuple[float, float]:
    if case.kernel == "quantise":
        return rates.quantise(case.rows, WIDTH, seconds)
    if case.kernel == "norm":
        return rates.norm(case.rows, WIDTH, seconds)
    outputs = case.outputs or 1
    if case.kernel == "attention":
        return rates.attention(case.rows, WIDTH, outputs, seconds)
    measure = rates.output if case.kernel == "output" else rates.product
    return measure(NUMBERS[case.numbers], case.rows, WIDTH, outputs, seconds)


def count_measurements(threads: int, models: int) -> int:
    """Return how often ``done`` is called by the functions above, with so many sizes of models."""
    sizes = len(SIZES) + 1 + models
    return sizes * (1 if threads == 1 else 2) + 2 + len(CASES)
