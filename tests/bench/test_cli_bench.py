"""The command ``uwaga bench``: tables, JSON output, and comparison of reports."""

import json
from functools import partial
from pathlib import Path

import pytest
from command_line import run_uwaga

from uwaga_bench import machine, measure
from uwaga_bench.report import read_report

MODEL = Path(__file__).parents[1] / "support/models/numbers-en-de"


run = partial(run_uwaga, "bench")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Return the report of a benchmark on this machine."""
    path = tmp_path_factory.mktemp("bench") / "mine.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "memory_size", lambda: 1 << 26)
        path.write_text(run("-m", MODEL, "--seconds", "0.01", "--threads", "2", "--json").stdout)
    return path


def test_json_report_survives_a_round_trip(report):
    values = json.loads(report.read_text())
    assert values["format"] == "uwaga bench" and values["version"] == 1
    assert read_report(report).to_json() == report.read_text().rstrip("\n")
    assert run(report, "--json").stdout == report.read_text()


def test_printed_tables_contain_all_rates(report):
    output = run(report).stdout
    for text in ("instruction set", "beyond caches", "product", "attention", "numbers-en-de", "2 threads"):
        assert text in output
    values = read_report(report)
    rows = [line.split() for line in output.splitlines()]
    assert len([row for row in rows if row and row[0] in ("product", "output")]) == len(
        [kernel for kernel in values.kernels if kernel.kernel in ("product", "output")]
    )


def test_comparing_a_report_with_itself_gives_ratios_of_one(report):
    output = run(report, "--compare", report).stdout
    table = output[output.index("ratio") :].splitlines()[1:]
    rows = [line.split() for line in table if line.strip()]
    assert len(rows) == len(list(read_report(report).measurements()))
    assert {row[-1] for row in rows} == {"1.00"}


def test_invalid_report_is_rejected_before_measuring(report, tmp_path, monkeypatch):
    monkeypatch.setattr(measure, "measure", lambda *_: pytest.fail("measured"))
    values = json.loads(report.read_text())
    values["machine"]["cores"] = "many"
    invalid = tmp_path / "bad.json"
    invalid.write_text(json.dumps(values))
    for arguments in (["--compare", invalid], [invalid], [report, "--compare", invalid]):
        error = run(*arguments, code=1).stderr
        assert f"error: {invalid}: machine.cores" in error and "Traceback" not in error


def test_markup_in_report_values_is_printed_literally(report, tmp_path):
    values = json.loads(report.read_text())
    values["machine"]["processor"] = "[bold red]a[/] :smile: processor"
    other = tmp_path / "other.json"
    other.write_text(json.dumps(values))
    assert "[bold red]a[/] :smile: processor" in run(report, "--compare", other).stdout


def test_json_and_compare_options_cannot_be_combined(report):
    assert "--json" in run(report, "--json", "--compare", report, code=1).stderr


@pytest.mark.parametrize(
    "arguments", [["--dtype", "int7"], ["--seconds", "0"], ["--seconds", "nan"], ["--threads", "-1"]]
)
def test_invalid_options_are_refused(arguments):
    error = run("-m", MODEL, *arguments, code=1).stderr
    assert error.startswith("error: ") and arguments[0].removeprefix("--") in error
