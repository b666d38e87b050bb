"""Jobs over corpora: line numbers, resumption, and rejected inputs."""

import gzip
import json
import os
from pathlib import Path

import pytest

from uwaga.errors import DataError, RunInUseError, SettingsError
from uwaga.files.lock import RunLock
from uwaga.files.store import LocalStore
from uwaga_corpora.jobs.corpus import (
    CorpusJob,
    backtranslate_job,
    check_join,
    check_tag,
    corpus_input,
    distil_job,
    join_parts,
    text_input,
)
from uwaga_corpora.jobs.distillation import TargetChoice
from uwaga_corpora.jobs.engine import MANIFEST, StoredModel, read_manifest, run_job
from uwaga_corpora.jobs.translation import TranslatedText, TranslationSpec
from uwaga_corpora.jobs.workers import WorkerPool

LINES = ["a b", "", "c\td", "bad", "ä ö", "x", "y"]
SPEC = TranslationSpec(("bundled",), choice=TargetChoice("model"))


class RecordingProgress:
    """Records the progress of a job."""

    def __init__(self) -> None:
        self.before = (0, 0.0, None)
        self.parts: list[str] = []
        self.rows = 0

    def start(self, rows, share, total):
        self.before = (rows, share, total)

    def finish_part(self, name, record, share):
        self.parts.append(name)
        self.rows += record.rows


class CapitalisingWorkers:
    """Workers that capitalise texts, fail on ``bad``, and raise KeyboardInterrupt after ``tasks`` tasks."""

    def __init__(self, tasks: int = 99) -> None:
        self.left = tasks
        self.started = 0

    def pool(self, spec, fingerprint):
        self.fingerprint = fingerprint
        return WorkerPool(lambda: self, 1, fingerprint)

    def load(self):
        self.started += 1
        return self.fingerprint

    def translate(self, task):
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        return [
            TranslatedText(None, error=f"line {row}: bad") if text == "bad" else TranslatedText(text.upper())
            for row, text in zip(task.rows, task.texts, strict=True)
        ]

    def close(self):
        pass


def job(folder: Path, text: Path, **changes) -> CorpusJob:
    job_ = distil_job(folder, SPEC, text, part_rows=2)
    job_.manifest = job_.manifest.model_copy(update=changes)
    return job_


def run(job_: CorpusJob, tasks: int = 99, progress=None):
    return run_job(job_, CapitalisingWorkers(tasks), progress or RecordingProgress())


def interrupt_job(folder: Path, text: Path, tasks: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(job(folder, text), tasks)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text"
    path.write_text("\n".join(line.replace("\t", " ") for line in LINES) + "\n", encoding="utf-8")
    return path


def part_bytes(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def written_lines(folder: Path) -> list[str]:
    """Return the lines of all output parts."""
    content = b"".join(gzip.decompress(path.read_bytes()) for path in sorted(folder.glob("part-*.tsv.gz")))
    return content.decode().split("\n")[:-1]


def test_output_lines_correspond_to_input_lines(tmp_path, text):
    progress = RecordingProgress()
    manifest = run(job(tmp_path / "out", text), progress=progress)
    assert written_lines(tmp_path / "out") == [
        "a b\tA B", "\t", "c d\tC D", "bad\t", "ä ö\tÄ Ö", "x\tX", "y\tY",
    ]  # fmt: skip
    assert list(manifest.parts) == progress.parts == [f"part-0000{n}.tsv.gz" for n in range(4)]
    assert (manifest.total("rows"), manifest.total("empty"), manifest.total("failed")) == (7, 1, 1)
    assert manifest.parts["part-00001.tsv.gz"].failures == ((4, "line 4: bad"),)
    assert (progress.before, progress.rows) == ((0, 0.0, 7), 7)
    assert manifest.finished and read_manifest(LocalStore(tmp_path / "out")) == manifest
    assert json.loads((tmp_path / "out" / MANIFEST).read_text())["input"]["lines"] == 7
    assert not (tmp_path / "out/lock").exists()


def test_M32_back_translation_keeps_the_text_as_the_target(tmp_path, text):
    (tmp_path / "tabs").write_text("a\tb c\nbad\n", encoding="utf-8")
    run(backtranslate_job(tmp_path / "out", TranslationSpec(("bundled",)), [tmp_path / "tabs"], tag="<BT>"))
    assert written_lines(tmp_path / "out") == ["<BT> A B C\ta b c", "\tbad"]


@pytest.mark.parametrize("tasks", [0, 1, 2, 3])
def test_resumed_job_gives_identical_output(tmp_path, text, tasks):
    run(job(tmp_path / "whole", text))
    interrupt_job(tmp_path / "out", text, tasks)
    assert len(list((tmp_path / "out").glob("part-*"))) == tasks
    progress = RecordingProgress()
    run(job(tmp_path / "out", text), progress=progress)
    assert progress.before[0] == 2 * tasks
    assert part_bytes(tmp_path / "out") == part_bytes(tmp_path / "whole")


def test_finished_job_starts_no_worker(tmp_path, text):
    run(job(tmp_path / "out", text))
    workers, progress = CapitalisingWorkers(), RecordingProgress()
    run_job(job(tmp_path / "out", text), workers, progress)
    assert (workers.started, progress.before) == (0, (7, 1.0, 7))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"settings": {"nbest": 5}}, r"started with settings\.nbest = 1, but is now requested with 5"),
        ({"kind": "backtranslate"}, "kind = 'distil', but is now requested with 'backtranslate'"),
        ({"models": (StoredModel(name="bundled", sha256="1"),)}, r"models\.0 = '.*requested with '1'"),
        ({"part_rows": 3}, "part_rows = 2, .* 3; use the same"),
        ({"uwaga": "2"}, "uwaga = '.*requested with '2'"),
    ],
)
def test_resuming_a_different_job_is_rejected(tmp_path, text, changes, message):
    interrupt_job(tmp_path / "out", text, 1)
    before = part_bytes(tmp_path / "out")
    with pytest.raises(SettingsError, match=message):
        run(job(tmp_path / "out", text, **changes))
    assert part_bytes(tmp_path / "out") == before


