"""The commands ``uwaga memory``: their output and their errors."""

import json
from pathlib import Path

import pytest

from uwaga.cli.main import main


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run_command(*arguments: str) -> tuple[int, str, str]:
        status = 0
        try:
            main(["memory", *arguments])
        except SystemExit as end:
            status = int(end.code or 0)
        output = capsys.readouterr()
        return status, output.out, output.err

    return run_command


def test_memory_commands_create_search_and_export_a_memory(run, tmp_path: Path) -> None:
    assert run("create", "a.uwm", "--from", "en", "--to", "de")[0] == 0
    Path("a.tsv").write_text(
        "The small dog sleeps.\tDer kleine Hund schläft.\nno translation\t\n", encoding="utf-8"
    )
    status, out, err = run("import", "a.uwm", "a.tsv")
    assert (status, out, err) == (0, "a.tsv: 1 new pairs, 0 known\n", "skipped 1: no translation (1)\n")
    assert run("add", "a.uwm", "Open", "Öffnen", "--key", "menu")[0] == 0
    assert (
        run("add", "a.uwm", "Open", "Öffnen", "--key", "menu")[2] == "the memory already contains this pair\n"
    )
    assert "80.0 %  The small dog sleeps.  (a.tsv)" in run("search", "a.uwm", "The small cat sleeps.")[1]
    [match] = json.loads(run("search", "a.uwm", "Open", "--key", "menu", "--json")[1])
    assert (match["target"], match["score"]) == ("Öffnen", 101)
    assert run("search", "a.uwm", "Nothing here")[2].startswith("no pair with a similarity of at least 50 %")
    assert json.loads(run("stats", "a.uwm", "--json")[1])["origins"] == {"": 1, "a.tsv": 1}
    assert "2 pairs of 2 sources, 5 words" in run("stats", "a.uwm")[1]
    Path("new.txt").write_text("The small cat sleeps.\n\nOpen\n", encoding="utf-8")
    assert [line.split()[:3] for line in run("analyse", "a.uwm", "new.txt")[1].splitlines()][-1] == [
        "total",
        "2",
        "5",
    ]
    assert run("export", "a.uwm", "b.tmx")[2] == "b.tmx: 2 pairs\n"
    status, _, err = run("export", "a.uwm", "b.tmx")
    assert status == 1 and "add --force to replace it" in err
    assert run("remove", "a.uwm", "1", "7")[2] == "1 of 2 pairs removed\n"
    assert run("export", "a.uwm", "b.tmx", "--force")[2] == "b.tmx: 1 pairs\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["search", "none.uwm", "a"], "create it with `uwaga memory create`"),
        (["add", "a.uwm", " ", "b"], "the pair was not added: no source"),
        (["import", "a.uwm", "none.tmx"], "none.tmx: there is no such file"),
        (["import", "a.uwm", "a.uwm"], "name the format, --format"),
        (["create", "a.uwm", "--from", "en", "--to", "de"], "already exists"),
    ],
)
def test_memory_command_errors_explain_the_problem(run, arguments: list[str], message: str) -> None:
    run("create", "a.uwm", "--from", "en", "--to", "de")
    status, _, err = run(*arguments)
    assert status == 1 and message in err and err.count("\n") == 1


@pytest.mark.parametrize(
    "verb", ["create", "import", "export", "search", "add", "remove", "stats", "analyse", "adapt"]
)
def test_memory_help_has_an_example(run, verb: str) -> None:
    status, out, _ = run(verb, "--help")
    assert status == 0 and f"uwaga memory {verb}" in out and len(out.splitlines()) <= 60
