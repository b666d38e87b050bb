"""``uwaga align``, ``uwaga translate --alignments`` and ``uwaga evaluate --alignments``."""

import json
from functools import partial
from pathlib import Path

import pytest
import tiny_models as tiny
from command_line import run_uwaga

import uwaga
from uwaga.alignment import align_corpus, grow_diagonal
from uwaga.alignment.words import split_words
from uwaga.checkpoints.alignment_head import HEAD_FILE


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    joint = tiny.tokeniser()
    for seed, name in enumerate(("ende", "deen")):
        model = tiny.transformer(tiny.TINY, joint, joint, seed)
        languages = ("en", "de") if name == "ende" else ("de", "en")
        tiny.save(Path(name), model, joint, languages=languages)
    write("test.en", tiny.ENGLISH)
    write("test.de", tiny.GERMAN)
    write(
        "pairs.tsv", [f"{source}\t{target}" for source, target in zip(tiny.ENGLISH, tiny.GERMAN, strict=True)]
    )
    return tmp_path


def write(name: str, lines) -> None:
    Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


run = partial(run_uwaga, code=None)


def lines(*arguments: str, stdin: str | None = None) -> list[str]:
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.stderr
    return result.stdout.splitlines()


def moses(links) -> str:
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def test_text_files_tsv_file_and_pipe_give_the_same_links(folder):
    pairs = list(zip(tiny.ENGLISH, tiny.GERMAN, strict=True))
    expected = [str(alignment) for alignment in uwaga.Translator.load("ende", device="cpu").align(pairs)]
    assert lines("align", "test.en", "test.de", "-m", "ende") == expected
    assert lines("align", "pairs.tsv", "-m", "ende") == expected
    assert lines("align", "-m", "ende", stdin=Path("pairs.tsv").read_text()) == expected
    assert lines("align", "pairs.tsv", "-m", "ende", "-o", "out.links") == []
    assert Path("out.links").read_text().splitlines() == expected
    spaced = uwaga.Translator.load("ende", device="cpu").align(pairs, words="spaces")
    assert lines("align", "pairs.tsv", "-m", "ende", "--words", "spaces") == list(map(str, spaced))


def test_links_of_both_directions_are_symmetrised(folder):
    pairs = list(zip(tiny.ENGLISH, tiny.GERMAN, strict=True))
    forward = uwaga.Translator.load("ende", device="cpu").align(pairs)
    backward = uwaga.Translator.load("deen", device="cpu").align(
        [(target, source) for source, target in pairs]
    )
    expected = [
        moses(
            grow_diagonal(
                frozenset(alignment.links),
                frozenset((source, target) for target, source in reverse_alignment.links),
            )
        )
        for alignment, reverse_alignment in zip(forward, backward, strict=True)
    ]
    assert lines("align", "pairs.tsv", "-m", "ende", "--both", "deen") == expected


def test_statistical_aligner_works_without_a_model(folder):
    words = [[split_words(text) for text in texts] for texts in (tiny.ENGLISH, tiny.GERMAN)]
    assert lines("align", "test.en", "test.de", "--aligner") == [
        moses(links) for links in align_corpus(*words)
    ]


def test_alignment_head_selected_by_the_choose_option_is_printed_and_stored(folder):
    output = lines("align", "--choose", "pairs.tsv", "-m", "ende")
    assert "each head against uwaga's own aligner, 8 pairs" in output[0]
    assert output[2].split() == ["head", "predicting", "reading"]
    assert [line.split()[0] for line in output[3:9]] == ["1.1", "1.2", "1.mean", "2.1", "2.2", "2.mean"]
    assert sum("*" in line for line in output) == 1
    stored = json.loads(Path("ende", HEAD_FILE).read_text())
    head = uwaga.Translator.load("ende", device="cpu").model.alignment_head
    assert head.model_dump(exclude_none=True) == stored and f"chosen: {head}" in output[-1]
    write("gold", ["0-0 1?1"] * 8)
    output = lines("align", "--choose", "test.en", "test.de", "-m", "ende", "--gold", "gold")
    assert "each head against gold, 8 pairs" in output[0]


def test_choose_option_translates_sources_if_no_targets_are_given(folder):
    output = lines("align", "--choose", "test.en", "-m", "ende")
    assert "8 pairs" in output[0] and Path("ende", HEAD_FILE).is_file()


def test_alignments_option_writes_links_to_a_file(folder):
    arguments = ("translate", "-m", "ende", "--input", "test.en", "--output", "out.de")
    lines(*arguments)
    before = Path("out.de").read_text()
    lines(*arguments, "--alignments", "out.links")
    assert Path("out.de").read_text() == before
    translations = uwaga.Translator.load("ende", device="cpu").translate(tiny.ENGLISH, alignment=True)
    assert Path("out.links").read_text().splitlines() == [str(result.alignment) for result in translations]
    document = json.loads(lines("translate", "-m", "ende", "--json", "--alignments", "l", "A car.")[0])
    assert set(document["alignment"]) == {"source", "target", "links"}


def test_evaluate_command_scores_alignments(folder):
    write("made", ["0-0 1-1 2-1", "0-0"])
    write("gold", ["0-0 1-1 2?1", "1-1"])
    output = lines("evaluate", "--alignments", "made", "-r", "gold")
    # |A| = 4, |S| = 3, hits of sure 2, of possible 3
    assert [line.split() for line in output] == [
        ["AER", f"{1 - 5 / 7:.4f}"], ["precision", "0.7500"], ["recall", "0.6667"], ["pairs", "2"],
    ]  # fmt: skip
    report = json.loads(
        "".join(lines("evaluate", "--alignments", "-", "-r", "gold", "--json", stdin="0-0\n1-1\n"))
    )
    assert report == {
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
        (("align", "--choose", "pairs.tsv", "-m", "bundled"), "choose your own model with --model"),
        (("align", "pairs.tsv", "-m", "ende", "--gold", "gold"), "--gold needs --choose"),
        (("align", "a", "b", "c", "-m", "ende"), "3 files"),
        (("align", "test.en", "-m", "ende"), "line 1 has no tab"),
        (("align", "test.en", "short.de", "-m", "ende"), "must be aligned"),
        (("align", "--choose", "empty.tsv", "-m", "ende"), "nothing to align"),
        (("align", "--choose", "pairs.tsv", "-m", "ende", "--gold", "wrong"),
         "wrong, line 1: expected 0-0 1"),
        (("align", "--choose", "pairs.tsv", "-m", "ende", "--gold", "long"), "line 9"),
        (("translate", "--stream", "--alignments", "l", "-m", "ende", "a"), "needs the whole translation"),
        (("evaluate", "--alignments", "short.de", "-r", "long"), "short.de, line 1: expected 0-0 1-2"),
        (("evaluate", "--alignments", "gold", "-r", "long"), "must align the same pairs"),
        (("evaluate", "--alignments", "gold", "-r", "gold", "-r", "long"), "give --reference once"),
        (("evaluate", "--alignments", "no", "-r", "gold"), "no: "),
    ],
)  # fmt: skip
def test_invalid_arguments_are_reported(folder, arguments, message):
    write("short.de", tiny.GERMAN[:3])
    write("empty.tsv", [])
    write("gold", ["0-0"] * 8)
    write("wrong", ["0-0 1:1"] * 8)
    write("long", ["0-0"] * 9)
    result = run(*arguments)
    assert result.exit_code == 1
    assert message in result.stderr