def test_models_and_input_can_be_moved_but_not_changed(tmp_path, text):
    interrupt_job(tmp_path / "out", text, 1)
    moved_text = tmp_path / "moved.gz"
    moved_text.write_bytes(gzip.compress(text.read_bytes()))
    moved_job = job(tmp_path / "out", moved_text)
    [model] = moved_job.manifest.models
    moved_job.manifest = moved_job.manifest.model_copy(
        update={"models": (model.model_copy(update={"name": "other"}),)}
    )
    run(moved_job)
    text.write_text(text.read_text(encoding="utf-8").replace("x", "z"), encoding="utf-8")
    with pytest.raises(SettingsError, match=r"input\.sha256 = "):
        run(job(tmp_path / "out", text))


def test_input_shortened_while_reading_is_detected(tmp_path, text):
    job_ = job(tmp_path / "out", text)
    text.write_text("a\n", encoding="utf-8")
    with pytest.raises(DataError, match="changed while it was read"):
        run(job_)


def test_output_folder_with_other_files_is_rejected(tmp_path, text):
    with pytest.raises(DataError, match="this is a file; give a folder"):
        run(job(text, text))
    (tmp_path / "full").mkdir()
    (tmp_path / "full/thesis.tex").write_text("")
    with pytest.raises(DataError, match=r"holds thesis\.tex but no manifest\.json"):
        run(job(tmp_path / "full", text))
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("content", ["{", "[]", '{"format": 2}', '{"format": 1, "kind": "distil"}'])
def test_damaged_manifest_is_rejected(tmp_path, text, content):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / MANIFEST).write_text(content)
    with pytest.raises(DataError, match=r"manifest\.json.*; delete the folder to start over"):
        run(job(tmp_path / "out", text))


def test_locked_folder_is_rejected(tmp_path, text):
    (tmp_path / "out").mkdir()
    with (
        RunLock(tmp_path / "out"),
        pytest.raises(RunInUseError, match=r"writing parts here .*choose another folder"),
    ):
        run(job(tmp_path / "out", text))


def test_joined_file_contains_the_lines_of_all_parts(tmp_path, text):
    manifest = run(job(tmp_path / "out", text))
    join_parts(tmp_path / "out", manifest, tmp_path / "all.tsv")
    join_parts(tmp_path / "out", manifest, tmp_path / "all.tsv.gz")
    assert (tmp_path / "all.tsv").read_text(encoding="utf-8").split("\n")[:-1] == written_lines(
        tmp_path / "out"
    )
    assert gzip.decompress((tmp_path / "all.tsv.gz").read_bytes()) == (tmp_path / "all.tsv").read_bytes()
    (tmp_path / "out/part-00000.tsv.gz").write_bytes(b"\x1f\x8bx")
    with pytest.raises(DataError, match=r"part-00000\.tsv\.gz: cannot be read"):
        join_parts(tmp_path / "out", manifest, tmp_path / "again.tsv")
    assert not (tmp_path / "again.tsv").exists()


@pytest.mark.parametrize(
    "output", ["text", "link", "out/manifest.json", "out/part-00000.tsv.gz", "out/new.tsv"]
)
def test_join_does_not_overwrite_input_or_parts(tmp_path, text, output):
    job_ = job(tmp_path / "out", text)
    (tmp_path / "link").symlink_to(text)
    with pytest.raises(SettingsError, match=r"is the input|is in the folder"):
        check_join(job_, tmp_path / output)
    with pytest.raises(DataError, match="there is no folder"):
        check_join(job_, tmp_path / "none/all.tsv")
    check_join(job_, tmp_path / "all.tsv")


@pytest.mark.parametrize("name", ["../text", "/dev/zero", "part-99999.tsv.gz"])
def test_unexpected_files_named_in_the_manifest_are_not_changed(tmp_path, text, name):
    run(job(tmp_path / "out", text))
    before, values = part_bytes(tmp_path / "out"), json.loads((tmp_path / "out" / MANIFEST).read_text())
    values["parts"][name] = values["parts"]["part-00000.tsv.gz"]
    (tmp_path / "out" / MANIFEST).write_text(json.dumps(values))
    content = text.read_bytes()
    run(job(tmp_path / "out", text))
    assert part_bytes(tmp_path / "out") == before and text.read_bytes() == content


