"""Measurement of the speed of memory, of products in registers, and of the engine's kernels."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, get_args

from uwaga.engine import _core
from uwaga.engine.cpu import available_isas, processor_name, resolve_isa, usable_cores
from uwaga.errors import SettingsError, reason
from uwaga_bench.report import (
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
MIN_READ_BYTES, MAX_READ_BYTES = 1 << 26, 1 << 30
"""Minimum and maximum size, in bytes, of the memory that is read."""
DEFAULT_READ_BYTES = 1 << 28
"""Default size, in bytes, of the memory that is read; it is larger than most caches."""
READ_SIZES = {"256 KiB": 1 << 18, "4 MiB": 1 << 22, "32 MiB": 1 << 25}
"""Sizes, in bytes, that are read repeatedly on every machine; if they fit into a cache, they are read from
it."""
BEYOND_CACHES = "beyond caches"
MIN_THREAD_BYTES = 256
"""Minimum number of bytes that a thread reads at a time."""
NUMBER_CODES = {"int8": 0, "int4": 1, "bfloat16": 2, "float32": 3}
"""Values of ``Numbers`` in native/rates/rates.h."""
INTEGER_FORMATS = ("int8", "int4")
"""Number formats whose products are computed with 8-bit integers."""
WIDTH, FEED_FORWARD, VOCABULARY, POSITIONS = 512, 2048, 32_000, 32
"""Sizes of a Transformer-base: the width of its rows and of its feed-forward layers, its vocabulary, and the
number of positions of a sentence."""


class Limits(NamedTuple):
    """The maximum rates of all threads.

    Attributes:
        memory: bytes read per second.
        products: operations per second, by number format.
    """

    memory: float
    products: Mapping[str, float]

    def minimum_time(self, weight_bytes: float, operations: float, number_format: str) -> tuple[float, Bound]:
        """Return the minimum time, in seconds, to read and multiply weights, and which of the two is
        slower.
        """
        reading_seconds = weight_bytes / self.memory
        peak = self.products.get("int8" if number_format in INTEGER_FORMATS else "float32")
        computing_seconds = operations / peak if peak else 0.0
        return max(
            reading_seconds, computing_seconds
        ), "memory" if reading_seconds >= computing_seconds else "products"


class _Case(NamedTuple):
    """A kernel to measure, with its sizes; ``outputs`` is None for kernels that process only rows."""

    kernel: Kernel
    numbers: KernelNumbers
    rows: int
    outputs: int | None


KERNEL_CASES = (
    *(_Case("product", "int8", rows, FEED_FORWARD) for rows in (1, 8, 32, 128)),
    *(_Case("product", "int4", rows, FEED_FORWARD) for rows in (1, 32)),
    *(_Case("product", "bfloat16", rows, FEED_FORWARD) for rows in (1, 32)),
    *(_Case("product", "float32", rows, FEED_FORWARD) for rows in (1, 32)),
    *(_Case("output", "int8", rows, VOCABULARY) for rows in (1, 32)),
    _Case("attention", "float16", 32, POSITIONS),
    _Case("quantise", "float32", 32, None),
    _Case("norm", "float32", 32, None),
)
"""The kernels to measure, on rows of :data:`WIDTH` numbers."""


def describe_machine(threads: int) -> Machine:
    """Return a description of the machine; ``threads`` is the number of threads of the measurements."""
    load = None
    with suppress(OSError, AttributeError):  # Windows has no load average
        load = os.getloadavg()[0]
    return Machine(
        processor=printable(processor_name()),
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        instruction_set=_core.ISAS[resolve_isa()],
        instruction_sets=available_isas(),
        cores=usable_cores(),
        threads=threads,
        load=load,
    )


@contextmanager
def open_rates(threads: int) -> Iterator[_core.Rates]:
    """Yield the object that measures with the chosen instruction set; it owns the memory that is read."""
    try:
        yield _core.Rates(resolve_isa(), memory_size(), threads)
    except (MemoryError, RuntimeError) as error:
        raise SettingsError(f"the measurement cannot run: {reason(error)}; use fewer --threads") from None


def memory_size() -> int:
    """Return the number of bytes to read to measure memory speed, at least twice the largest known cache."""
    largest = max((_cache_bytes(path) for path in CACHES.glob("index*/size")), default=0)
    max_bytes = float(MAX_READ_BYTES)
    with suppress(OSError, ValueError, AttributeError):  # Windows has no sysconf
        max_bytes = min(max_bytes, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 4)
    with suppress(OSError, ValueError):  # "max": no limit
        max_bytes = min(max_bytes, int(MEMORY_LIMIT.read_text(encoding="ascii")) / 4)
    return max(MIN_READ_BYTES, int(min(max(DEFAULT_READ_BYTES, 2 * largest), max_bytes)) >> 20 << 20)


def _cache_bytes(path: Path) -> int:
    """Return the size of a cache in bytes, given a file in which Linux states it, such as ``2048K``."""
    try:
        text = path.read_text(encoding="ascii").strip()
        return int(text.removesuffix("K").removesuffix("M")) << (20 if text.endswith("M") else 10)
    except (OSError, ValueError):
        return 0


MeasurementCallback = Callable[[], None]
"""A function that is called after each measurement."""


def read_memory(
    rates: _core.Rates,
    models: Mapping[str, int],
    threads: int,
    seconds: float,
    on_measured: MeasurementCallback,
) -> list[MemoryRate]:
    """Return the measured speed of reading memory areas of several sizes.

    Args:
        rates: the object that measures.
        models: sizes of models to read in addition, by name.
        threads: number of threads; each size is also read by one thread.
        seconds: time for each measurement.
        on_measured: called after each measurement.
    """
    beyond_caches = memory_size()
    memory_rates = []
    for name, size in {**READ_SIZES, BEYOND_CACHES: beyond_caches, **models}.items():
        read_bytes = max(min(size, beyond_caches), MIN_THREAD_BYTES * threads)
        one_thread = all_threads = rates.read(read_bytes, 1, seconds)
        on_measured()
        if threads > 1:
            all_threads = rates.read(read_bytes, threads, seconds)
            on_measured()
        memory_rates.append(
            MemoryRate(name=name, bytes=read_bytes, one_thread=one_thread, all_threads=all_threads)
        )
    return memory_rates


def measure_peaks(rates: _core.Rates, seconds: float, on_measured: MeasurementCallback) -> list[PeakRate]:
    """Return the measured speed of products in registers; the list is empty for the portable kernels."""
    peak_rates = []
    for numbers in get_args(PeakNumbers):
        operations = rates.peak(NUMBER_CODES[numbers], seconds)
        on_measured()
        if operations:
            peak_rates.append(PeakRate(numbers=numbers, operations_per_second=operations))
    return peak_rates


def measure_kernels(
    rates: _core.Rates, limits: Limits, seconds: float, on_measured: MeasurementCallback
) -> list[KernelRate]:
    """Return the measured speed of the kernels, whose weights, keys and values are read from memory.

    Args:
        rates: the object that measures.
        limits: limits of all threads beyond the caches.
        seconds: time for each kernel.
        on_measured: called after each measurement.
    """
    kernel_rates = []
    for case in KERNEL_CASES:
        operations, bytes_per_second = _measure(rates, case, seconds)
        on_measured()
        # The minimum time for the work of one second is its share of the limit. Rows in a cache have no
        # limit.
        share, bound = (
            limits.minimum_time(bytes_per_second, operations, case.numbers) if operations else (None, None)
        )
        kernel_rates.append(
            KernelRate(
                kernel=case.kernel,
                numbers=case.numbers,
                rows=case.rows,
                inputs=WIDTH,
                outputs=case.outputs,
                operations_per_second=operations or None,
                bytes_per_second=bytes_per_second,
                bound=bound,
                share=share,
            )
        )
    return kernel_rates


def _measure(rates: _core.Rates, case: _Case, seconds: float) -> tuple[float, float]:
    if case.kernel == "quantise":
        return rates.quantise(case.rows, WIDTH, seconds)
    if case.kernel == "norm":
        return rates.norm(case.rows, WIDTH, seconds)
    outputs = case.outputs or 1
    if case.kernel == "attention":
        return rates.attention(case.rows, WIDTH, outputs, seconds)
    measure = rates.output if case.kernel == "output" else rates.product
    return measure(NUMBER_CODES[case.numbers], case.rows, WIDTH, outputs, seconds)


def count_measurements(threads: int, models: int) -> int:
    """Return the number of measurements of memory, products and kernels, with ``models`` additional sizes."""
    sizes = len(READ_SIZES) + 1 + models
    return sizes * (1 if threads == 1 else 2) + 2 + len(KERNEL_CASES)
