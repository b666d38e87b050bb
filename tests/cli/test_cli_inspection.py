"""`uwaga attend` and `uwaga lengths`."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import tiny_models as tiny
from command_line import run_uwaga
from recurrent_variants import VARIANTS

import uwaga
from uwaga.cli.options import parse_labels
from uwaga.errors import SettingsError
from uwaga.inspection import by_length
from uwaga.models.build import build_model

JOINT = tiny.tokeniser()
NUMBERS = Path(__file__).parents[1] / "support/models/numbers-en-de"
TEXT = "The dog sees the cat."
TARGET = "Der Hund sieht die Katze."


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inspection")
    for name in ("bahdanau", "luong", "cho"):
        model = build_model(VARIANTS[name], JOINT.symbols, JOINT.size, JOINT.size).eval()
        languages, decoding = ("en", "de"), tiny.DECODING
        tiny.save(folder / name / "model", model, JOINT, decoding=decoding, languages=languages)
    return folder


call = partial(run_uwaga, env={"COLUMNS": "200"})


def test_attend_prints_a_heat_map(folders):
    output = call(
        "attend", TEXT, "--model", folders / "bahdanau" / "model", "--target", TARGET, "--words"
    ).stdout
    lines = output.splitlines()
    assert lines[0] == "bahdanau"
    assert [line.split()[0] for line in lines[-6:]] == [*TARGET.split(), "</s>"]
    header = [line[7:] for line in lines[1:-6]]  # words written from top to bottom, three columns apart
    columns = ["".join(line[start : start + 1] for line in header).strip() for start in range(0, 18, 3)]
    assert columns == [*TEXT.split(), "</s>"]


def test_attend_compares_attention_of_several_models(folders, tmp_path):
    models = ["-m", f"One={folders / 'bahdanau' / 'model'}", "-m", folders / "luong" / "model"]
    output = call("attend", TEXT, *models, "--target", TARGET).stdout
    assert "One\n" in output and "luong\n" in output
    call("attend", TEXT, *models, "--target", TARGET, "--output", tmp_path / "two.svg")
    assert (tmp_path / "two.svg").read_bytes().startswith(b"<?xml")
    assert [path.name for path in tmp_path.iterdir()] == ["two.svg"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-m", "{cho}"], "cho: the model has no attention to show"),
        (["-m", "{cho}", "--target", "Hund"], "cho: the model has no attention to show"),
        (["-m", "{luong}", "-o", "x.gif"], "must end in one of .png, .svg, .pdf"),
        (["-m", "{luong}", "-m", "{luong}"], "two paths are named 'luong'"),
        (["-m", "A="], "expected NAME=PATH"),
        (["-m", "nowhere/model"], "nowhere"),
    ],
)
def test_attend_command_reports_invalid_arguments(folders, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    paths = {name: str(folders / name / "model") for name in ("cho", "luong")}
    result = call("attend", TEXT, *(argument.format(**paths) for argument in arguments), code=1)
    assert words in result.stderr and "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def files(tmp_path):
    for name, lines in {
        "test.en": ["a", "a b", "a b c", "a b c d", "a b c d e", "f g h i j k"],
        "test.de": ["a", "a b", "a b c", "a b c d", "a b c d e", "f g h i j k"],
        "bad.de": ["a", "a b", "a b c", "a b c d", "a b c d", "f g h i"],
    }.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def lengths(files, *arguments, code=0):
    return call("lengths", "-s", files / "test.en", "-r", files / "test.de", *arguments, code=code)


def test_lengths_command_prints_a_table_and_a_figure(files):
    tables, picture = [files / "out.tsv", files / "out.json"], files / "out.svg"
    systems = ["--system", f"Good={files / 'test.de'}", "--system", files / "bad.de"]
    common = [*systems, "--tokenize", "none", "--edges", "2,4", "--samples", "20"]
    output = lengths(files, *common, "--table", tables[0], "-o", picture).stdout
    lengths(files, *common, "--table", tables[1])
    assert "Good" in output and "bad" in output and "nrefs:1" in output
    read = json.loads(tables[1].read_text())
    assert [(bucket["shortest"], bucket["longest"], bucket["lines"]) for bucket in read["buckets"]] == [
        (1, 2, 2),
        (3, 4, 2),
        (5, 6, 2),
    ]
    assert read["buckets"][2]["systems"]["Good"]["bleu"] == pytest.approx(100)
    assert read["buckets"][2]["systems"]["bad"]["ratio"] == pytest.approx(8 / 11)
    assert len(tables[0].read_text().splitlines()) == 7
    assert picture.read_bytes().startswith(b"<?xml")


def test_lengths_command_translates_with_models(folders, files):
    model_folder = folders / "luong" / "model"
    lengths(files, "-m", model_folder, "--beam", 2, "--samples", 0, "--table", files / "one.json")
    sources = (files / "test.en").read_text().splitlines()
    translations = uwaga.load(model_folder, device="cpu").translate(sources, beam=2)
    references = [(line,) for line in (files / "test.de").read_text().splitlines()]
    expected = by_length(sources, references, {"luong": [translation.text for translation in translations]})
    assert (files / "one.json").read_text() == expected.json() + "\n"


def test_lengths_command_merges_an_earlier_table(files):
    good, bad = f"Good={files / 'test.de'}", f"bad={files / 'bad.de'}"
    common = ["--tokenize", "none", "--edges", "2,4"]
    earlier, joined, expected = (files / f"{name}.json" for name in ("earlier", "joined", "whole"))
    lengths(files, "--system", good, *common, "--table", earlier)
    lengths(files, "--system", bad, *common, "--earlier", earlier, "--table", joined, "-o", files / "x.svg")
    lengths(files, "--system", good, "--system", bad, *common, "--table", expected)
    assert joined.read_text() == expected.read_text()
    lengths(files, "--system", f"Good={files / 'bad.de'}", *common, "--earlier", earlier, "--table", joined)
    assert json.loads(joined.read_text())["systems"] == ["Good"]
    assert joined.read_text() != earlier.read_text()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda table: table["buckets"].pop(), "its grouping differs"),
        (lambda table: table.update(signature="x"), "its signature"),
        (lambda table: table["buckets"][0]["systems"].clear(), "'test' is not in every bucket"),
        (lambda table: table["buckets"][0].update(lines="two"), "buckets.0.lines: Input should be"),
        (lambda table: table.clear(), "buckets: Field required"),
    ],
)
def test_lengths_command_refuses_an_incompatible_table(files, change, words):
    good, table = ["--system", files / "test.de", "--edges", "2,4"], files / "table.json"
    lengths(files, *good, "--table", table)
    changed = json.loads(table.read_text())
    change(changed)
    table.write_text(json.dumps(changed))
    result = lengths(files, *good, "--earlier", table, "--table", files / "out.json", code=1)
    assert words in " ".join(result.stderr.split()) and "Traceback" not in result.stderr
    assert not (files / "out.json").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "nothing to compare: give --system"),
        (["--system", "{good}", "--earlier", "nowhere.json"], "nowhere.json: cannot be read"),
        (["--system", "{good}", "--earlier", "test.en"], "test.en: not a table"),
        (["--system", "{short}"], "must be aligned"),
        (["--system", "{good}", "--edges", "3,x"], "--edges '3,x': give lengths"),
        (["--system", "{good}", "--edges", "3,2"], "each must be greater"),
        (["--system", "{good}", "--table", "x.csv"], "must end in one of .tsv, .json"),
        (["--system", "{good}", "-o", "x.bmp"], "must end in one of .png"),
        (["--system", "m={good}", "-m", "m=x"], "two systems are named 'm'"),
        (["--system", "nowhere"], "nowhere"),
    ],
)
def test_lengths_command_reports_invalid_arguments(files, monkeypatch, arguments, words):
    (files / "short.de").write_text("a\n")
    monkeypatch.chdir(files)
    before = sorted(files.iterdir())
    result = lengths(
        files, *(argument.format(short="short.de", good="test.de") for argument in arguments), code=1
    )
    assert words in result.stderr and "Traceback" not in result.stderr
    assert sorted(files.iterdir()) == before


def test_path_arguments_are_labelled_by_short_names(tmp_path):
    odd = tmp_path / "a=b"
    odd.mkdir()
    values = ["N=x/y", "runs/luong/model", "out/cho.tok.de", str(odd)]
    assert parse_labels(values, "--x") == {
        "N": "x/y", "luong": "runs/luong/model", "cho": "out/cho.tok.de", "a=b": str(odd),
    }  # fmt: skip
    with pytest.raises(SettingsError, match="two paths are named 'model'"):
        parse_labels(["model", "./model"], "--x")


def attend(*arguments, code=0):
    return call("attend", "-m", NUMBERS, "--threads", "1", "forty-two", *arguments, code=code)


def test_attend_options_select_attention_matrices(tmp_path):
    everything = [
        "--kind", "encoder", "--kind", "decoder", "--kind", "cross", "--layer", "all", "--head", "all",
    ]  # fmt: skip
    rows = [json.loads(line) for line in attend(*everything, "--json").stdout.splitlines()]
    insight = uwaga.load(NUMBERS, threads=1).attend("forty-two")
    attentions = vars(insight.attentions)
    assert len(rows) == sum(table.shape[0] * table.shape[1] for table in attentions.values())
    for row in rows:
        expected = attentions[row["kind"]][row["layer"] - 1, row["head"] - 1]
        assert np.abs(np.array(row["weights"]) - expected).max() < 1e-5
        assert (len(row["target"]), len(row["source"])) == expected.shape
    output = attend("--kind", "encoder", "--layer", "1", "--head", "1", "--head", "2").stdout
    assert "encoder, layer 1, head 1" in output and "encoder, layer 1, head 2" in output
    [mean] = attend("--layer", "last", "--json").stdout.splitlines()
    assert json.loads(mean)["head"] == "mean"
    attend(*everything, "-o", tmp_path / "every.svg")
    assert [path.name for path in tmp_path.iterdir()] == ["every.svg"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--kind", "self"], "--kind self: give cross, encoder or decoder"),
        (["--layer", "seven"], "--layer seven: give a number from 1, last or all"),
        (["--layer", "0"], "--layer 0: give a number from 1"),
        (["--head", "mean", "--head", "1"], "--head mean cannot be combined"),
        (["--kind", "encoder", "--layer", "77"], "layer 77: the model has"),
        (["--head", "99"], "head 99: the model has"),
    ],
)
def test_attend_refuses_nonexistent_attention_matrices(arguments, words):
    result = attend(*arguments, code=1)
    assert words in result.stderr and "Traceback" not in result.stderr


def test_heat_map_can_be_printed_in_the_c_locale():
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    command = [sys.executable, "-m", "uwaga", "attend", "The doors are open."]
    finished = subprocess.run(command, env=environment, capture_output=True, check=True)
    assert "██" in finished.stdout.decode("utf-8")
    assert finished.stderr == b""
