"""Jobs in shards: every line in its place, gone on with to the same bytes, refused by key."""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from uwaga.errors import DataError, RunInUseError, SettingsError
from uwaga.files.lock import RunLock
from uwaga.jobs.corpora.backtranslation import check_tag
from uwaga.jobs.corpora.job import Job, Made, check_joined, join_shards, run_job
from uwaga.jobs.corpora.lines import corpus_input, text_input
from uwaga.jobs.corpora.manifest import MANIFEST, Manifest, StoredInput, StoredModel, read_manifest

LINES = ["a b", "", "c\td", "bad", "ä ö", "x", "y"]


class Silent:
    """Remembers what a job tells."""

    def __init__(self) -> None:
        self.begun = (0, 0)
        self.failed: list[int] = []
        self.shards: list[str] = []
        self.lines = 0

    def begin(self, done, total):
        self.begun = (done, total)

    def advance(self, lines):
        self.lines += lines

    def fail(self, line, why):
        self.failed.append(line.number)

    def finish_shard(self, name, record):
        self.shards.append(name)


class Capitals:
    """Makes capitals of a line; ``bad`` fails; the process is interrupted after so many calls."""

    def __init__(self, calls: int = 99) -> None:
        self.left = calls

    def __call__(self, lines, advance):
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        advance(len(lines))
        return [
            Made(one.text, "", f"line {one.number}: bad")
            if one.text == "bad"
            else Made(one.text, one.text.upper())
            for one in lines
        ]


def job(folder: Path, text: Path, calls: int = 99, **changes) -> Job:
    source = text_input([text])
    read = source.identify()
    manifest = Manifest(
        uwaga="1",
        kind="distil",
        settings={"nbest": 4, "beam": None},
        models=(StoredModel(name="m", sha256="0"),),
        input=StoredInput(files=(str(text),), lines=read.lines, sha256=read.sha256),
        shard_size=2,
    )
    return Job(folder, source, manifest.model_copy(update=changes), lambda: Capitals(calls))


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


def parts(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def written(folder: Path) -> list[str]:
    """The lines of all shards."""
    content = b"".join(gzip.decompress(path.read_bytes()) for path in sorted(folder.glob("part-*.tsv.gz")))
    return content.decode().split("\n")[:-1]


def test_line_n_is_line_n_whatever_happens_to_it(tmp_path, text):
    told = Silent()
    manifest = run_job(job(tmp_path / "out", text), told)
    assert written(tmp_path / "out") == ["a b\tA B", "\t", "c d\tC D", "bad\t", "ä ö\tÄ Ö", "x\tX", "y\tY"]
    assert manifest.shard_names == tuple(f"part-0000{n}.tsv.gz" for n in range(4))
    assert (manifest.total("lines"), manifest.total("empty"), manifest.total("failed")) == (7, 1, 1)
    assert manifest.shards["part-00001.tsv.gz"].failures == ((4, "line 4: bad"),)
    assert (told.begun, told.failed, told.lines) == ((0, 7), [4], 7)
    assert told.shards == list(manifest.shard_names)
    assert read_manifest(tmp_path / "out") == manifest
    assert not (tmp_path / "out/lock").exists()


@pytest.mark.parametrize("calls", [0, 1, 2, 3])
def test_an_interrupted_job_goes_on_to_the_same_bytes(tmp_path, text, calls):
    run_job(job(tmp_path / "whole", text), Silent())
    with pytest.raises(KeyboardInterrupt):
        run_job(job(tmp_path / "out", text, calls), Silent())
    assert len(list((tmp_path / "out").glob("part-*"))) == calls
    told = Silent()
    run_job(job(tmp_path / "out", text), told)
    assert told.begun[0] == 2 * calls
    assert parts(tmp_path / "out") == parts(tmp_path / "whole")


def test_a_job_that_is_done_loads_nothing(tmp_path, text):
    run_job(job(tmp_path / "out", text), Silent())
    told = Silent()
    run_job(replace(job(tmp_path / "out", text), load=lambda: pytest.fail("loaded")), told)
    assert told.begun == (7, 7)


def test_a_shard_that_is_gone_is_made_again_and_one_that_was_changed_is_refused(tmp_path, text):
    run_job(job(tmp_path / "out", text), Silent())
    before = parts(tmp_path / "out")
    (tmp_path / "out/part-00001.tsv.gz").unlink()
    told = Silent()
    run_job(job(tmp_path / "out", text), told)
    assert told.shards == ["part-00001.tsv.gz"]
    assert parts(tmp_path / "out") == before
    (tmp_path / "out/part-00002.tsv.gz").write_bytes(b"")
    with pytest.raises(DataError, match=r"part-00002\.tsv\.gz: not as it was written; delete it"):
        run_job(job(tmp_path / "out", text), Silent())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"settings": {"nbest": 5, "beam": None}},
            r"begun with settings\.nbest = 4, not 5; ask for the same",
        ),
        ({"settings": {"nbest": 4, "beam": 2}}, r"settings\.beam = null, not 2"),
        ({"settings": {"nbest": 4}}, None),
        ({"kind": "backtranslate"}, r'kind = "distil", not "backtranslate"'),
        ({"models": (StoredModel(name="m", sha256="1"),)}, r'models\.0 = "0", not "1"'),
        ({"models": (StoredModel(name="other", sha256="0"),)}, None),
        ({"shard_size": 3}, "shard_size = 2, not 3"),
        ({"uwaga": "2"}, 'uwaga = "1", not "2"'),
    ],
)
def test_another_job_is_refused_by_key(tmp_path, text, changes, message):
    with pytest.raises(KeyboardInterrupt):
        run_job(job(tmp_path / "out", text, 1), Silent())
    before = parts(tmp_path / "out")
    if message is None:
        run_job(job(tmp_path / "out", text, **changes), Silent())
        return
    with pytest.raises(SettingsError, match=message):
        run_job(job(tmp_path / "out", text, **changes), Silent())
    assert parts(tmp_path / "out") == before


