"""Jobs over corpora: every line in its place, resumed to the same bytes, other jobs refused by key."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from uwaga.errors import DataError, RunInUseError, SettingsError
from uwaga.files.lock import RunLock
from uwaga.files.store import LocalStore
from uwaga.jobs.corpus import (
    CorpusJob,
    backtranslate_job,
    check_join,
    check_tag,
    corpus_input,
    distil_job,
    join_parts,
    text_input,
)
from uwaga.jobs.distillation import TargetChoice
from uwaga.jobs.engine import MANIFEST, StoredModel, read_manifest, run_job
from uwaga.jobs.translation import TranslatedText, TranslationSpec
from uwaga.jobs.workers import WorkerPool

LINES = ["a b", "", "c\td", "bad", "ä ö", "x", "y"]
SPEC = TranslationSpec(("bundled",), choice=TargetChoice("model"))


class Recorder:
    """Remembers the progress of a job."""

    def __init__(self) -> None:
        self.before = (0, 0.0, None)
        self.parts: list[str] = []
        self.rows = 0

    def begin(self, rows, share, total):
        self.before = (rows, share, total)

    def finish_part(self, name, record, share):
        self.parts.append(name)
        self.rows += record.rows


class Capitals:
    """Workers that capitalise texts; ``bad`` fails; the process is interrupted after so many tasks."""

    def __init__(self, tasks: int = 99) -> None:
        self.left = tasks
        self.started = 0

    def pool(self, spec, fingerprint):
        self.fingerprint = fingerprint
        return WorkerPool(lambda: self, 1, fingerprint)

    def begin(self):
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
    made = distil_job(folder, SPEC, text, part_rows=2)
    made.manifest = made.manifest.model_copy(update=changes)
    return made


def run(made: CorpusJob, tasks: int = 99, progress=None):
    return run_job(made, Capitals(tasks), progress or Recorder())


def interrupted(folder: Path, text: Path, tasks: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(job(folder, text), tasks)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text"
    path.write_text("\n".join(one.replace("\t", " ") for one in LINES) + "\n", encoding="utf-8")
    return path


def parts(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def written(folder: Path) -> list[str]:
    """The lines of all parts."""
    content = b"".join(gzip.decompress(path.read_bytes()) for path in sorted(folder.glob("part-*.tsv.gz")))
    return content.decode().split("\n")[:-1]


def test_line_n_is_line_n_whatever_happens_to_it(tmp_path, text):
    progress = Recorder()
    manifest = run(job(tmp_path / "out", text), progress=progress)
    assert written(tmp_path / "out") == ["a b\tA B", "\t", "c d\tC D", "bad\t", "ä ö\tÄ Ö", "x\tX", "y\tY"]
    assert list(manifest.parts) == progress.parts == [f"part-0000{n}.tsv.gz" for n in range(4)]
    assert (manifest.total("rows"), manifest.total("empty"), manifest.total("failed")) == (7, 1, 1)
    assert manifest.parts["part-00001.tsv.gz"].failures == ((4, "line 4: bad"),)
    assert (progress.before, progress.rows) == ((0, 0.0, 7), 7)
    assert manifest.finished and read_manifest(LocalStore(tmp_path / "out")) == manifest
    assert json.loads((tmp_path / "out" / MANIFEST).read_text())["input"]["lines"] == 7
    assert not (tmp_path / "out/lock").exists()


def test_M32_text_of_people_stays_the_target(tmp_path, text):
    (tmp_path / "tabs").write_text("a\tb c\nbad\n", encoding="utf-8")
    run(backtranslate_job(tmp_path / "out", TranslationSpec(("bundled",)), [tmp_path / "tabs"], tag="<BT>"))
    assert written(tmp_path / "out") == ["<BT> A B C\ta b c", "\tbad"]


@pytest.mark.parametrize("tasks", [0, 1, 2, 3])
def test_an_interrupted_job_resumes_to_the_same_bytes(tmp_path, text, tasks):
    run(job(tmp_path / "whole", text))
    interrupted(tmp_path / "out", text, tasks)
    assert len(list((tmp_path / "out").glob("part-*"))) == tasks
    progress = Recorder()
    run(job(tmp_path / "out", text), progress=progress)
    assert progress.before[0] == 2 * tasks
    assert parts(tmp_path / "out") == parts(tmp_path / "whole")


def test_a_finished_job_starts_no_worker(tmp_path, text):
    run(job(tmp_path / "out", text))
    workers, progress = Capitals(), Recorder()
    run_job(job(tmp_path / "out", text), workers, progress)
    assert (workers.started, progress.before) == (0, (7, 1.0, 7))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"settings": {"nbest": 5}}, r"started with settings\.nbest = 1, and is now asked for with 5"),
        ({"kind": "backtranslate"}, "kind = 'distil', and is now asked for with 'backtranslate'"),
        ({"models": (StoredModel(name="bundled", sha256="1"),)}, r"models\.0 = '.*asked for with '1'"),
        ({"part_rows": 3}, "part_rows = 2, .* 3; use the same"),
        ({"uwaga": "2"}, "uwaga = '.*asked for with '2'"),
    ],
)
def test_another_job_is_refused_by_key(tmp_path, text, changes, message):
    interrupted(tmp_path / "out", text, 1)
    before = parts(tmp_path / "out")
    with pytest.raises(SettingsError, match=message):
        run(job(tmp_path / "out", text, **changes))
    assert parts(tmp_path / "out") == before


def test_models_and_inputs_may_move_but_not_change(tmp_path, text):
    interrupted(tmp_path / "out", text, 1)
    moved = tmp_path / "moved.gz"
    moved.write_bytes(gzip.compress(text.read_bytes()))
    renamed = job(tmp_path / "out", moved)
    [model] = renamed.manifest.models
    renamed.manifest = renamed.manifest.model_copy(
        update={"models": (model.model_copy(update={"name": "other"}),)}
    )
    run(renamed)
    text.write_text(text.read_text(encoding="utf-8").replace("x", "z"), encoding="utf-8")
    with pytest.raises(SettingsError, match=r"input\.sha256 = "):
        run(job(tmp_path / "out", text))


def test_an_input_that_becomes_shorter_on_the_way_is_noticed(tmp_path, text):
    asked = job(tmp_path / "out", text)
    text.write_text("a\n", encoding="utf-8")
    with pytest.raises(DataError, match="changed while it was read"):
        run(asked)


def test_folders_that_are_not_jobs_are_refused(tmp_path, text):
    with pytest.raises(DataError, match="is a file; name a folder"):
        run(job(text, text))
    (tmp_path / "full").mkdir()
    (tmp_path / "full/thesis.tex").write_text("")
    with pytest.raises(DataError, match=r"holds thesis\.tex but no manifest\.json"):
        run(job(tmp_path / "full", text))
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("content", ["{", "[]", '{"format": 2}', '{"format": 1, "kind": "distil"}'])
def test_a_damaged_manifest_is_refused(tmp_path, text, content):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / MANIFEST).write_text(content)
    with pytest.raises(DataError, match=r"manifest\.json.*; delete the folder to start over"):
        run(job(tmp_path / "out", text))


def test_two_processes_do_not_write_into_one_folder(tmp_path, text):
    (tmp_path / "out").mkdir()
    with (
        RunLock(tmp_path / "out"),
        pytest.raises(RunInUseError, match=r"writes parts here .*choose another folder"),
    ):
        run(job(tmp_path / "out", text))


def test_parts_are_joined(tmp_path, text):
    manifest = run(job(tmp_path / "out", text))
    join_parts(tmp_path / "out", manifest, tmp_path / "all.tsv")
    join_parts(tmp_path / "out", manifest, tmp_path / "all.tsv.gz")
    assert (tmp_path / "all.tsv").read_text(encoding="utf-8").split("\n")[:-1] == written(tmp_path / "out")
    assert gzip.decompress((tmp_path / "all.tsv.gz").read_bytes()) == (tmp_path / "all.tsv").read_bytes()
    (tmp_path / "out/part-00000.tsv.gz").write_bytes(b"\x1f\x8bx")
    with pytest.raises(DataError, match=r"part-00000\.tsv\.gz: cannot be read"):
        join_parts(tmp_path / "out", manifest, tmp_path / "again.tsv")
    assert not (tmp_path / "again.tsv").exists()


@pytest.mark.parametrize(
    "place", ["text", "link", "out/manifest.json", "out/part-00000.tsv.gz", "out/new.tsv"]
)
def test_parts_are_not_joined_over_what_the_job_needs(tmp_path, text, place):
    made = job(tmp_path / "out", text)
    (tmp_path / "link").symlink_to(text)
    with pytest.raises(SettingsError, match=r"is the input|lies in the folder"):
        check_join(made, tmp_path / place)
    with pytest.raises(DataError, match="there is no folder"):
        check_join(made, tmp_path / "none/all.tsv")
    check_join(made, tmp_path / "all.tsv")


@pytest.mark.parametrize("name", ["../text", "/dev/zero", "part-99999.tsv.gz"])
def test_a_manifest_that_names_other_files_touches_none(tmp_path, text, name):
    run(job(tmp_path / "out", text))
    before, values = parts(tmp_path / "out"), json.loads((tmp_path / "out" / MANIFEST).read_text())
    values["parts"][name] = values["parts"]["part-00000.tsv.gz"]
    (tmp_path / "out" / MANIFEST).write_text(json.dumps(values))
    content = text.read_bytes()
    run(job(tmp_path / "out", text))
    assert parts(tmp_path / "out") == before and text.read_bytes() == content


def test_a_pipe_is_not_a_part(tmp_path, text):
    run(job(tmp_path / "out", text))
    (tmp_path / "out/part-00001.tsv.gz").unlink()
    os.mkfifo(tmp_path / "out/part-00001.tsv.gz")
    with pytest.raises(DataError, match=r"part-00001\.tsv\.gz: not a regular file"):
        run(job(tmp_path / "out", text))


def test_half_a_surrogate_pair_stays_a_fault_in_its_place(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"en": "a \\ud800", "de": "b"}\n{"en": "c", "de": "d"}\n')
    found = list(corpus_input(tmp_path / "a.jsonl", None, ("en", "de")).read())
    assert [(one.text, one.fault) for one in found] == [("", "bad UTF-8"), ("c", None)]


def test_a_pipe_cannot_be_read_twice(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="a pipe or a device"):
        corpus_input(tmp_path / "pipe", None, ("en", "de"))


@pytest.mark.parametrize("tag", ["a b", "<\x1b[31m>", "<\u200b>", f"<{'a' * 70}>"])
def test_tags_are_short_words(tag):
    with pytest.raises(
        SettingsError, match="must be one word without spaces, of 64 characters or fewer"
    ) as e:
        check_tag(tag)
    assert len(str(e.value)) < 200 and str(e.value).isprintable()


def test_corpora_of_every_form(tmp_path):
    (tmp_path / "a.tsv").write_text("one\teins\tein\ntwo\n\tdrei\nfour\t \n", encoding="utf-8")
    assert [
        (one.text, one.references) for one in corpus_input(tmp_path / "a.tsv", None, ("en", "de")).read()
    ] == [
        ("one", ("eins", "ein")),
        ("two", ()),
        ("", ("drei",)),
        ("four", ()),
    ]
    (tmp_path / "c.en").write_text("one\ntwo\n")
    (tmp_path / "c.de").write_text("eins\nzwei\n")
    pairs = [("one", ("eins",)), ("two", ("zwei",))]
    for source in (
        corpus_input(tmp_path / "c", None, ("en", "de")),
        corpus_input(tmp_path / "c.en", tmp_path / "c.de", ("src", "tgt")),
    ):
        assert [(one.text, one.references) for one in source.read()] == pairs
        assert source.identify()[:2] == (2, 2)
    (tmp_path / "j.jsonl").write_text(
        '{"en": "one", "de": "eins"}\n[]\n{"en": "two\\nlines", "de": "zwei"}\n'
    )
    found = list(corpus_input(tmp_path / "j.jsonl", None, ("en", "de")).read())
    assert [(one.number, one.text, one.references) for one in found] == [
        (1, "one", ("eins",)),
        (2, "", ()),
        (3, "two lines", ("zwei",)),
    ]
    both = text_input([tmp_path / "c.en", tmp_path / "c.de"])
    assert [(one.number, one.text) for one in both.read()] == [
        (1, "one"),
        (2, "two"),
        (3, "eins"),
        (4, "zwei"),
    ]
    with pytest.raises(DataError, match=r"a\.tsv: line 2 has 1 columns, no column 2"):
        text_input([tmp_path / "a.tsv"], 2).identify()


def test_bad_lines_keep_their_places(tmp_path):
    (tmp_path / "t").write_bytes(b"ok\n\xff\xfe\xfd bad\nnul\0\n" + b"x" * (1 << 20) + b"yy\nlast")
    found = list(text_input([tmp_path / "t"]).read())
    assert [one.fault for one in found] == [None, "bad UTF-8", "NUL character", "line over 1 MiB", None]
    assert [one.text for one in found] == ["ok", "", "", "", "last"]


def test_inputs_that_cannot_be_are_refused(tmp_path):
    (tmp_path / "two").write_text("a\nb\n")
    (tmp_path / "one").write_text("a\n")
    (tmp_path / "none").write_text("")
    for first, second in (("two", "one"), ("one", "two")):
        with pytest.raises(DataError, match=r"not aligned: .* lines, .* lines?"):
            corpus_input(tmp_path / first, tmp_path / second, ("a", "b")).identify()
    with pytest.raises(DataError, match="none: no lines"):
        text_input([tmp_path / "none"]).identify()
    with pytest.raises(DataError, match="missing: no such file"):
        text_input([tmp_path / "missing"])
    with pytest.raises(DataError, match="neither a file nor a Moses prefix"):
        corpus_input(tmp_path / "missing", None, ("en", "de"))
    with pytest.raises(SettingsError, match="no text file"):
        text_input([])
    with pytest.raises(SettingsError, match="column -1"):
        text_input([tmp_path / "one"], -1)
