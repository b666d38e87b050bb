"""The report of ``uwaga bench``: its schema, how it is read from a file, and two of them side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import AfterValidator, Field

from uwaga.errors import DataError, SettingsError, shown
from uwaga.files.regular import read_regular
from uwaga.settings.parsing import StrictModel, parse
from uwaga.tokenizers.pretrained_files import refuse_surrogates

FORMAT: Final = "uwaga bench"
VERSION: Final = 1
"""Version of the schema. A change of what a figure means, or of its name, is a new version."""
LARGEST = 1 << 20
"""Bytes of a report."""
MOST = 200
"""Entries of a list."""
LONGEST = 1000
"""Characters of a text."""


def printable(text: str) -> str:
    """Return a text of this machine as a report can have it: short, without control characters."""
    return "".join(filter(str.isprintable, text))[:LONGEST]


def _check_printable(text: str) -> str:
    """Return a text that a terminal prints as it is."""
    if not text.isprintable():
        raise ValueError("has control characters")
    return text


Text = Annotated[str, Field(max_length=LONGEST), AfterValidator(_check_printable)]
Positive = Annotated[float, Field(ge=1e-9, le=1e21)]
Count = Annotated[int, Field(ge=1, le=1 << 50)]
Numbers = Literal["int8", "int4", "bfloat16", "float32"]
PeakNumbers = Literal["int8", "float32"]
KernelNumbers = Literal["int8", "int4", "bfloat16", "float16", "float32"]
Kernel = Literal["product", "output", "attention", "quantise", "norm"]
Bound = Literal["memory", "products"]
"""What limits a rate: reading the weights, or multiplying them in registers."""


class Build(StrictModel):
    """The build of uwaga: its version, and the commit, compiler and flags of the engine."""

    version: Text
    commit: Text
    compiler: Text
    flags: Text


class Machine(StrictModel):
    """The machine: ``threads`` were used of ``cores``; ``load`` is that of other programs before."""

    processor: Text
    system: Text
    python: Text
    instruction_set: Text
    instruction_sets: list[Text] = Field(max_length=MOST)
    cores: Count
    threads: Count
    load: Annotated[float, Field(ge=0, le=1e9)] | None


class MemoryRate(StrictModel):
    """Bytes that are read in a second, of ``bytes`` that are read again and again."""

    name: Text
    bytes: Count
    one_thread: Positive
    all_threads: Positive


class PeakRate(StrictModel):
    """Operations a second of multiply-adds in registers, by all threads."""

    numbers: PeakNumbers
    operations_per_second: Positive


class KernelRate(StrictModel):
    """A kernel on rows of ``inputs`` numbers, by all threads, each with rows of its own.

    ``outputs`` are those of a product's matrix, or the positions of an attention. ``bytes_per_second`` counts
    weights, keys and values; of ``quantise`` and ``norm``, whose rows are in cache, the rows. ``share`` is
    the rate divided by what memory or products in registers allow, whichever allows less.
    """

    kernel: Kernel
    numbers: KernelNumbers
    rows: Count
    inputs: Count
    outputs: Count | None
    operations_per_second: Positive | None
    bytes_per_second: Positive
    bound: Bound | None
    share: Positive | None


class SearchRate(StrictModel):
    """Target tokens a second; ``limit`` is the most that memory and products in registers allow."""

    numbers: Numbers
    batch: Count
    beam: Count
    tokens_per_second: Positive
    limit: Positive
    bound: Bound
    share: Positive


class ModelRates(StrictModel):
    """The searches of a model, which all make targets of ``target`` tokens."""

    name: Text
    family: Text
    weights: Count
    target: Count
    searches: list[SearchRate] = Field(max_length=MOST)


class Report(StrictModel):
    """A report; its ``seconds`` are the time that was allowed for the measurements."""

    format: Literal["uwaga bench"]
    version: Literal[1]
    build: Build
    machine: Machine
    seconds: Positive
    memory: list[MemoryRate] = Field(max_length=MOST)
    peaks: list[PeakRate] = Field(max_length=MOST)
    kernels: list[KernelRate] = Field(max_length=MOST)
    model: ModelRates

    def to_json(self) -> str:
        """Return the report as JSON, with rates rounded to five digits."""
        return json.dumps(_rounded(self.model_dump()), ensure_ascii=False, indent=1)

    def figures(self) -> Iterator[Figure]:
        """Yield every rate under a name that is the same in the reports of all machines."""
        for memory in self.memory:
            yield Figure(f"reading {memory.name}, 1 thread", memory.one_thread, "B/s")
            yield Figure(f"reading {memory.name}, all threads", memory.all_threads, "B/s")
        for peak in self.peaks:
            yield Figure(f"{peak.numbers} in registers", peak.operations_per_second, "op/s")
        for one in self.kernels:
            size = f"{one.inputs}" if one.outputs is None else f"{one.inputs} x {one.outputs}"
            name = f"{one.kernel} {size}, {one.numbers}, rows {one.rows}"
            if one.operations_per_second is None:
                yield Figure(name, one.bytes_per_second, "B/s")
            else:
                yield Figure(name, one.operations_per_second, "op/s")
        model = f"{self.model.name} ({self.model.weights / 1e6:.1f} M)"
        for search in self.model.searches:
            name = f"{model}, {search.numbers}, batch {search.batch}, beam {search.beam}"
            yield Figure(name, search.tokens_per_second, "tokens/s")


class Figure(NamedTuple):
    """A rate of a report."""

    name: str
    value: float
    unit: str


class Ratio(NamedTuple):
    """A rate of one report, None if it lacks it, beside that of another."""

    name: str
    unit: str
    one: float | None
    other: float | None

    @property
    def ratio(self) -> float | None:
        """The one divided by the other, None if a report lacks it."""
        return None if self.one is None or self.other is None else self.one / self.other


def compare(one: Report, other: Report) -> list[Ratio]:
    """Return the rates of two reports side by side: those of the first, then what only the second has."""
    ours = {figure.name: figure for figure in one.figures()}
    theirs = {figure.name: figure for figure in other.figures()}
    return [
        Ratio(name, figure.unit, _value(ours.get(name)), _value(theirs.get(name)))
        for name, figure in (ours | theirs).items()
    ]


def read_report(path: Path) -> Report:
    """Read a report, of any origin, from a file."""
    try:
        content = read_regular(path, LARGEST)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
    try:
        values = json.loads(content.decode("utf-8"))
        refuse_surrogates(content, values)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not valid JSON: {error}; write one with `uwaga bench --json`") from None
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise DataError(
            f'{path}: not a report ("format": "{FORMAT}" is missing); write one with `uwaga bench --json`'
        )
    version = values.get("version")
    if type(version) is int and version > VERSION:
        raise DataError(
            f"{path}: version: a report of version {shown(version)}, this uwaga reads {VERSION}; "
            "install a newer uwaga"
        )
    try:
        return parse(Report, values, str(path))
    except SettingsError as error:
        raise DataError(str(error)) from None


def _value(figure: Figure | None) -> float | None:
    return None if figure is None else figure.value


def _rounded(values: object) -> object:
    if isinstance(values, dict):
        return {name: _rounded(value) for name, value in values.items()}
    if isinstance(values, list):
        return [_rounded(value) for value in values]
    return float(f"{values:.5g}") if isinstance(values, float) else values
