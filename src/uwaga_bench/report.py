"""The report of ``uwaga bench``: its schema, reading a report from a file, and comparing two reports."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import AfterValidator, Field

from uwaga.errors import DataError, SettingsError, quoted
from uwaga.files.regular import read_regular
from uwaga.settings.parsing import StrictModel, parse
from uwaga.tokenizers.pretrained_files import check_surrogates

FORMAT: Final = "uwaga bench"
VERSION: Final = 1
"""Version of the schema, which changes if the name or meaning of a figure changes."""
MAX_REPORT_BYTES = 1 << 20
"""Maximum size of a report in bytes."""
MAX_ENTRIES = 200
"""Maximum number of entries of a list."""
MAX_TEXT_LENGTH = 1000
"""Maximum number of characters of a text."""


def printable(text: str) -> str:
    """Return a text that this machine's system reports, shortened and without control characters."""
    return "".join(filter(str.isprintable, text))[:MAX_TEXT_LENGTH]


def _check_printable(text: str) -> str:
    """Return a text, or raise ValueError if it has control characters."""
    if not text.isprintable():
        raise ValueError("has control characters")
    return text


Text = Annotated[str, Field(max_length=MAX_TEXT_LENGTH), AfterValidator(_check_printable)]
PositiveFloat = Annotated[float, Field(ge=1e-9, le=1e21)]
Count = Annotated[int, Field(ge=1, le=1 << 50)]
Numbers = Literal["int8", "int4", "bfloat16", "float32"]
PeakNumbers = Literal["int8", "float32"]
KernelNumbers = Literal["int8", "int4", "bfloat16", "float16", "float32"]
Kernel = Literal["product", "output", "attention", "quantise", "norm"]
Bound = Literal["memory", "products"]
"""The limit of a rate: reading the weights from memory, or multiplying them in registers."""


class Build(StrictModel):
    """The build of uwaga: its version, and the commit, compiler and flags of the engine."""

    version: Text
    commit: Text
    compiler: Text
    flags: Text


class Machine(StrictModel):
    """The machine.

    ``cores`` is the number of usable cores, ``threads`` the number of threads of the measurements, and
    ``load`` the load average before them.
    """

    processor: Text
    system: Text
    python: Text
    instruction_set: Text
    instruction_sets: list[Text] = Field(max_length=MAX_ENTRIES)
    cores: Count
    threads: Count
    load: Annotated[float, Field(ge=0, le=1e9)] | None


class MemoryRate(StrictModel):
    """The number of bytes read per second from a memory area of ``bytes`` bytes, which is read repeatedly."""

    name: Text
    bytes: Count
    one_thread: PositiveFloat
    all_threads: PositiveFloat


class PeakRate(StrictModel):
    """The number of operations per second in multiply-adds in registers, by all threads together."""

    numbers: PeakNumbers
    operations_per_second: PositiveFloat


class KernelRate(StrictModel):
    """The rate of a kernel on rows of ``inputs`` numbers, by all threads together, each on separate rows.

    ``outputs`` is the number of outputs of a product, or of positions of the attention. ``bytes_per_second``
    counts weights, keys and values; for ``quantise`` and ``norm``, whose rows are in a cache, it counts the
    rows. ``share`` is the rate divided by the limit of memory or of products in registers, whichever is
    lower.
    """

    kernel: Kernel
    numbers: KernelNumbers
    rows: Count
    inputs: Count
    outputs: Count | None
    operations_per_second: PositiveFloat | None
    bytes_per_second: PositiveFloat
    bound: Bound | None
    share: PositiveFloat | None


class SearchRate(StrictModel):
    """The number of target tokens per second of a search.

    ``limit`` is the maximum that memory and products in registers allow, and ``share`` the rate divided by
    it.
    """

    numbers: Numbers
    batch: Count
    beam: Count
    tokens_per_second: PositiveFloat
    limit: PositiveFloat
    bound: Bound
    share: PositiveFloat


class ModelRates(StrictModel):
    """The rates of the searches of a model; all targets have ``target`` tokens."""

    name: Text
    family: Text
    weights: Count
    target: Count
    searches: list[SearchRate] = Field(max_length=MAX_ENTRIES)