def test_part_file_that_is_a_pipe_is_rejected(tmp_path, text):
    run(job(tmp_path / "out", text))
    (tmp_path / "out/part-00001.tsv.gz").unlink()
    os.mkfifo(tmp_path / "out/part-00001.tsv.gz")
    with pytest.raises(DataError, match=r"part-00001\.tsv\.gz: not a regular file"):
        run(job(tmp_path / "out", text))


def test_line_with_a_lone_surrogate_is_marked_as_invalid(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"en": "a \\ud800", "de": "b"}\n{"en": "c", "de": "d"}\n')
    lines = list(corpus_input(tmp_path / "a.jsonl", None, ("en", "de")).read())
    assert [(line.text, line.fault) for line in lines] == [("", "bad UTF-8"), ("c", None)]


def test_input_file_that_is_a_pipe_is_rejected(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="a pipe or a device"):
        corpus_input(tmp_path / "pipe", None, ("en", "de"))


@pytest.mark.parametrize("tag", ["a b", "<\x1b[31m>", "<\u200b>", f"<{'a' * 70}>"])
def test_invalid_tag_is_rejected(tag):
    with pytest.raises(
        SettingsError, match="must be one word without spaces, of 64 characters or fewer"
    ) as e:
        check_tag(tag)
    assert len(str(e.value)) < 200 and str(e.value).isprintable()


def test_texts_and_references_are_read_from_each_corpus_format(tmp_path):
    (tmp_path / "a.tsv").write_text("one\teins\tein\ntwo\n\tdrei\nfour\t \n", encoding="utf-8")
    assert [
        (line.text, line.references) for line in corpus_input(tmp_path / "a.tsv", None, ("en", "de")).read()
    ] == [("one", ("eins", "ein")), ("two", ()), ("", ("drei",)), ("four", ())]
    (tmp_path / "c.en").write_text("one\ntwo\n")
    (tmp_path / "c.de").write_text("eins\nzwei\n")
    pairs = [("one", ("eins",)), ("two", ("zwei",))]
    for source in (
        corpus_input(tmp_path / "c", None, ("en", "de")),
        corpus_input(tmp_path / "c.en", tmp_path / "c.de", ("src", "tgt")),
    ):
        assert [(line.text, line.references) for line in source.read()] == pairs
        assert source.identify()[:2] == (2, 2)
    (tmp_path / "j.jsonl").write_text(
        '{"en": "one", "de": "eins"}\n[]\n{"en": "two\\nlines", "de": "zwei"}\n'
    )
    lines = list(corpus_input(tmp_path / "j.jsonl", None, ("en", "de")).read())
    assert [(line.number, line.text, line.references) for line in lines] == [
        (1, "one", ("eins",)),
        (2, "", ()),
        (3, "two lines", ("zwei",)),
    ]
    texts = text_input([tmp_path / "c.en", tmp_path / "c.de"])
    assert [(line.number, line.text) for line in texts.read()] == [
        (1, "one"), (2, "two"), (3, "eins"), (4, "zwei"),
    ]  # fmt: skip
    with pytest.raises(DataError, match=r"a\.tsv: line 2 has no column 2; its last column is 1"):
        text_input([tmp_path / "a.tsv"], 2).identify()


def test_invalid_lines_are_read_as_empty_texts_with_their_faults(tmp_path):
    (tmp_path / "t").write_bytes(b"ok\n\xff\xfe\xfd bad\nnul\0\n" + b"x" * (1 << 20) + b"yy\nlast")
    lines = list(text_input([tmp_path / "t"]).read())
    assert [line.fault for line in lines] == [None, "bad UTF-8", "NUL character", "line over 1 MiB", None]
    assert [line.text for line in lines] == ["ok", "", "", "", "last"]


def test_invalid_inputs_are_rejected(tmp_path):
    (tmp_path / "two").write_text("a\nb\n")
    (tmp_path / "one").write_text("a\n")
    (tmp_path / "none").write_text("")
    for first, second in (("two", "one"), ("one", "two")):
        with pytest.raises(DataError, match=r"not aligned: .* lines, .* lines?"):
            corpus_input(tmp_path / first, tmp_path / second, ("a", "b")).identify()
    with pytest.raises(DataError, match="none: the input has no lines"):
        text_input([tmp_path / "none"]).identify()
    with pytest.raises(DataError, match="missing: no such file"):
        text_input([tmp_path / "missing"])
    with pytest.raises(DataError, match="neither a file nor a Moses prefix"):
        corpus_input(tmp_path / "missing", None, ("en", "de"))
    with pytest.raises(SettingsError, match="no text file"):
        text_input([])
    with pytest.raises(SettingsError, match="column -1"):
        text_input([tmp_path / "one"], -1)