def test_another_input_is_refused_and_a_moved_one_is_not(tmp_path, text):
    with pytest.raises(KeyboardInterrupt):
        run_job(job(tmp_path / "out", text, 1), Silent())
    moved = tmp_path / "moved.gz"
    moved.write_bytes(gzip.compress(text.read_bytes()))
    run_job(job(tmp_path / "out", moved), Silent())
    text.write_text(text.read_text(encoding="utf-8").replace("x", "z"), encoding="utf-8")
    with pytest.raises(SettingsError, match=r"input\.sha256 = "):
        run_job(job(tmp_path / "out", text), Silent())


def test_an_input_that_becomes_shorter_on_the_way_is_noticed(tmp_path, text):
    asked = job(tmp_path / "out", text)
    text.write_text("a\n", encoding="utf-8")
    with pytest.raises(DataError, match="changed while it was read; run the job again"):
        run_job(asked, Silent())


def test_folders_that_are_no_jobs_are_refused(tmp_path, text):
    with pytest.raises(DataError, match="a file; --output names the folder"):
        run_job(job(text, text), Silent())
    (tmp_path / "full").mkdir()
    (tmp_path / "full/thesis.tex").write_text("")
    with pytest.raises(DataError, match=r"holds thesis\.tex and no manifest\.json; choose a new one"):
        run_job(job(tmp_path / "full", text), Silent())


@pytest.mark.parametrize("content", ["{", "[]", '{"format": 2}', '{"format": 1, "kind": "distil"}'])
def test_a_damaged_record_is_refused(tmp_path, text, content):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / MANIFEST).write_text(content)
    with pytest.raises(DataError, match=r"manifest\.json.*; delete the folder to start anew"):
        run_job(job(tmp_path / "out", text), Silent())


def test_two_processes_do_not_write_into_one_folder(tmp_path, text):
    (tmp_path / "out").mkdir()
    with (
        RunLock(tmp_path / "out"),
        pytest.raises(RunInUseError, match=r"writes shards here .*choose another folder with --output"),
    ):
        run_job(job(tmp_path / "out", text), Silent())


def test_shards_are_joined(tmp_path, text):
    manifest = run_job(job(tmp_path / "out", text), Silent())
    join_shards(tmp_path / "out", manifest, tmp_path / "all.tsv")
    join_shards(tmp_path / "out", manifest, tmp_path / "all.tsv.gz")
    assert (tmp_path / "all.tsv").read_text(encoding="utf-8").split("\n")[:-1] == written(tmp_path / "out")
    assert gzip.decompress((tmp_path / "all.tsv.gz").read_bytes()) == (tmp_path / "all.tsv").read_bytes()
    (tmp_path / "out/part-00000.tsv.gz").write_bytes(b"\x1f\x8bx")
    with pytest.raises(DataError, match=r"part-00000\.tsv\.gz: cannot be read"):
        join_shards(tmp_path / "out", manifest, tmp_path / "again.tsv")
    assert not (tmp_path / "again.tsv").exists()


@pytest.mark.parametrize(
    "place", ["text", "link", "out/manifest.json", "out/part-00000.tsv.gz", "out/new.tsv"]
)
def test_shards_are_not_joined_over_what_the_job_needs(tmp_path, text, place):
    work = job(tmp_path / "out", text)
    (tmp_path / "link").symlink_to(text)
    with pytest.raises(SettingsError, match=r"is the input|lies among the shards"):
        check_joined(work, tmp_path / place)
    with pytest.raises(DataError, match="there is no folder"):
        check_joined(work, tmp_path / "none/all.tsv")
    check_joined(work, tmp_path / "all.tsv")


@pytest.mark.parametrize("name", ["../text", "/dev/zero", "part-99999.tsv.gz"])
def test_a_record_of_other_files_is_refused(tmp_path, text, name):
    run_job(job(tmp_path / "out", text), Silent())
    values = json.loads((tmp_path / "out" / MANIFEST).read_text())
    values["shards"][name] = values["shards"]["part-00000.tsv.gz"]
    (tmp_path / "out" / MANIFEST).write_text(json.dumps(values))
    with pytest.raises(DataError, match=r"no shard of this job"):
        run_job(job(tmp_path / "out", text), Silent())


def test_a_pipe_is_no_shard(tmp_path, text):
    run_job(job(tmp_path / "out", text), Silent())
    (tmp_path / "out/part-00001.tsv.gz").unlink()
    os.mkfifo(tmp_path / "out/part-00001.tsv.gz")
    with pytest.raises(DataError, match=r"part-00001\.tsv\.gz: no regular file"):
        run_job(job(tmp_path / "out", text), Silent())


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


def test_the_record_is_plain_json(tmp_path, text):
    run_job(job(tmp_path / "out", text), Silent())
    values = json.loads((tmp_path / "out" / MANIFEST).read_text())
    assert values["settings"] == {"nbest": 4, "beam": None}
    assert values["input"]["lines"] == 7


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
    with pytest.raises(DataError, match="none: there is no line in it"):
        text_input([tmp_path / "none"]).identify()
    with pytest.raises(DataError, match="missing: no such file"):
        text_input([tmp_path / "missing"])
    with pytest.raises(DataError, match="neither a file nor a Moses prefix"):
        corpus_input(tmp_path / "missing", None, ("en", "de"))
    with pytest.raises(SettingsError, match="no file of text"):
        text_input([])
    with pytest.raises(SettingsError, match="column -1"):
        text_input([tmp_path / "one"], -1)
