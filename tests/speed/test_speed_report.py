"""The report of ``uwaga bench``: as JSON and back, side by side, and from files of anybody."""

import copy
import json
import math

import pytest

from uwaga.errors import DataError
from uwaga.speed.report import LARGEST, VERSION, Report, compare, read_report

GOOD = {
    "format": "uwaga bench",
    "version": 1,
    "build": {"version": "0.1.0", "commit": "abc", "compiler": "GNU 12", "flags": "-O3"},
    "machine": {
        "processor": "A Processor",
        "system": "Linux x86_64",
        "python": "3.11.7",
        "instruction_set": "avx2",
        "instruction_sets": ["portable", "avx2"],
        "cores": 4,
        "threads": 2,
        "load": None,
    },
    "seconds": 10.0,
    "memory": [{"name": "4 MiB", "bytes": 4194304, "one_thread": 2.5e10, "all_threads": 5e10}],
    "peaks": [{"numbers": "int8", "operations_per_second": 1e12}],
    "kernels": [
        {
            "kernel": "product",
            "numbers": "int8",
            "rows": 8,
            "inputs": 512,
            "outputs": 2048,
            "operations_per_second": 1e11,
            "bytes_per_second": 1e10,
            "bound": "memory",
            "share": 0.5,
        },
        {
            "kernel": "norm",
            "numbers": "float32",
            "rows": 32,
            "inputs": 512,
            "outputs": None,
            "operations_per_second": None,
            "bytes_per_second": 1e10,
            "bound": None,
            "share": None,
        },
    ],
    "model": {
        "name": "bundled",
        "family": "transformer",
        "weights": 5727232,
        "target": 16,
        "searches": [
            {
                "numbers": "int8",
                "batch": 1,
                "beam": 4,
                "tokens_per_second": 5000.0,
                "limit": 20000.0,
                "bound": "memory",
                "share": 0.25,
            }
        ],
    },
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "report.json"


def places(values, before=()):
    """The path of every value in nested objects and lists, and of these."""
    keys = values.items() if isinstance(values, dict) else enumerate(values)
    for key, value in keys:
        yield (*before, key)
        if isinstance(value, dict | list):
            yield from places(value, (*before, key))


def changed(place, value):
    """The good report with another value in a place."""
    report = copy.deepcopy(GOOD)
    group = report
    for key in place[:-1]:
        group = group[key]
    group[place[-1]] = value
    return report


def refused(path, content):
    """What is said of a file with this content."""
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(DataError) as error:
        read_report(path)
    message = str(error.value)
    assert message.startswith(f"{path}: ") and "\n" not in message and len(message) < 2000
    return message


def test_a_report_is_the_same_after_json(path):
    report = Report.model_validate(GOOD)
    assert json.loads(report.to_json()) == GOOD
    path.write_text(report.to_json())
    assert read_report(path) == report


def test_a_report_beside_itself_has_ratios_of_one():
    report = Report.model_validate(GOOD)
    ratios = compare(report, report)
    assert len(ratios) == 6 and {one.ratio for one in ratios} == {1.0}


def test_the_ratio_is_this_by_the_other_and_absent_where_one_lacks_the_rate():
    faster = changed(("memory", 0, "all_threads"), 1e11)
    faster["peaks"] = []
    ratios = {one.name: one for one in compare(Report.model_validate(faster), Report.model_validate(GOOD))}
    assert ratios["reading 4 MiB, all threads"].ratio == 2
    assert ratios["reading 4 MiB, 1 thread"].ratio == 1
    assert ratios["int8 in registers"].one is None and ratios["int8 in registers"].ratio is None


def test_rates_of_another_model_are_not_divided():
    other = changed(("model", "weights"), 70_000_000)
    found = compare(Report.model_validate(GOOD), Report.model_validate(other))
    searches = [one for one in found if one.unit == "tokens/s"]
    assert len(searches) == 2 and {one.ratio for one in searches} == {None}


@pytest.mark.parametrize("place", list(places(GOOD)), ids=lambda place: ".".join(map(str, place)))
def test_a_hostile_value_is_refused_with_its_key(path, place):
    hostile = [-1, math.nan, math.inf, 10**400, 1e300, {"a": []}, [[]], "\x1b[2J", "x" * 10**5]
    for value in hostile:
        message = refused(path, changed(place, value))
        assert str(place[0]) in message.removeprefix(str(path)) and message.isprintable()


@pytest.mark.parametrize("place", [one for one in places(GOOD) if isinstance(one[-1], str)], ids=str)
def test_a_missing_key_is_named(path, place):
    report = copy.deepcopy(GOOD)
    group = report
    for key in place[:-1]:
        group = group[key]
    del group[place[-1]]
    assert place[-1] in refused(path, report)


def test_an_unknown_key_is_named_with_the_nearest(path):
    assert "did you mean 'processor'?" in refused(path, changed(("machine", "procesor"), "x"))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"null",
        b"{}",
        b"[" * 100_000,
        b'{"format": "uwaga bench", "version": ' + b"9" * 5000 + b"}",
        b'{"format": "\\ud800"}',
    ],
    ids=["empty", "no text", "list", "null", "no format", "deep", "long number", "surrogate"],
)
def test_what_is_no_report_is_refused(path, content):
    refused(path, content)


def test_a_newer_version_is_refused_with_the_way_out(path):
    assert "install a newer uwaga" in refused(path, changed(("version",), VERSION + 1))


def test_a_large_file_is_refused_unread(path):
    assert "larger than" in refused(path, b" " * (LARGEST + 1))


def test_a_folder_and_a_missing_file_are_refused(path):
    for place in (path.parent, path):
        with pytest.raises(DataError, match="cannot be read"):
            read_report(place)
