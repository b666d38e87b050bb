"""Reports of ``uwaga bench``: conversion to JSON, comparison, and reading of untrusted files."""

import copy
import json
import math

import pytest

from uwaga.errors import DataError
from uwaga_bench.report import MAX_REPORT_BYTES, VERSION, Report, compare, read_report

REPORT = {
    "format": "uwaga bench",
    "version": 1,
    "build": {"version": "0.1.0", "commit": "abc", "compiler": "GNU 12", "flags": "-O3"},
    "machine": {
        "processor": "A Processor", "system": "Linux x86_64", "python": "3.11.7", "instruction_set": "avx2",
        "instruction_sets": ["portable", "avx2"], "cores": 4, "threads": 2, "load": None,
    },
    "seconds": 10.0,
    "memory": [{"name": "4 MiB", "bytes": 4194304, "one_thread": 2.5e10, "all_threads": 5e10}],
    "peaks": [{"numbers": "int8", "operations_per_second": 1e12}],
    "kernels": [
        {
            "kernel": "product", "numbers": "int8", "rows": 8, "inputs": 512, "outputs": 2048,
            "operations_per_second": 1e11, "bytes_per_second": 1e10, "bound": "memory", "share": 0.5,
        },
        {
            "kernel": "norm", "numbers": "float32", "rows": 32, "inputs": 512, "outputs": None,
            "operations_per_second": None, "bytes_per_second": 1e10, "bound": None, "share": None,
        },
    ],
    "model": {
        "name": "bundled",
        "family": "transformer",
        "weights": 5727232,
        "target": 16,
        "searches": [
            {
                "numbers": "int8", "batch": 1, "beam": 4, "tokens_per_second": 5000.0, "limit": 20000.0,
                "bound": "memory", "share": 0.25,
            }
        ],
    },
}  # fmt: skip


@pytest.fixture
def path(tmp_path):
    return tmp_path / "report.json"


def key_paths(values, prefix=()):
    """Yield the sequence of keys that leads to each value, object and list in a JSON document."""
    keys = values.items() if isinstance(values, dict) else enumerate(values)
    for key, value in keys:
        yield (*prefix, key)
        if isinstance(value, dict | list):
            yield from key_paths(value, (*prefix, key))


def changed_report(key_path, value):
    """Return a copy of the report with one value replaced."""
    report = copy.deepcopy(REPORT)
    group = report
    for key in key_path[:-1]:
        group = group[key]
    group[key_path[-1]] = value
    return report


def error_message(path, content):
    """Return the error message that reading a report file with the given content causes."""
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(DataError) as error:
        read_report(path)
    message = str(error.value)
    assert message.startswith(f"{path}: ") and "\n" not in message and len(message) < 2000
    return message


def test_report_survives_a_json_round_trip(path):
    report = Report.model_validate(REPORT)
    assert json.loads(report.to_json()) == REPORT
    path.write_text(report.to_json())
    assert read_report(path) == report


def test_comparing_a_report_with_itself_gives_ratios_of_one():
    report = Report.model_validate(REPORT)
    ratios = compare(report, report)
    assert len(ratios) == 6 and {comparison.ratio for comparison in ratios} == {1.0}


def test_comparison_contains_rate_ratios_of_two_reports():
    faster = changed_report(("memory", 0, "all_threads"), 1e11)
    faster["peaks"] = []
    ratios = {
        comparison.name: comparison
        for comparison in compare(Report.model_validate(faster), Report.model_validate(REPORT))
    }
    assert ratios["reading 4 MiB, all threads"].ratio == 2
    assert ratios["reading 4 MiB, 1 thread"].ratio == 1
    assert ratios["int8 in registers"].first is None and ratios["int8 in registers"].ratio is None


def test_rates_of_different_models_are_not_compared():
    other = changed_report(("model", "weights"), 70_000_000)
    comparisons = compare(Report.model_validate(REPORT), Report.model_validate(other))
    searches = [comparison for comparison in comparisons if comparison.unit == "tokens/s"]
    assert len(searches) == 2 and {comparison.ratio for comparison in searches} == {None}


@pytest.mark.parametrize(
    "key_path", list(key_paths(REPORT)), ids=lambda key_path: ".".join(map(str, key_path))
)
def test_invalid_value_error_names_its_key(path, key_path):
    hostile = [-1, math.nan, math.inf, 10**400, 1e300, {"a": []}, [[]], "\x1b[2J", "x" * 10**5]
    for value in hostile:
        message = error_message(path, changed_report(key_path, value))
        assert str(key_path[0]) in message.removeprefix(str(path)) and message.isprintable()


@pytest.mark.parametrize(
    "key_path", [key_path for key_path in key_paths(REPORT) if isinstance(key_path[-1], str)], ids=str
)
def test_missing_key_is_reported(path, key_path):
    report = copy.deepcopy(REPORT)
    group = report
    for key in key_path[:-1]:
        group = group[key]
    del group[key_path[-1]]
    assert key_path[-1] in error_message(path, report)


def test_unknown_key_error_suggests_a_similar_key(path):
    assert "did you mean 'processor'?" in error_message(path, changed_report(("machine", "procesor"), "x"))


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\xff\xfe", b"[]", b"null", b"{}", b"[" * 100_000,
        b'{"format": "uwaga bench", "version": ' + b"9" * 5000 + b"}", b'{"format": "\\ud800"}',
    ],
    ids=["empty", "no text", "list", "null", "no format", "deep", "long number", "surrogate"],
)  # fmt: skip
def test_invalid_report_is_rejected(path, content):
    error_message(path, content)


def test_newer_report_version_is_rejected(path):
    assert "newer version of uwaga" in error_message(path, changed_report(("version",), VERSION + 1))


def test_oversized_report_is_rejected(path):
    assert "larger than" in error_message(path, b" " * (MAX_REPORT_BYTES + 1))


def test_unreadable_paths_are_rejected(path):
    for unreadable in (path.parent, path):
        with pytest.raises(DataError, match="cannot be read"):
            read_report(unreadable)
