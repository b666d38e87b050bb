"""``uwaga align``, ``uwaga translate --alignments`` and ``uwaga evaluate --alignments``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tiny_models as tiny
from typer.testing import CliRunner

import uwaga
from uwaga.alignment import align_corpus, grow_diagonal
from uwaga.alignment.words import split_words
from uwaga.checkpoints.alignment_head import HEAD_FILE
from uwaga.checkpoints.formats.uwaga.folder import save_model
from uwaga.cli.main import app


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    joint = tiny.tokeniser()
    for seed, name in enumerate(("ende", "deen")):
        model = tiny.transformer(tiny.TINY, joint, joint, seed)
        languages = ("en", "de") if name == "ende" else ("de", "en")
        save_model(Path(name), model, tiny.TINY, tiny.DECODING, joint, joint, languages, "# Card\n")
    write("test.en", tiny.ENGLISH)
    write("test.de", tiny.GERMAN)
    write("pairs.tsv", [f"{one}\t{other}" for one, other in zip(tiny.ENGLISH, tiny.GERMAN, strict=True)])
    return tmp_path


def write(name: str, lines) -> None:
    Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def run(*arguments: str, stdin: str | None = None):
    return CliRunner().invoke(app, list(arguments), input=stdin)


def lines(*arguments: str, stdin: str | None = None) -> list[str]:
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.stderr
    return result.stdout.splitlines()


def moses(links) -> str:
    return " ".join(f"{one}-{other}" for one, other in sorted(links))


def test_the_links_of_two_files_of_a_tsv_and_of_a_pipe_are_the_models(folder):
    pairs = list(zip(tiny.ENGLISH, tiny.GERMAN, strict=True))
    wanted = [str(one) for one in uwaga.Translator.load("ende", device="cpu").align(pairs)]
    assert lines("align", "test.en", "test.de", "-m", "ende") == wanted
    assert lines("align", "pairs.tsv", "-m", "ende") == wanted
    assert lines("align", "-m", "ende", stdin=Path("pairs.tsv").read_text()) == wanted
    assert lines("align", "pairs.tsv", "-m", "ende", "-o", "out.links") == []
    assert Path("out.links").read_text().splitlines() == wanted
    spaced = uwaga.Translator.load("ende", device="cpu").align(pairs, words="spaces")
    assert lines("align", "pairs.tsv", "-m", "ende", "--words", "spaces") == list(map(str, spaced))


def test_both_directions_are_made_one(folder):
    pairs = list(zip(tiny.ENGLISH, tiny.GERMAN, strict=True))
    ahead = uwaga.Translator.load("ende", device="cpu").align(pairs)
    back = uwaga.Translator.load("deen", device="cpu").align([(there, here) for here, there in pairs])
    wanted = [
        moses(grow_diagonal(frozenset(one.links), frozenset((here, there) for there, here in other.links)))
        for one, other in zip(ahead, back, strict=True)
    ]
    assert lines("align", "pairs.tsv", "-m", "ende", "--both", "deen") == wanted


def test_our_own_aligner_needs_no_model(folder):
    sides = [[split_words(text) for text in texts] for texts in (tiny.ENGLISH, tiny.GERMAN)]
    assert lines("align", "test.en", "test.de", "--aligner") == [moses(one) for one in align_corpus(*sides)]


def test_the_choice_is_shown_and_kept(folder):
    shown = lines("align", "--choose", "pairs.tsv", "-m", "ende")
    assert "each head against uwaga's own aligner, 8 pairs" in shown[0]
    assert shown[2].split() == ["head", "predicting", "reading"]
    assert [line.split()[0] for line in shown[3:9]] == ["1.1", "1.2", "1.mean", "2.1", "2.2", "2.mean"]
    assert sum("*" in line for line in shown) == 1
    kept = json.loads(Path("ende", HEAD_FILE).read_text())
    head = uwaga.Translator.load("ende", device="cpu").model.alignment_head
    assert head.model_dump(exclude_none=True) == kept and f"chosen: {head}" in shown[-1]
    write("gold", ["0-0 1?1"] * 8)
    shown = lines("align", "--choose", "test.en", "test.de", "-m", "ende", "--gold", "gold")
    assert "each head against gold, 8 pairs" in shown[0]


def test_sources_alone_are_translated_to_choose_by(folder):
    shown = lines("align", "--choose", "test.en", "-m", "ende")
    assert "8 pairs" in shown[0] and Path("ende", HEAD_FILE).is_file()


def test_translations_come_with_their_links(folder):
    arguments = ("translate", "-m", "ende", "--input", "test.en", "--output", "out.de")
    lines(*arguments)
    before = Path("out.de").read_text()
    lines(*arguments, "--alignments", "out.links")
    assert Path("out.de").read_text() == before
    wanted = uwaga.Translator.load("ende", device="cpu").translate(tiny.ENGLISH, alignment=True)
    assert Path("out.links").read_text().splitlines() == [str(one.alignment) for one in wanted]
    found = json.loads(lines("translate", "-m", "ende", "--json", "--alignments", "l", "A car.")[0])
    assert set(found["alignment"]) == {"source", "target", "links"}


def test_links_are_scored(folder):
    write("made", ["0-0 1-1 2-1", "0-0"])
    write("gold", ["0-0 1-1 2?1", "1-1"])
    shown = lines("evaluate", "--alignments", "made", "-r", "gold")
    # |A| = 4, |S| = 3, hits of sure 2, of possible 3
    assert [line.split() for line in shown] == [
        ["AER", f"{1 - 5 / 7:.4f}"],
        ["precision", "0.7500"],
        ["recall", "0.6667"],
        ["pairs", "2"],
    ]
    found = json.loads(
        "".join(lines("evaluate", "--alignments", "-", "-r", "gold", "--json", stdin="0-0\n1-1\n"))
    )
    assert found == {
        "error": pytest.approx(1 - 4 / 5),
        "precision": 1.0,
        "recall": pytest.approx(2 / 3, abs=1e-5),
        "pairs": 2,
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("align", "pairs.tsv", "--aligner", "-m", "ende"), "leave out --model"),
        (("align", "pairs.tsv", "--choose", "-m", "ende", "--both", "deen"), "--choose needs a single model"),
        (("align", "--choose", "pairs.tsv"), "uwaga models path bundled"),
        (("align", "--choose", "pairs.tsv", "-m", "bundled"), "name your own with --model"),
        (("align", "pairs.tsv", "-m", "ende", "--gold", "gold"), "--gold needs --choose"),
        (("align", "a", "b", "c", "-m", "ende"), "3 files"),
        (("align", "test.en", "-m", "ende"), "line 1 has no tab"),
        (("align", "test.en", "short.de", "-m", "ende"), "must be aligned"),
        (("align", "--choose", "empty.tsv", "-m", "ende"), "nothing to align"),
        (
            ("align", "--choose", "pairs.tsv", "-m", "ende", "--gold", "wrong"),
            "wrong, line 1: expected 0-0 1",
        ),
        (("align", "--choose", "pairs.tsv", "-m", "ende", "--gold", "long"), "line 9"),
        (("translate", "--stream", "--alignments", "l", "-m", "ende", "a"), "needs the whole translation"),
        (("evaluate", "--alignments", "short.de", "-r", "long"), "short.de, line 1: expected 0-0 1-2"),
        (("evaluate", "--alignments", "gold", "-r", "long"), "must be of the same pairs"),
        (("evaluate", "--alignments", "gold", "-r", "gold", "-r", "long"), "give --reference once"),
        (("evaluate", "--alignments", "no", "-r", "gold"), "no: "),
    ],
)
def test_what_does_not_go_is_said(folder, arguments, message):
    write("short.de", tiny.GERMAN[:3])
    write("empty.tsv", [])
    write("gold", ["0-0"] * 8)
    write("wrong", ["0-0 1:1"] * 8)
    write("long", ["0-0"] * 9)
    result = run(*arguments)
    assert result.exit_code == 1
    assert message in result.stderr
