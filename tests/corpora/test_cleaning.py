"""Cleaning of corpora: results for any processes and blocks, atomic writing, settings and commands."""

import gzip
import json
import lzma
import random
import signal
import subprocess
import sys
import time
import tracemalloc
from functools import partial
from pathlib import Path

import pytest
from command_line import run_uwaga
from html_page import HOSTILE_TEXTS, Page
from hypothesis import given

from uwaga.errors import DataError, MissingExtraError, SettingsError
from uwaga.settings.yaml_text import load_yaml
from uwaga_corpora.cleaning import CleaningReport, CleaningSettings, blocks, clean
from uwaga_corpora.cleaning.report import Example, RuleCount, report_page
from uwaga_corpora.cleaning.settings import settings_template

NUMBERS = str(Path(__file__).parents[1] / "support/models/numbers-en-de")
BASIC_RULES = ["length", "ratio", "identical", "duplicates", "numbers"]


def corpus(count: int, seed: int = 1) -> list[str]:
    draw = random.Random(seed)
    words = [
        "the", "a", "house", "tree", "stands", "runs", "12", "7", "das", "ein", "Haus", "Baum", "steht",
        "läuft",
    ]  # fmt: skip

    def side() -> str:
        return " ".join(draw.choices(words, k=draw.randint(1, 9)))

    lines = [f"{side()}\t{side()}" for _ in range(count)]
    bad_lines = ["", "only one", "\tx", "x\t ", "a\0\tb", "same\tsame", "1984\t2024"]
    return [draw.choice(bad_lines) if draw.random() < 0.1 else line for line in lines]


def write(path: Path, lines: list[str]) -> Path:
    raw = "".join(line + "\n" for line in lines).encode()
    compress = {".gz": gzip.compress, ".xz": lzma.compress}.get(path.suffix, bytes)
    path.write_bytes(compress(raw))
    return path


def run(path: Path, rules=None, jobs: int = 1, **options) -> tuple[CleaningReport, str, str]:
    kept_path, rejected_path = path.with_name("out.tsv"), path.with_name("rejected.tsv")
    report = clean(
        [path], [kept_path], CleaningSettings.from_rules(rules or BASIC_RULES), jobs, rejected_path, **options
    )
    return report, kept_path.read_text(encoding="utf-8"), rejected_path.read_text(encoding="utf-8")


def test_each_line_is_kept_unchanged_or_reported(tmp_path):
    lines = corpus(3000)
    report, kept, rejected = run(write(tmp_path / "in.tsv", lines))
    assert report.read == 3000 and report.kept == len(kept.splitlines())
    rejected_lines = [line.split("\t", 2) for line in rejected.splitlines()]
    assert [(lines[int(number) - 1]) for _, number, _ in rejected_lines] == [
        line for _, _, line in rejected_lines
    ]
    numbers = {int(number) for _, number, _ in rejected_lines}
    assert kept.split("\n")[:-1] == [line for number, line in enumerate(lines, 1) if number not in numbers]
    for count in report.counts:
        assert count.pairs == sum(name == count.name for name, _, _ in rejected_lines)
        for example in count.examples:
            assert [count.name, str(example.line), lines[example.line - 1]] in rejected_lines
    assert {count.name for count in report.counts} >= {
        *BASIC_RULES, "missing column", "empty source", "NUL character",
    }  # fmt: skip


@pytest.mark.slow
def test_cleaning_result_is_independent_of_the_number_of_jobs(tmp_path):
    path = write(tmp_path / "in.tsv", corpus(30_000))
    rules = [*BASIC_RULES, "letters", "mojibake"]
    single, parallel = run(path, rules), run(path, rules, jobs=2)
    assert single[1:] == parallel[1:]
    for report in (single[0], parallel[0]):
        report.seconds = 0.0
    assert single[0].to_dict() == parallel[0].to_dict()


