"""`uwaga distil` and `uwaga backtranslate` write training pairs in parts, and can be resumed."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time

import pytest
import tiny_models as tiny
from command_line import run_uwaga

import uwaga
from uwaga.search.mbr import rank_by_utility, utilities

JOINT = tiny.tokeniser()
SOURCES = [
    "I want to buy a car.", "The dog sees the cat.", "", "Where is the station?", "Ünïcödé 你好", "We go.",
]  # fmt: skip
REFERENCES = [
    "Ich möchte ein Auto kaufen.", "Der Hund sieht die Katze.", "", "Wo ist der Bahnhof?", "x", "Wir gehen.",
]  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    model_folders = []
    for seed, settings in enumerate((tiny.TINY, tiny.TINY, tiny.TINY)):
        folder = tmp_path_factory.mktemp("jobs") / f"model{seed}"
        tokeniser = JOINT if seed < 2 else tiny.tokeniser(size=330)
        model = tiny.transformer(settings, tokeniser, tokeniser, seed)
        decoding = tiny.DECODING.model_copy(update={"max_length": 8})
        tiny.save(folder, model, tokeniser, decoding=decoding)
        model_folders.append(folder)
    return model_folders


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pairs = zip(SOURCES, REFERENCES, strict=True)
    (tmp_path / "pairs.tsv").write_text(
        "".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8"
    )
    (tmp_path / "c.en").write_text("\n".join(SOURCES) + "\n", encoding="utf-8")
    (tmp_path / "c.de").write_text("\n".join(REFERENCES) + "\n", encoding="utf-8")
    return tmp_path


def run(*arguments, code=0):
    return run_uwaga(*arguments, "--device", "cpu", code=code)


def rows(folder):
    """Return the sentence pairs of all output parts."""
    content = b"".join(gzip.decompress(path.read_bytes()) for path in sorted(folder.glob("part-*")))
    return [tuple(line.split("\t")) for line in content.decode().split("\n")[:-1]]


def hypotheses(folder, text, **options):
    best = uwaga.load(folder, device="cpu").translate(text, **options)
    return [best, *best.alternatives]


@pytest.mark.parametrize("engine", ["native", "torch"])
def test_distil_chooses_the_candidate_closest_to_the_reference(workspace, folders, engine):
    run("distil", folders[0], "pairs.tsv", "-o", "out", "-n", 4, "--part-rows", 4, "--engine", engine)
    pairs = rows(workspace / "out")
    assert [source for source, _ in pairs] == SOURCES
    for (_, target), source, reference in zip(pairs, SOURCES, REFERENCES, strict=True):
        if source:
            texts = [hypothesis.text for hypothesis in hypotheses(folders[0], source, beam=4, nbest=4)]
            assert target == texts[int(utilities(texts, [reference], "bleu")[:, 0].argmax())]
    assert pairs[2] == ("", "")


@pytest.mark.parametrize("corpus", [["c.en", "-r", "c.de"], ["c"]])
def test_distil_reads_a_corpus_of_two_files(workspace, folders, corpus):
    run("distil", folders[0], "pairs.tsv", "-o", "one", "-n", 3)
    run("distil", folders[0], *corpus, "-o", "other", "-n", 3)
    assert rows(workspace / "one") == rows(workspace / "other")


def test_distil_chooses_the_best_candidate_without_references(workspace, folders):
    run("distil", folders[0], "c.en", "-o", "best", "--choose", "model")
    run("distil", folders[0], "c.en", "-o", "risk", "--choose", "mbr", "-n", 4)
    run("distil", folders[0], "c.en", "-o", "drawn", "--choose", "mbr", "-n", 6, "--sample", "--seed", 4)
    best, risk, sampled = (rows(workspace / name) for name in ("best", "risk", "drawn"))
    for index, source in enumerate(SOURCES):
        if source:
            assert best[index] == (source, hypotheses(folders[0], source)[0].text)
            candidates = hypotheses(folders[0], source, beam=4, nbest=4)
            top = max(candidate.log_prob for candidate in candidates)
            weights = [2.718281828459045 ** (candidate.log_prob - top) for candidate in candidates]
            assert (
                risk[index][1]
                == candidates[
                    rank_by_utility([candidate.text for candidate in candidates], weights)[0][0]
                ].text
            )
            samples = [sample.text for sample in hypotheses(folders[0], source, sample=True, nbest=6, seed=4)]
            assert sampled[index][1] == samples[rank_by_utility(samples)[0][0]]


def test_distil_refuses_non_finite_options_and_overwriting_its_input(workspace, folders):
    before = (workspace / "pairs.tsv").read_bytes()
    result = run("distil", folders[0], "pairs.tsv", "-o", "out", "--join", "pairs.tsv", code=1)
    assert "pairs.tsv is the input" in result.output and (workspace / "pairs.tsv").read_bytes() == before
    for number in ("nan", "inf"):
        options = ("--choose", "mbr", "--sample", "--temperature", number)
        result = run("distil", folders[0], "pairs.tsv", "-o", "out", *options, code=1)
        assert f"temperature must be a finite number, not {number}" in result.output
    assert not (workspace / "out").exists()


def test_distil_translates_with_an_ensemble_or_a_pool_of_models(workspace, folders):
    run("distil", *folders[:2], "c.en", "-o", "both", "--choose", "model")
    ensemble = uwaga.load(folders[:2], device="cpu")
    assert [target for _, target in rows(workspace / "both")] == [
        translation.text for translation in ensemble.translate(SOURCES)
    ]
    run("distil", folders[0], folders[2], "pairs.tsv", "-o", "pool", "--pool", "-n", 3)
    for (_, target), source, reference in zip(rows(workspace / "pool"), SOURCES, REFERENCES, strict=True):
        if source:
            texts = [
                hypothesis.text
                for index in (0, 2)
                for hypothesis in hypotheses(folders[index], source, beam=3, nbest=3)
            ]
            assert target == texts[int(utilities(texts, [reference], "bleu")[:, 0].argmax())]
    result = run("distil", folders[0], folders[2], "pairs.tsv", "-o", "no", code=1)
    assert "or add --pool" in result.output
    result = run("distil", *folders[:2], "c.en", "-o", "no", "--pool", "--choose", "model", code=1)
    assert "a pool of models has no best candidate" in result.output
    assert list((workspace / "no").glob("*")) == []


def test_backtranslate_adds_the_tag_to_sources(workspace, folders):
    run("backtranslate", folders[0], "c.de", "-o", "plain")
    run("backtranslate", folders[0], "c.de", "-o", "tagged", "--tag", "<BT>", "--join", "all.tsv")
    translations = uwaga.load(folders[0], device="cpu").translate(REFERENCES)
    sources = [translation.text.strip() for translation in translations]
    assert rows(workspace / "plain") == list(zip(sources, REFERENCES, strict=True))
    tagged = [
        (f"<BT> {source}" if source else "", target)
        for source, target in zip(sources, REFERENCES, strict=True)
    ]
    assert rows(workspace / "tagged") == tagged
    lines = (workspace / "all.tsv").read_text(encoding="utf-8").split("\n")[:-1]
    assert [tuple(line.split("\t")) for line in lines] == tagged


def test_samples_depend_only_on_the_seed_and_the_text(workspace, folders):
    arguments = ("backtranslate", folders[0], "c.de", "--sample", "--top-k", 5, "--temperature", 1.5)
    run(*arguments, "-o", "a", "--part-rows", 2)
    run(*arguments, "-o", "b", "--batch-tokens", 10, "--threads", 1)
    run(*arguments, "-o", "c", "--seed", 2)
    assert rows(workspace / "a") == rows(workspace / "b") != rows(workspace / "c")


def test_backtranslate_reads_the_chosen_column(workspace, folders):
    run("backtranslate", folders[0], "pairs.tsv", "-o", "second", "--column", 2)
    run("backtranslate", folders[0], "c.de", "-o", "plain")
    assert rows(workspace / "second") == rows(workspace / "plain")


def test_untranslatable_lines_are_reported_and_kept(workspace, folders):
    (workspace / "bad").write_bytes(b"Hallo.\n\xff\xfe\xfa\n\nGut.\n")
    result = run("backtranslate", folders[0], "bad", "-o", "out")
    assert "line 2: bad UTF-8" in result.output
    assert "4 lines in 1 parts, 1 empty, 1 failed" in " ".join(result.output.split())
    assert [target for _, target in rows(workspace / "out")] == ["Hallo.", "", "", "Gut."]
    record = json.loads((workspace / "out/manifest.json").read_text())["parts"]["part-00000.tsv.gz"]
    assert record["failures"] == [[2, "line 2: bad UTF-8"]]
    (workspace / "some.tsv").write_text("We go.\tWir gehen.\nThey stay.\n")
    result = run("distil", folders[0], "some.tsv", "-o", "some", "-n", 2)
    assert "line 2 has no reference to choose by" in result.output
    assert rows(workspace / "some")[1] == ("They stay.", "")


def test_distil_output_can_be_used_for_training(workspace, folders):
    from uwaga.data.corpus import read_corpus
    from uwaga.settings import CorpusSettings

    run("distil", folders[1], "pairs.tsv", "-o", "out", "--join", "taught.tsv.zst", "-n", 2)
    pairs = read_corpus(CorpusSettings(files=(str(workspace / "taught.tsv.zst"),)))
    sources = [pair.source for pair in pairs]
    assert sources == [source for source in SOURCES if source in sources]
    assert pairs.report.faults["empty source"] == 1  # a random model may translate to nothing, too
    assert len(sources) + sum(pairs.report.faults.values()) == len(SOURCES)


def test_resuming_with_other_settings_models_or_input_is_refused(workspace, folders):
    run("distil", folders[0], "pairs.tsv", "-o", "out", "-n", 2)
    for options, key in (
        (("-n", 3), "settings.nbest = 2"),
        (("-n", 2, "--utility", "chrf"), "settings.utility = 'bleu'"),
        (("-n", 2, "--part-rows", 5), "part_rows = 10000"),
    ):
        result = run("distil", folders[0], "pairs.tsv", "-o", "out", *options, code=1)
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
        (["distil", "pairs.tsv"], "give one or more models, and then the corpus"),
        (["distil", "MODEL", "c.en"], "no references to choose by; give a TSV of source and reference"),
        (["distil", "MODEL", "nothing"], "neither a file nor a Moses prefix: there is no file nothing.en"),
        (["distil", "MODEL", "nothing", "--from", "en"], "; check the path and its languages (--from, --to)"),
        (["distil", "nothing", "pairs.tsv"], "no such folder, Hugging Face name"),
        (["distil", "MODEL", "pairs.tsv", "--top-k", "3"], "set sample"),
        (["backtranslate", "MODEL", "c.de", "--tag", "two words"], "must be one word without spaces"),
        (["backtranslate", "MODEL", "c.de", "--column", "2"], "line 1 has no column 2; its last column is 1"),
        (["backtranslate", "MODEL", "nothing"], "nothing: no such file"),
        (["backtranslate", "MODEL", "c.de", "--shortlist", "gone"], "gone: cannot be read: No such file"),
    ],
)
def test_invalid_input_does_not_create_a_job(workspace, folders, arguments, message):
    named = [str(folders[0]) if argument == "MODEL" else argument for argument in arguments]
    result = run(*named, "-o", "out", code=1)
    assert message in result.output
    assert "Traceback" not in result.output
    assert not (workspace / "out/manifest.json").exists()


@pytest.mark.slow
def test_resumed_job_has_the_output_of_an_uninterrupted_one(workspace, folders):
    (workspace / "many").write_text(
        "\n".join(f"{text} {n}" for n in range(400) for text in REFERENCES), encoding="utf-8"
    )
    arguments = [
        "backtranslate", str(folders[0]), "many", "--part-rows", "100", "--sample", "--device", "cpu",
    ]  # fmt: skip
    command = [sys.executable, "-m", "uwaga", *arguments]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([*command, "-o", "whole"], env=environment, check=True, capture_output=True)
    kills = 0
    for part_count in (1, 4, 9):
        process = subprocess.Popen([*command, "-o", "out"], env=environment, stderr=subprocess.DEVNULL)
        while len(list((workspace / "out").glob("part-*"))) < part_count and process.poll() is None:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
    assert kills
    subprocess.run([*command, "-o", "out"], env=environment, check=True, capture_output=True)
    expected, resumed = (
        {path.name: path.read_bytes() for path in (workspace / name).iterdir()} for name in ("whole", "out")
    )
    assert resumed == expected


@pytest.mark.slow
def test_distil_does_not_import_torch(workspace, folders):
    code = (
        "import sys; from uwaga.cli.main import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print('torch' in sys.modules)"
    )
    arguments = [
        "distil", str(folders[0]), "pairs.tsv", "-o", "out", "-n", "2", "--choose", "mbr", "--device", "cpu",
    ]  # fmt: skip
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == ["False"], result.stderr


@pytest.mark.parametrize("precision", ["int8", "float32"])
def test_hugging_face_teacher_runs_on_the_native_engine(workspace, tmp_path_factory, precision):
    from marian_folders import make

    teacher = tmp_path_factory.mktemp("foreign") / "opus-mt-en-de"
    make(teacher)
    options = ("--engine", "native", "--dtype", precision)
    run("distil", teacher, "c.en", "-o", "out", "-n", 3, "--choose", "mbr", *options)
    run("backtranslate", teacher, "c.en", "-o", "back", *options)
    translations = uwaga.load(teacher, engine="native", dtype=precision).translate(SOURCES)
    assert [source for source, _ in rows(workspace / "back")] == [
        translation.text.strip() for translation in translations
    ]
    assert [source for source, _ in rows(workspace / "out")] == SOURCES
