"""``uwaga bench``: tables, JSON, and a report beside another."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from uwaga.cli.main import app
from uwaga.speed import machine, measure
from uwaga.speed.report import read_report

MODEL = Path(__file__).parents[1] / "support/models/numbers-en-de"


def run(*arguments, code=0):
    result = CliRunner().invoke(app, ["bench", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A report of this machine."""
    path = tmp_path_factory.mktemp("bench") / "mine.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "memory_size", lambda: 1 << 26)
        path.write_text(run("-m", MODEL, "--seconds", "0.01", "--threads", "2", "--json").stdout)
    return path


def test_json_is_a_report_that_stays_the_same(report):
    values = json.loads(report.read_text())
    assert values["format"] == "uwaga bench" and values["version"] == 1
    assert read_report(report).to_json() == report.read_text().rstrip("\n")
    assert run(report, "--json").stdout == report.read_text()


def test_the_tables_have_every_rate(report):
    shown = run(report).stdout
    for text in ("instruction set", "beyond caches", "product", "attention", "numbers-en-de", "2 threads"):
        assert text in shown
    values = read_report(report)
    rows = [line.split() for line in shown.splitlines()]
    assert len([row for row in rows if row and row[0] in ("product", "output")]) == len(
        [one for one in values.kernels if one.kernel in ("product", "output")]
    )


def test_a_report_beside_itself_has_ratios_of_one(report):
    shown = run(report, "--compare", report).stdout
    table = shown[shown.index("ratio") :].splitlines()[1:]
    rows = [line.split() for line in table if line.strip()]
    assert len(rows) == len(list(read_report(report).figures()))
    assert {row[-1] for row in rows} == {"1.00"}


def test_a_bad_report_is_refused_before_anything_is_measured(report, tmp_path, monkeypatch):
    monkeypatch.setattr(measure, "measure", lambda *_: pytest.fail("measured"))
    values = json.loads(report.read_text())
    values["machine"]["cores"] = "many"
    bad = tmp_path / "bad.json"
    bad.write_text(json.dumps(values))
    for arguments in (["--compare", bad], [bad], [report, "--compare", bad]):
        error = run(*arguments, code=1).stderr
        assert f"error: {bad}: machine.cores" in error and "Traceback" not in error


def test_markup_and_colours_of_another_report_are_text(report, tmp_path):
    values = json.loads(report.read_text())
    values["machine"]["processor"] = "[bold red]a[/] :smile: processor"
    other = tmp_path / "other.json"
    other.write_text(json.dumps(values))
    assert "[bold red]a[/] :smile: processor" in run(report, "--compare", other).stdout


def test_json_and_compare_exclude_each_other(report):
    assert "--json" in run(report, "--json", "--compare", report, code=1).stderr


@pytest.mark.parametrize(
    "arguments", [["--dtype", "int7"], ["--seconds", "0"], ["--seconds", "nan"], ["--threads", "-1"]]
)
def test_an_impossible_option_is_refused(arguments):
    error = run("-m", MODEL, *arguments, code=1).stderr
    assert error.startswith("error: ") and arguments[0].removeprefix("--") in error