def test_cleaning_result_is_independent_of_the_block_size(tmp_path, monkeypatch):
    path = write(tmp_path / "in.tsv", corpus(2000))
    first = run(path)
    monkeypatch.setattr(blocks, "BLOCK_LINES", 64)
    monkeypatch.setattr(blocks, "CHUNK_LINES", 7)
    with_small_blocks = run(path)
    assert first[1:] == with_small_blocks[1:]
    assert first[0].counts == with_small_blocks[0].counts


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_corpora_given_as_two_files_or_a_moses_prefix_are_cleaned(tmp_path, ending):
    source = write(tmp_path / f"c.en{ending}", ["a tree", "b\tin", "same", ""])
    target = write(tmp_path / f"c.de{ending}", ["ein Baum", "b In die", "same", "x"])
    settings = CleaningSettings.from_rules(["identical"], ("en", "de"))
    out = [tmp_path / "o.en", tmp_path / "o.de"]
    clean([source, target], out, settings)
    assert [path.read_text() for path in out] == ["a tree\nb\tin\n", "ein Baum\nb In die\n"]
    clean([tmp_path / "c"], [tmp_path / "p"], settings)
    opener = [gzip.open, lzma.open][ending == ".xz"] if ending else open
    with opener(tmp_path / f"p.en{ending}", "rt") as file:
        assert file.read() == "a tree\nb\tin\n"


def test_json_lines_are_written_as_tsv(tmp_path):
    path = tmp_path / "in.jsonl"
    rows = [{"source": "a\tb", "target": "c\nd"}, {"source": "x"}, {"source": "e", "target": "f"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = clean([path], [tmp_path / "o.tsv"], CleaningSettings.from_rules(["length"]))
    assert (tmp_path / "o.tsv").read_text() == "a b\tc d\ne\tf\n"
    assert [count.name for count in report.counts if count.pairs] == ["missing column"]


def test_additional_columns_are_kept(tmp_path):
    _, kept, _ = run(write(tmp_path / "in.tsv", ["a\tb\tc\td", "a\tb\te"]), ["duplicates"])
    assert kept == "a\tb\tc\td\n"


def test_lines_with_invalid_utf8_or_excessive_length_are_counted_as_invalid(tmp_path):
    path = tmp_path / "in.tsv"
    path.write_bytes(b"\xef\xbb\xbfa\tb\r\n\xff\tb\nx\t" + b"y" * (1 << 20) + b"\nc\td")
    report = clean([path], [tmp_path / "o"], CleaningSettings.from_rules(["length"]))
    kept = (tmp_path / "o").read_text()
    assert kept == "a\tb\nc\td\n"
    assert {count.name: count.pairs for count in report.counts if count.pairs} == {
        "bad UTF-8": 1,
        "line over 1 MiB": 1,
    }


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "no sentence pair"),
        (b"same\tsame\n" * 3, "all 3 lines .*'identical'.*line 1"),
        (b"\x7fELF\0\0\0\0" * 99, "binary"),
        (gzip.compress(b"a\tb\n" * 999, mtime=0)[:30], "truncated or damaged"),
    ],
)
def test_failed_cleaning_leaves_no_files(tmp_path, content, match):
    (tmp_path / "in").write_bytes(content)
    with pytest.raises(DataError, match=match):
        run(tmp_path / "in")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_misaligned_files_are_rejected(tmp_path):
    source, target = write(tmp_path / "a", ["x"] * 1000), write(tmp_path / "b", ["y"] * 990)
    with pytest.raises(DataError, match=r"a has 1000 lines, .*b has 990"):
        clean([source, target], [tmp_path / "c", tmp_path / "d"], CleaningSettings.from_rules(["length"]))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_invalid_outputs_are_rejected(tmp_path):
    path, cleaning = write(tmp_path / "in.tsv", ["a\tb"]), CleaningSettings.from_rules(["length"])
    for outputs, match in (
        ([path], "is the input"),
        ([tmp_path / "a", tmp_path / "b"], "give one output, a TSV"),
    ):
        with pytest.raises(SettingsError, match=match):
            clean([path], outputs, cleaning)
    with pytest.raises(SettingsError, match="named twice"):
        clean([path], [tmp_path / "o"], cleaning, rejected=tmp_path / "o")
    with pytest.raises(DataError, match="no folder"):
        clean([path], [tmp_path / "none" / "o"], cleaning)
    with pytest.raises(DataError, match=r"no such file|neither a file"):
        clean([tmp_path / "gone"], [tmp_path / "o"], cleaning)


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({"rules": {"lenght": None}}, "'lenght'; did you mean 'length'"),
        ({"rules": {"length": {"max_word": 3}}}, "did you mean 'max_words'"),
        ({"rules": {"length": {"max_words": "many"}}}, "max_words"),
        ({"rules": {"length": {"max_words": 3, "min_words": 4}}}, "greater than its maximum"),
        ({"rules": {"length": 3}}, "must be a group of settings"),
        ({"rules": []}, "no rule is given"),
        ({"rules": "length"}, "must be a list of names"),
        ({"rule": []}, "unknown setting 'rule'"),
        ({"languages": ["en"], "rules": ["length"]}, "two codes"),
        ({"rules": ["language"]}, "needs to know the languages"),
        ({"rules": ["score", "length"]}, "must be the last"),
        ({"rules": {"score": {"max": 1, "share": 0.5}}}, "not both"),
    ],
)
def test_invalid_settings_are_rejected(values, match):
    with pytest.raises(SettingsError, match=match):
        CleaningSettings.read(values, "clean.yaml")


