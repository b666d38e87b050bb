"""`uwaga distil` and `uwaga backtranslate`: pairs to train on, in parts that are resumed."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time

import pytest
import tiny_models as tiny
from typer.testing import CliRunner

import uwaga
from uwaga.checkpoints.formats.uwaga.folder import save_model
from uwaga.cli.main import app
from uwaga.search.mbr import rank_by_utility, utilities

JOINT = tiny.tokeniser()
SOURCES = [
    "I want to buy a car.",
    "The dog sees the cat.",
    "",
    "Where is the station?",
    "Ünïcödé 你好",
    "We go.",
]
REFERENCES = [
    "Ich möchte ein Auto kaufen.",
    "Der Hund sieht die Katze.",
    "",
    "Wo ist der Bahnhof?",
    "x",
    "Wir gehen.",
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = []
    for seed, settings in enumerate((tiny.TINY, tiny.TINY, tiny.TINY)):
        folder = tmp_path_factory.mktemp("jobs") / f"model{seed}"
        tokeniser = JOINT if seed < 2 else tiny.tokeniser(size=330)
        model = tiny.transformer(settings, tokeniser, tokeniser, seed)
        decoding = tiny.DECODING.model_copy(update={"max_length": 8})
        save_model(folder, model, settings, decoding, tokeniser, tokeniser, ("en", "de"), "card")
        made.append(folder)
    return made


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pairs = zip(SOURCES, REFERENCES, strict=True)
    (tmp_path / "pairs.tsv").write_text(
        "".join(f"{one}\t{other}\n" for one, other in pairs), encoding="utf-8"
    )
    (tmp_path / "c.en").write_text("\n".join(SOURCES) + "\n", encoding="utf-8")
    (tmp_path / "c.de").write_text("\n".join(REFERENCES) + "\n", encoding="utf-8")
    return tmp_path


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [*map(str, arguments), "--device", "cpu"])
    assert result.exit_code == code, result.output
    return result


def rows(folder):
    """The pairs of all parts."""
    content = b"".join(gzip.decompress(path.read_bytes()) for path in sorted(folder.glob("part-*")))
    return [tuple(line.split("\t")) for line in content.decode().split("\n")[:-1]]


def ways(folder, text, **options):
    best = uwaga.load(folder, device="cpu").translate(text, **options)
    return [best, *best.alternatives]


@pytest.mark.parametrize("engine", ["native", "torch"])
def test_the_candidate_most_like_the_reference_is_the_target(place, folders, engine):
    run("distil", folders[0], "pairs.tsv", "-o", "out", "-n", 4, "--part-rows", 4, "--engine", engine)
    found = rows(place / "out")
    assert [source for source, _ in found] == SOURCES
    for (_, target), source, reference in zip(found, SOURCES, REFERENCES, strict=True):
        if source:
            texts = [one.text for one in ways(folders[0], source, beam=4, nbest=4)]
            assert target == texts[int(utilities(texts, [reference], "bleu")[:, 0].argmax())]
    assert found[2] == ("", "")


@pytest.mark.parametrize("corpus", [["c.en", "-r", "c.de"], ["c"]])
def test_a_corpus_in_two_files_gives_the_same(place, folders, corpus):
    run("distil", folders[0], "pairs.tsv", "-o", "one", "-n", 3)
    run("distil", folders[0], *corpus, "-o", "other", "-n", 3)
    assert rows(place / "one") == rows(place / "other")


def test_the_best_and_the_least_risk_need_no_reference(place, folders):
    run("distil", folders[0], "c.en", "-o", "best", "--choose", "model")
    run("distil", folders[0], "c.en", "-o", "risk", "--choose", "mbr", "-n", 4)
    run("distil", folders[0], "c.en", "-o", "drawn", "--choose", "mbr", "-n", 6, "--sample", "--seed", 4)
    best, risk, drawn = (rows(place / name) for name in ("best", "risk", "drawn"))
    for at, source in enumerate(SOURCES):
        if source:
            assert best[at] == (source, ways(folders[0], source)[0].text)
            four = ways(folders[0], source, beam=4, nbest=4)
            top = max(one.log_prob for one in four)
            weights = [2.718281828459045 ** (one.log_prob - top) for one in four]
            assert risk[at][1] == four[rank_by_utility([one.text for one in four], weights)[0][0]].text
            six = [one.text for one in ways(folders[0], source, sample=True, nbest=6, seed=4)]
            assert drawn[at][1] == six[rank_by_utility(six)[0][0]]


def test_no_option_is_written_over_the_corpus_or_is_no_number(place, folders):
    before = (place / "pairs.tsv").read_bytes()
    result = run("distil", folders[0], "pairs.tsv", "-o", "out", "--join", "pairs.tsv", code=1)
    assert "pairs.tsv is the input" in result.output and (place / "pairs.tsv").read_bytes() == before
    for number in ("nan", "inf"):
        asked = ("--choose", "mbr", "--sample", "--temperature", number)
        result = run("distil", folders[0], "pairs.tsv", "-o", "out", *asked, code=1)
        assert f"temperature must be a finite number, not {number}" in result.output
    assert not (place / "out").exists()


def test_several_teachers_are_an_ensemble_or_a_pool(place, folders):
    run("distil", *folders[:2], "c.en", "-o", "both", "--choose", "model")
    both = uwaga.load(folders[:2], device="cpu")
    assert [target for _, target in rows(place / "both")] == [one.text for one in both.translate(SOURCES)]
    run("distil", folders[0], folders[2], "pairs.tsv", "-o", "pool", "--pool", "-n", 3)
    for (_, target), source, reference in zip(rows(place / "pool"), SOURCES, REFERENCES, strict=True):
        if source:
            texts = [one.text for at in (0, 2) for one in ways(folders[at], source, beam=3, nbest=3)]
            assert target == texts[int(utilities(texts, [reference], "bleu")[:, 0].argmax())]
    result = run("distil", folders[0], folders[2], "pairs.tsv", "-o", "no", code=1)
    assert "or add --pool" in result.output
    result = run("distil", *folders[:2], "c.en", "-o", "no", "--pool", "--choose", "model", code=1)
    assert "a pool of models has no best candidate" in result.output
    assert list((place / "no").glob("*")) == []


def test_backtranslations_are_sources_with_their_tag(place, folders):
    run("backtranslate", folders[0], "c.de", "-o", "plain")
    run("backtranslate", folders[0], "c.de", "-o", "tagged", "--tag", "<BT>", "--join", "all.tsv")
    back = [one.text for one in uwaga.load(folders[0], device="cpu").translate(REFERENCES)]
    assert rows(place / "plain") == list(zip(back, REFERENCES, strict=True))
    tagged = [(f"<BT> {one}" if one else "", other) for one, other in zip(back, REFERENCES, strict=True)]
    assert rows(place / "tagged") == tagged
    lines = (place / "all.tsv").read_text(encoding="utf-8").split("\n")[:-1]
    assert [tuple(line.split("\t")) for line in lines] == tagged


def test_draws_depend_on_the_seed_and_the_text_alone(place, folders):
    asked = ("backtranslate", folders[0], "c.de", "--sample", "--top-k", 5, "--temperature", 1.5)
    run(*asked, "-o", "a", "--part-rows", 2)
    run(*asked, "-o", "b", "--batch-tokens", 10, "--threads", 1)
    run(*asked, "-o", "c", "--seed", 2)
    assert rows(place / "a") == rows(place / "b") != rows(place / "c")


def test_a_column_of_a_table_is_translated_back(place, folders):
    run("backtranslate", folders[0], "pairs.tsv", "-o", "second", "--column", 2)
    run("backtranslate", folders[0], "c.de", "-o", "plain")
    assert rows(place / "second") == rows(place / "plain")


def test_lines_that_fail_are_named_and_keep_their_places(place, folders):
    (place / "bad").write_bytes(b"Hallo.\n\xff\xfe\xfa\n\nGut.\n")
    result = run("backtranslate", folders[0], "bad", "-o", "out")
    assert "line 2: bad UTF-8" in result.output
    assert "4 lines in 1 parts, 1 empty, 1 failed" in " ".join(result.output.split())
    assert [target for _, target in rows(place / "out")] == ["Hallo.", "", "", "Gut."]
    record = json.loads((place / "out/manifest.json").read_text())["parts"]["part-00000.tsv.gz"]
    assert record["failures"] == [[2, "line 2: bad UTF-8"]]
    (place / "some.tsv").write_text("We go.\tWir gehen.\nThey stay.\n")
    result = run("distil", folders[0], "some.tsv", "-o", "some", "-n", 2)
    assert "line 2 has no reference to choose by" in result.output
    assert rows(place / "some")[1] == ("They stay.", "")


def test_what_comes_out_is_a_corpus_to_train_on(place, folders):
    from uwaga.data.corpus import read_corpus
    from uwaga.settings import CorpusSettings

    run("distil", folders[0], "pairs.tsv", "-o", "out", "--join", "taught.tsv.zst", "-n", 2)
    pairs = read_corpus(CorpusSettings(files=(str(place / "taught.tsv.zst"),)))
    assert [pair.source for pair in pairs] == [source for source in SOURCES if source]
    assert pairs.report.faults == {"empty source": 1}


def test_going_on_with_other_settings_is_refused_by_key(place, folders):
    run("distil", folders[0], "pairs.tsv", "-o", "out", "-n", 2)
    for other, key in (
        (("-n", 3), "settings.nbest = 2"),
        (("-n", 2, "--utility", "chrf"), "settings.utility = 'bleu'"),
        (("-n", 2, "--part-rows", 5), "part_rows = 10000"),
    ):
        result = run("distil", folders[0], "pairs.tsv", "-o", "out", *other, code=1)
        assert key in result.output
    result = run("distil", folders[1], "pairs.tsv", "-o", "out", "-n", 2, code=1)
    assert "models.0 = " in result.output
    result = run("distil", folders[0], "c.en", "-r", "c.en", "-o", "out", "-n", 2, code=1)
    assert "input.sha256 = " in result.output
    result = run("distil", folders[0], "pairs.tsv", "-o", "out", "-n", 2, "--threads", 1)
    assert "resuming: 6 lines already done" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["distil", "pairs.tsv"], "give a model, or several, and then the corpus"),
        (["distil", "MODEL", "c.en"], "no references to choose by; give a TSV of source and reference"),
        (["distil", "MODEL", "nothing"], "neither a file nor a Moses prefix: there is no nothing.en"),
        (["distil", "MODEL", "nothing", "--from", "en"], "; check the path and its languages (--from, --to)"),
        (["distil", "nothing", "pairs.tsv"], "no such folder, and not a Hugging Face name"),
        (["distil", "MODEL", "pairs.tsv", "--top-k", "3"], "set sample"),
        (["backtranslate", "MODEL", "c.de", "--tag", "two words"], "must be one word without spaces"),
        (["backtranslate", "MODEL", "c.de", "--column", "2"], "line 1 has 1 columns, no column 2"),
        (["backtranslate", "MODEL", "nothing"], "nothing: no such file"),
        (["backtranslate", "MODEL", "c.de", "--shortlist", "gone"], "gone: cannot be read: No such file"),
    ],
)
def test_bad_input_is_one_clear_line_and_leaves_no_job(place, folders, arguments, message):
    named = [str(folders[0]) if one == "MODEL" else one for one in arguments]
    result = run(*named, "-o", "out", code=1)
    assert message in result.output
    assert "Traceback" not in result.output
    assert not (place / "out/manifest.json").exists()


@pytest.mark.slow
def test_a_killed_job_goes_on_to_the_same_bytes(place, folders):
    (place / "many").write_text(
        "\n".join(f"{one} {n}" for n in range(400) for one in REFERENCES), encoding="utf-8"
    )
    asked = ["backtranslate", str(folders[0]), "many", "--part-rows", "100", "--sample", "--device", "cpu"]
    command = [sys.executable, "-m", "uwaga", *asked]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([*command, "-o", "whole"], env=environment, check=True, capture_output=True)
    kills = 0
    for shards in (1, 4, 9):
        process = subprocess.Popen([*command, "-o", "out"], env=environment, stderr=subprocess.DEVNULL)
        while len(list((place / "out").glob("part-*"))) < shards and process.poll() is None:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
    assert kills
    subprocess.run([*command, "-o", "out"], env=environment, check=True, capture_output=True)
    whole, out = (
        {path.name: path.read_bytes() for path in (place / name).iterdir()} for name in ("whole", "out")
    )
    assert out == whole


def test_the_engine_does_it_without_torch(place, folders):
    code = (
        "import sys; from uwaga.cli.main import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print('torch' in sys.modules)"
    )
    asked = [
        "distil",
        str(folders[0]),
        "pairs.tsv",
        "-o",
        "out",
        "-n",
        "2",
        "--choose",
        "mbr",
        "--device",
        "cpu",
    ]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code, *asked], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False"], done.stderr


@pytest.mark.parametrize("precision", ["int8", "float32"])
def test_a_foreign_teacher_works_on_the_engine(place, tmp_path_factory, precision):
    from marian_folders import make

    teacher = tmp_path_factory.mktemp("foreign") / "opus-mt-en-de"
    make(teacher)
    asked = ("--engine", "native", "--dtype", precision)
    run("distil", teacher, "c.en", "-o", "out", "-n", 3, "--choose", "mbr", *asked)
    run("backtranslate", teacher, "c.en", "-o", "back", *asked)
    best = uwaga.load(teacher, engine="native", dtype=precision).translate(SOURCES)
    assert [source for source, _ in rows(place / "back")] == [one.text.strip() for one in best]
    assert [source for source, _ in rows(place / "out")] == SOURCES