class Report(StrictModel):
    """A report; ``seconds`` is the requested time for the measurements."""

    format: Literal["uwaga bench"]
    version: Literal[1]
    build: Build
    machine: Machine
    seconds: PositiveFloat
    memory: list[MemoryRate] = Field(max_length=MAX_ENTRIES)
    peaks: list[PeakRate] = Field(max_length=MAX_ENTRIES)
    kernels: list[KernelRate] = Field(max_length=MAX_ENTRIES)
    model: ModelRates

    def to_json(self) -> str:
        """Return the report as JSON, with rates rounded to five significant digits."""
        return json.dumps(_round(self.model_dump()), ensure_ascii=False, indent=1)

    def measurements(self) -> Iterator[Measurement]:
        """Yield all rates, with names that are the same on all machines."""
        for memory in self.memory:
            yield Measurement(f"reading {memory.name}, 1 thread", memory.one_thread, "B/s")
            yield Measurement(f"reading {memory.name}, all threads", memory.all_threads, "B/s")
        for peak in self.peaks:
            yield Measurement(f"{peak.numbers} in registers", peak.operations_per_second, "op/s")
        for kernel in self.kernels:
            size = f"{kernel.inputs}" if kernel.outputs is None else f"{kernel.inputs} x {kernel.outputs}"
            name = f"{kernel.kernel} {size}, {kernel.numbers}, rows {kernel.rows}"
            if kernel.operations_per_second is None:
                yield Measurement(name, kernel.bytes_per_second, "B/s")
            else:
                yield Measurement(name, kernel.operations_per_second, "op/s")
        model = f"{self.model.name} ({self.model.weights / 1e6:.1f} M)"
        for search in self.model.searches:
            name = f"{model}, {search.numbers}, batch {search.batch}, beam {search.beam}"
            yield Measurement(name, search.tokens_per_second, "tokens/s")


class Measurement(NamedTuple):
    """A rate of a report."""

    name: str
    value: float
    unit: str


class Ratio(NamedTuple):
    """A rate in two reports; the value is None for a report without this rate."""

    name: str
    unit: str
    first: float | None
    second: float | None

    @property
    def ratio(self) -> float | None:
        """The first rate divided by the second, or None if a report lacks the rate."""
        return None if self.first is None or self.second is None else self.first / self.second


def compare(first_report: Report, second_report: Report) -> list[Ratio]:
    """Return the rates of two reports: first all rates of the first report, then those that it lacks."""
    first_measurements = {measurement.name: measurement for measurement in first_report.measurements()}
    second_measurements = {measurement.name: measurement for measurement in second_report.measurements()}
    return [
        Ratio(
            name,
            measurement.unit,
            _value(first_measurements.get(name)),
            _value(second_measurements.get(name)),
        )
        for name, measurement in (first_measurements | second_measurements).items()
    ]


def read_report(path: Path) -> Report:
    """Read a report, which may come from an untrusted source, from a file."""
    try:
        content = read_regular(path, MAX_REPORT_BYTES)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
    try:
        values = json.loads(content.decode("utf-8"))
        check_surrogates(content, values)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not valid JSON: {error}; write one with `uwaga bench --json`") from None
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise DataError(
            f'{path}: not a report ("format": "{FORMAT}" is missing); write one with `uwaga bench --json`'
        )
    version = values.get("version")
    if type(version) is int and version > VERSION:
        raise DataError(
            f"{path}: version: the report has version {quoted(version)}, but the installed uwaga reads "
            f"version {VERSION}; install a newer version of uwaga"
        )
    try:
        return parse(Report, values, str(path))
    except SettingsError as error:
        raise DataError(str(error)) from None


def _value(measurement: Measurement | None) -> float | None:
    return None if measurement is None else measurement.value


def _round(values: object) -> object:
    if isinstance(values, dict):
        return {name: _round(value) for name, value in values.items()}
    if isinstance(values, list):
        return [_round(value) for value in values]
    return float(f"{values:.5g}") if isinstance(values, float) else values