@pytest.mark.parametrize("languages", [("", ""), ("en", "de")])
def test_settings_template_survives_a_round_trip(languages):
    cleaning = CleaningSettings.from_rules(None, languages)
    parsed = CleaningSettings.read(load_yaml(settings_template(cleaning)), "x")
    assert parsed.to_dict() == cleaning.to_dict()


def test_memory_use_is_independent_of_corpus_size(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_LINES", 1024)
    peaks = []
    for count in (4000, 16_000):
        path = write(
            tmp_path / "in.tsv", [f"the tree of line {n}\tder Baum der Zeile {n}" for n in range(count)]
        )
        run(path, ["length", "duplicates"])  # the character tables are built once
        tracemalloc.start()
        run(path, ["length", "duplicates"])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 2_000_000


@pytest.fixture
def languages():
    pytest.importorskip("py3langid")
    return ("en", "de")


def test_pairs_in_other_languages_are_removed(tmp_path, languages):
    lines = [
        "This is a sentence in English.\tDies ist ein Satz auf Deutsch.",
        "Ceci est une phrase en français, bien sûr.\tDies ist ein Satz auf Deutsch.",
        "This is a sentence in English.\tThis is another sentence in English.",
        "OK\tOK!",
    ]
    path = write(tmp_path / "in.tsv", lines)
    clean([path], [tmp_path / "o"], CleaningSettings.from_rules(["language"], languages))
    assert (tmp_path / "o").read_text().splitlines() == [lines[0], lines[3]]
    with pytest.raises(SettingsError, match="does not recognise the language 'qq'"):
        clean([path], [tmp_path / "p"], CleaningSettings.from_rules(["language"], ("en", "qq")))


def test_missing_library_error_names_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    path = write(tmp_path / "in.tsv", ["a\tb"])
    with pytest.raises(MissingExtraError, match=r"uwaga\[detect\]"):
        clean([path], [tmp_path / "o"], CleaningSettings.from_rules(["language"], ("en", "de")))


def score_settings(**values) -> CleaningSettings:
    return CleaningSettings.from_rules(
        {"score": {"forward": NUMBERS, "backward": NUMBERS, "threads": 1} | values}
    )


def test_dual_cross_entropy_keeps_pairs_within_the_limit(tmp_path):
    import uwaga

    lines = ["forty-two\tzweiundvierzig", "zwei\tforty-two", "seven\tsieben", "one\teins"]
    path = write(tmp_path / "in.tsv", lines)
    model = uwaga.load(NUMBERS, threads=1)
    scores = []
    for line in lines:
        source, target = line.split("\t")
        forward, backward = (-score.mean for score in model.score([(source, target), (target, source)]))
        scores.append(abs(forward - backward) + (forward + backward) / 2)
    limit = sorted(scores)[1] + 1e-4
    kept = [line for line, score in zip(lines, scores, strict=True) if score <= limit]
    out = tmp_path / "o"
    report = clean([path], [out], score_settings(max=limit))
    assert out.read_text().splitlines() == kept and report.counts[-1].pairs == 2
    clean([path], [out], score_settings(share=0.5))
    assert out.read_text().splitlines() == kept
    for values, match in (
        ({}, r"score\.max or score\.share"),
        ({"forward": "", "max": 1}, "a model for each direction"),
    ):
        with pytest.raises(SettingsError, match=match):
            clean([path], [out], score_settings(**values))


@given(HOSTILE_TEXTS, HOSTILE_TEXTS)
def test_report_page_escapes_corpus_text(source, target):
    count = RuleCount("length", "too long", 1, [Example(7, source, target)])
    text = report_page(CleaningReport(source, {"languages": ["en", "de"], "rules": {}}, [count], 10, 9, 1.0))
    page = Page(text)
    assert page.shows(source) and page.shows(target)
    assert page.shows("10 lines read, 9 pairs kept (90.00%)")


run_command = partial(run_uwaga, "clean")


def test_clean_command_writes_pairs_and_reports(tmp_path):
    path = write(tmp_path / "in.tsv", corpus(500))
    out, report, page = (str(tmp_path / name) for name in ("o.tsv.gz", "r.json", "r.html"))
    result = run_command(str(path), "-o", out, "--report", report, "--report", page, "--jobs", "1")
    report_values = json.loads(Path(report).read_text())
    with gzip.open(out, "rt") as file:
        assert len(file.read().splitlines()) == report_values["kept"]
    assert f"{report_values['kept']:,} pairs kept" in result.output and "no languages given" in result.output
    assert "identical" in Page(Path(page).read_text()).texts
    settings = run_command("--explain", "--from", "en", "--to", "de", "--without", "language").output
    assert "# language:" in settings
    (tmp_path / "s.yaml").write_text(settings)
    more = ("--settings", str(tmp_path / "s.yaml"), "--jobs", "1", "--report", report)
    run_command(str(path), "-o", out, *more, "--set", "length.max_words=4")
    assert json.loads(Path(report).read_text())["settings"]["rules"]["length"]["max_words"] == 4


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["in.tsv"], "and --output"),
        (["in.tsv", "-o", "o", "--rules", "lenght"], "did you mean 'length'"),
        (["in.tsv", "-o", "o", "--without", "lenght"], "did you mean 'length'"),
        (["in.tsv", "-o", "o", "--set", "length"], "expected KEY=VALUE"),
        (["in.tsv", "-o", "o", "--set", "length.max_word=1"], "did you mean 'max_words'"),
        (["in.tsv", "-o", "o", "--report", "r.pdf"], ".html"),
        (["in.json", "-o", "o", "--report", "./in.json"], "another name"),
        (["in.tsv", "-o", "o.html", "--report", "o.html"], "another name"),
        (["in.tsv", "-o", "o", "--report", "nowhere/r.json"], "no folder nowhere"),
        (["in.tsv", "-o", "o", "--settings", "none.yaml"], "uwaga clean --explain > none.yaml"),
        (["in.tsv", "-o", "o", "--rules", "language"], "needs to know the languages"),
    ],
)
def test_invalid_commands_are_rejected(tmp_path, monkeypatch, arguments, match):
    monkeypatch.chdir(tmp_path)
    write(Path("in.tsv"), ["a\tb"])
    assert match in " ".join(run_command(*arguments, code=1).output.split())
    assert [path.name for path in tmp_path.iterdir()] == ["in.tsv"]


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_interrupted_cleaning_leaves_no_files(tmp_path, jobs):
    path = write(tmp_path / "in.tsv", corpus(400_000))
    command = [sys.executable, "-m", "uwaga", "clean", str(path), "-o", str(tmp_path / "o"), "--jobs", jobs]
    process = subprocess.Popen(
        command,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.default_int_handler
        ),  # not the handler inherited from the parent
    )
    while not list(tmp_path.glob(".o.*.part")) and process.poll() is None:
        time.sleep(0.02)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert [entry.name for entry in tmp_path.iterdir()] == ["in.tsv"]
