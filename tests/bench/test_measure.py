"""The measurements of ``uwaga bench``, and relations between them that hold on every machine."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from native_models import recurrent_settings, transformer_settings

from uwaga.checkpoints.registry import read
from uwaga.checkpoints.to_engine import to_engine
from uwaga.conversion.quantise import quantise
from uwaga.engine import NativeModel, _core, cpu, pack
from uwaga.engine.layout import products, stored_shapes
from uwaga.errors import ModelError, SettingsError
from uwaga_bench import machine
from uwaga_bench.machine import KERNEL_CASES, Limits
from uwaga_bench.measure import measure
from uwaga_bench.report import Report
from uwaga_bench.searches import EMBEDDING_TABLES, TARGET_TOKENS, Work, draw_sources, search_fixed_length

MODEL = Path(__file__).parents[1] / "support/models/numbers-en-de"
SMALL_MEMORY = 1 << 26
SECONDS = 0.01


@pytest.fixture(autouse=True)
def small_memory(monkeypatch):
    monkeypatch.setattr(machine, "memory_size", lambda: SMALL_MEMORY)


def run_measure(**options) -> Report:
    return measure(str(MODEL), **({"formats": ["int8"], "threads": 1, "seconds": SECONDS} | options))


def test_report_lists_all_measurements():
    progress = []
    report = run_measure(
        formats=["int8", "float32"], threads=2, advance=lambda *counts: progress.append(counts)
    )
    total = len(progress)
    assert progress == [(completed, total) for completed in range(1, total + 1)]
    assert [rate.name for rate in report.memory] == [
        *machine.READ_SIZES, machine.BEYOND_CACHES, "int8 weights of a step", "float32 weights of a step",
    ]  # fmt: skip
    assert [(kernel.kernel, kernel.numbers, kernel.rows) for kernel in report.kernels] == [
        case[:3] for case in KERNEL_CASES
    ]
    assert [(search.numbers, search.batch, search.beam) for search in report.model.searches] == [
        (numbers, batch, beam) for numbers in ("int8", "float32") for batch in (1, 32) for beam in (1, 4)
    ]
    assert report.model.name == "numbers-en-de" and report.machine.threads == 2


def test_kernel_share_is_the_kernel_rate_divided_by_the_hardware_limit():
    report = run_measure()
    memory = next(rate.all_threads for rate in report.memory if rate.name == machine.BEYOND_CACHES)
    products = {rate.numbers: rate.operations_per_second for rate in report.peaks}
    for kernel in report.kernels:
        if kernel.operations_per_second is None:
            assert kernel.share is None and kernel.bound is None
            continue
        memory_share = kernel.bytes_per_second / memory
        peak = products.get("int8" if kernel.numbers in ("int8", "int4") else "float32", math.inf)
        compute_share = kernel.operations_per_second / peak
        assert kernel.share == pytest.approx(max(memory_share, compute_share))
        assert kernel.bound == ("memory" if memory_share >= compute_share else "products")
    for search in report.model.searches:
        assert search.share == pytest.approx(search.tokens_per_second / search.limit)


@pytest.mark.parametrize("isa", cpu.available_isas())
def test_report_names_the_instruction_set(isa, monkeypatch):
    monkeypatch.setenv(cpu.ISA_VARIABLE, isa)
    monkeypatch.setattr(machine, "KERNEL_CASES", KERNEL_CASES[:1])
    report = run_measure()
    assert report.machine.instruction_set == isa
    assert [rate.numbers for rate in report.peaks] == ([] if isa == "portable" else ["int8", "float32"])


def test_unknown_instruction_set_is_rejected(monkeypatch):
    monkeypatch.setenv(cpu.ISA_VARIABLE, "mmx")
    with pytest.raises(SettingsError, match="mmx"):
        run_measure()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"formats": ["int8", "int7"]}, "dtype"), ({"formats": [""]}, "dtype"), ({"threads": -1}, "threads"),
        ({"threads": 1 << 20}, "threads"), ({"seconds": 0.0}, "seconds"), ({"seconds": math.nan}, "seconds"),
        ({"seconds": 1e9}, "seconds"),
    ],
)  # fmt: skip
def test_invalid_option_is_rejected(options, named):
    with pytest.raises(SettingsError, match=named):
        run_measure(**options)


def test_quantised_model_is_measured_only_in_its_own_format(tmp_path):
    quantise(MODEL, tmp_path / "int4", sample=["one two"], precision="int4")
    report = measure(str(tmp_path / "int4"), threads=1, seconds=SECONDS)
    assert {search.numbers for search in report.model.searches} == {"int4"}
    with pytest.raises(SettingsError, match="int4 model"):
        measure(str(tmp_path / "int4"), ["int8"], 1, SECONDS)


def test_missing_model_is_rejected(tmp_path):
    with pytest.raises(ModelError):
        measure(str(tmp_path), ["int8"], 1, SECONDS)


@given(st.one_of(transformer_settings(), recurrent_settings()), st.sampled_from(["int8", "float32"]))
def test_work_estimate_counts_each_matrix_once(settings, numbers):
    stored = stored_shapes(settings, 23, 23)
    packed = pack(settings, (23, 23), lambda name: np.ones(stored[name], np.float32), numbers)
    work = Work.from_weights(packed)
    matrices = [matrix for matrix in products(settings, 23, 23) if matrix.name not in EMBEDDING_TABLES]
    assert work.per_batch + work.step == sum(sum(matrix.outputs) * matrix.inputs for matrix in matrices)
    output = next(matrix for matrix in matrices if matrix.name == "output")
    assert work.per_batch > 0 and work.step > sum(output.outputs) * output.inputs
    width = 1 if numbers == "int8" else 4
    assert work.per_batch_bytes >= width * work.per_batch and work.step_bytes >= width * work.step


def test_fixed_length_search_generates_the_requested_number_of_tokens():
    model = to_engine(read(MODEL), "int8")
    assert isinstance(model, NativeModel)
    for batch in (1, 5):
        for beam in (1, 4):
            assert (
                search_fixed_length(model, draw_sources(model, batch), beam, TARGET_TOKENS)
                == batch * TARGET_TOKENS
            )


def test_shortest_time_is_limited_by_memory_or_compute():
    limits = Limits(100.0, {"int8": 1000.0, "float32": 10.0})
    assert limits.minimum_time(100.0, 500.0, "int8") == (1.0, "memory")
    assert limits.minimum_time(100.0, 2000.0, "int8") == (2.0, "products")
    assert limits.minimum_time(100.0, 2000.0, "bfloat16") == (200.0, "products")
    assert Limits(100.0, {}).minimum_time(100.0, 2000.0, "int8") == (1.0, "memory")


def test_memory_test_size_exceeds_the_caches_and_respects_the_cgroup_limit(tmp_path, monkeypatch):
    monkeypatch.undo()
    index = tmp_path / "index3"
    index.mkdir()
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(machine, "CACHES", tmp_path)
    monkeypatch.setattr(machine, "MEMORY_LIMIT", limit)
    monkeypatch.setattr(machine.os, "sysconf", lambda name: 1 << 20, raising=False)  # 1 TiB
    sizes = []
    for cache, cgroup_limit in (("8192K", "max"), ("200M", "max"), ("200M", str(1 << 29)), ("200M", "1000")):
        (index / "size").write_text(cache + "\n")
        limit.write_text(cgroup_limit + "\n")
        sizes.append(machine.memory_size())
    assert sizes == [machine.DEFAULT_READ_BYTES, 400 << 20, 1 << 27, machine.MIN_READ_BYTES]


def test_core_rejects_invalid_measurement_arguments():
    isa = cpu.resolve_isa()
    for arguments in (
        (99, SMALL_MEMORY, 1),
        (-1, SMALL_MEMORY, 1),
        (isa, 0, 1),
        (isa, SMALL_MEMORY, 0),
        (isa, SMALL_MEMORY, 1 << 20),
    ):
        with pytest.raises(ValueError):
            _core.Rates(*arguments)
    rates = _core.Rates(isa, SMALL_MEMORY, 1)
    for call in (
        lambda: rates.read(0, 1, SECONDS),
        lambda: rates.read(255, 1, SECONDS),
        lambda: rates.read(SMALL_MEMORY, 0, SECONDS),
        lambda: rates.read(SMALL_MEMORY, 1, -1.0),
        lambda: rates.read(SMALL_MEMORY, 1, math.nan),
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
def test_core_measures_positive_rates_for_odd_sizes(threads):
    rates = _core.Rates(cpu.resolve_isa(), SMALL_MEMORY, threads)
    measured_rates = [rates.read(1000 * threads, threads, SECONDS), rates.quantise(3, 7, SECONDS)[1]]
    for numbers in (0, 1, 2, 3):
        measured_rates += [
            *rates.product(numbers, 3, 7, 33, SECONDS),
            *rates.output(numbers, 3, 7, 33, SECONDS),
        ]
    measured_rates += [*rates.attention(3, 24, 5, SECONDS), rates.norm(3, 7, SECONDS)[1]]
    assert all(0 < rate < math.inf for rate in measured_rates)
