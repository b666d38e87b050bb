"""The measurements of ``uwaga bench``: which there are, and what holds between them on every machine."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from native_models import recurrent_shapes, shapes

from uwaga.checkpoints.registry import read
from uwaga.checkpoints.to_engine import to_engine
from uwaga.conversion.quantise import quantise
from uwaga.engine import NativeModel, _core, cpu, pack
from uwaga.engine.layout import products, stored_shapes
from uwaga.errors import ModelError, SettingsError
from uwaga.speed import machine
from uwaga.speed.machine import CASES, Limits
from uwaga.speed.measure import measure
from uwaga.speed.report import Report
from uwaga.speed.searches import TABLES, TARGET, Work, draw_sources, search_fixed

MODEL = Path(__file__).parents[1] / "support/models/numbers-en-de"
SMALL = 1 << 26
SECONDS = 0.01


@pytest.fixture(autouse=True)
def little_memory(monkeypatch):
    monkeypatch.setattr(machine, "memory_size", lambda: SMALL)


def measured(**options) -> Report:
    return measure(str(MODEL), **({"formats": ["int8"], "threads": 1, "seconds": SECONDS} | options))


def test_a_report_has_every_measurement_and_their_number_is_known_before():
    seen = []
    report = measured(formats=["int8", "float32"], threads=2, advance=lambda *counts: seen.append(counts))
    total = len(seen)
    assert seen == [(done, total) for done in range(1, total + 1)]
    assert [one.name for one in report.memory] == [
        *machine.SIZES,
        machine.BEYOND,
        "int8 weights of a step",
        "float32 weights of a step",
    ]
    assert [(one.kernel, one.numbers, one.rows) for one in report.kernels] == [case[:3] for case in CASES]
    assert [(one.numbers, one.batch, one.beam) for one in report.model.searches] == [
        (numbers, batch, beam) for numbers in ("int8", "float32") for batch in (1, 32) for beam in (1, 4)
    ]
    assert report.model.name == "numbers-en-de" and report.machine.threads == 2


def test_shares_are_rates_by_limits():
    report = measured()
    memory = next(one.all_threads for one in report.memory if one.name == machine.BEYOND)
    products = {one.numbers: one.operations_per_second for one in report.peaks}
    for kernel in report.kernels:
        if kernel.operations_per_second is None:
            assert kernel.share is None and kernel.bound is None
            continue
        reading = kernel.bytes_per_second / memory
        peak = products.get("int8" if kernel.numbers in ("int8", "int4") else "float32", math.inf)
        computing = kernel.operations_per_second / peak
        assert kernel.share == pytest.approx(max(reading, computing))
        assert kernel.bound == ("memory" if reading >= computing else "products")
    for search in report.model.searches:
        assert search.share == pytest.approx(search.tokens_per_second / search.limit)


@pytest.mark.parametrize("isa", cpu.usable())
def test_the_report_names_the_chosen_instruction_set(isa, monkeypatch):
    monkeypatch.setenv(cpu.VARIABLE, isa)
    monkeypatch.setattr(machine, "CASES", CASES[:1])
    report = measured()
    assert report.machine.instruction_set == isa
    assert [one.numbers for one in report.peaks] == ([] if isa == "portable" else ["int8", "float32"])


def test_an_unknown_instruction_set_is_refused(monkeypatch):
    monkeypatch.setenv(cpu.VARIABLE, "mmx")
    with pytest.raises(SettingsError, match="mmx"):
        measured()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"formats": ["int8", "int7"]}, "dtype"),
        ({"formats": [""]}, "dtype"),
        ({"threads": -1}, "threads"),
        ({"threads": 1 << 20}, "threads"),
        ({"seconds": 0.0}, "seconds"),
        ({"seconds": math.nan}, "seconds"),
        ({"seconds": 1e9}, "seconds"),
    ],
)
def test_an_impossible_option_is_refused(options, named):
    with pytest.raises(SettingsError, match=named):
        measured(**options)


def test_a_quantised_folder_has_numbers_of_its_own(tmp_path):
    quantise(MODEL, tmp_path / "int4", sample=["one two"], precision="int4")
    report = measure(str(tmp_path / "int4"), threads=1, seconds=SECONDS)
    assert {one.numbers for one in report.model.searches} == {"int4"}
    with pytest.raises(SettingsError, match="int4 model"):
        measure(str(tmp_path / "int4"), ["int8"], 1, SECONDS)


def test_a_model_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ModelError):
        measure(str(tmp_path), ["int8"], 1, SECONDS)


@given(st.one_of(shapes(), recurrent_shapes()), st.sampled_from(["int8", "float32"]))
def test_every_matrix_but_tables_is_read_once_or_in_each_step(settings, numbers):
    stored = stored_shapes(settings, 23, 23)
    packed = pack(settings, 23, 23, lambda name: np.ones(stored[name], np.float32), numbers)
    work = Work.of(packed)
    matrices = [one for one in products(settings, 23, 23) if one.name not in TABLES]
    assert work.once + work.step == sum(sum(one.outputs) * one.inputs for one in matrices)
    output = next(one for one in matrices if one.name == "output")
    assert work.once > 0 and work.step > sum(output.outputs) * output.inputs
    width = 1 if numbers == "int8" else 4
    assert work.once_bytes >= width * work.once and work.step_bytes >= width * work.step


def test_targets_have_the_length_that_is_asked_for():
    model = to_engine(read(MODEL), "int8")
    assert isinstance(model, NativeModel)
    for batch in (1, 5):
        for beam in (1, 4):
            assert search_fixed(model, draw_sources(model, batch), beam, TARGET) == batch * TARGET


def test_the_limit_is_the_slower_of_reading_and_multiplying():
    limits = Limits(100.0, {"int8": 1000.0, "float32": 10.0})
    assert limits.shortest(100.0, 500.0, "int8") == (1.0, "memory")
    assert limits.shortest(100.0, 2000.0, "int8") == (2.0, "products")
    assert limits.shortest(100.0, 2000.0, "bfloat16") == (200.0, "products")
    assert Limits(100.0, {}).shortest(100.0, 2000.0, "int8") == (1.0, "memory")


def test_the_memory_exceeds_the_caches_but_not_what_the_group_allows(tmp_path, monkeypatch):
    monkeypatch.undo()
    index = tmp_path / "index3"
    index.mkdir()
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(machine, "CACHES", tmp_path)
    monkeypatch.setattr(machine, "MEMORY_LIMIT", limit)
    monkeypatch.setattr(machine.os, "sysconf", lambda name: 1 << 20, raising=False)  # 1 TiB
    sizes = []
    for cache, allowed in (("8192K", "max"), ("200M", "max"), ("200M", str(1 << 29)), ("200M", "1000")):
        (index / "size").write_text(cache + "\n")
        limit.write_text(allowed + "\n")
        sizes.append(machine.memory_size())
    assert sizes == [machine.USUAL_MEMORY, 400 << 20, 1 << 27, machine.LEAST_MEMORY]


def test_the_core_refuses_what_it_cannot_measure():
    isa = cpu.chosen_isa()
    for arguments in ((99, SMALL, 1), (-1, SMALL, 1), (isa, 0, 1), (isa, SMALL, 0), (isa, SMALL, 1 << 20)):
        with pytest.raises(ValueError):
            _core.Rates(*arguments)
    rates = _core.Rates(isa, SMALL, 1)
    for call in (
        lambda: rates.read(0, 1, SECONDS),
        lambda: rates.read(255, 1, SECONDS),
        lambda: rates.read(SMALL, 0, SECONDS),
        lambda: rates.read(SMALL, 1, -1.0),
        lambda: rates.read(SMALL, 1, math.nan),
        lambda: rates.peak(4, SECONDS),
        lambda: rates.product(0, 0, 512, 512, SECONDS),
        lambda: rates.product(0, 1, 1 << 17, 512, SECONDS),
        lambda: rates.product(3, 1, 1 << 15, 1 << 12, SECONDS),
        lambda: rates.output(0, 1, 512, 0, SECONDS),
        lambda: rates.attention(1, 12, 32, SECONDS),
        lambda: rates.norm(1, 0, SECONDS),
    ):
        with pytest.raises(ValueError):
            call()


@pytest.mark.parametrize("threads", [1, 3])
def test_the_core_measures_odd_sizes(threads):
    rates = _core.Rates(cpu.chosen_isa(), SMALL, threads)
    found = [rates.read(1000 * threads, threads, SECONDS), rates.quantise(3, 7, SECONDS)[1]]
    for numbers in (0, 1, 2, 3):
        found += [*rates.product(numbers, 3, 7, 33, SECONDS), *rates.output(numbers, 3, 7, 33, SECONDS)]
    found += [*rates.attention(3, 24, 5, SECONDS), rates.norm(3, 7, SECONDS)[1]]
    assert all(0 < rate < math.inf for rate in found)
