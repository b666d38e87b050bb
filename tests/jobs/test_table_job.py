"""Every row that goes in comes out once, whatever happens on the way."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from table_jobs import GREEDY, Watch, bytes_out, json_out, parts, run, sentences, text_out, translated
from typer.testing import CliRunner

from uwaga.cli.main import app
from uwaga.errors import DataError, ModelError, SettingsError
from uwaga.jobs.table_formats import Columns, TextColumn
from uwaga.jobs.translation import Task, WorkerFingerprint, WorkerLostError, worker_fingerprint
from uwaga.jobs.workers import LocalWorker, ProcessWorker, WorkerPool

MORE = ["", "   ", "One. Two! Three? " * 3, "Open {file} now."]


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return [*sentences(24), *MORE]


@pytest.fixture(scope="module")
def expected(texts: list[str]) -> list[str]:
    return translated(texts)


def test_texts_become_what_translate_makes_of_them_line_for_line(
    texts: list[str], expected: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    (folder / "b").mkdir(parents=True)
    (folder / "a.txt.gz").write_bytes(gzip.compress("\n".join(texts[:13]).encode()))
    (folder / "b" / "c.txt").write_text("\r\n".join(texts[13:]) + "\r\n", encoding="utf-8")
    (folder / "_SUCCESS").touch()
    manifest = run(folder, tmp_path / "out")
    assert text_out(tmp_path / "out") == expected
    assert [one.name for one in parts(tmp_path / "out")] == [f"part-0000{n}.txt" for n in range(4)]
    assert manifest.finished
    assert [one.rows for one in manifest.parts.values()] == [10, 3, 10, 5]
    assert sorted(one.name for one in (tmp_path / "out").iterdir())[0] == "manifest.json"


def test_json_lines_become_the_same_with_scores_and_links(
    texts: list[str], expected: list[str], tmp_path: Path
) -> None:
    rows = [{"id": at, "text": text, "title": None} for at, text in enumerate(texts)]
    rows[3] = {"id": 3, "text": 17, "title": "A dog."}
    rows[4] = {"id": 4}
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    run(source, tmp_path / "out", columns=["text=de", "title"], score=True, alignment=True)
    made = json_out(tmp_path / "out")
    assert [{key: row[key] for key in before} for row, before in zip(made, rows, strict=True)] == rows
    for at, row in enumerate(made):
        if at not in (3, 4, 24):
            assert row["de"] == expected[at]
            assert row["de_error"] is None
            assert isinstance(row["de_score"], float)
            assert row["de_alignment"].count("-") >= 1 or not row["de"].strip()
    assert (made[3]["de"], made[3]["de_error"]) == (None, "text holds 17, not text")
    assert made[3]["title_translated"].startswith("Ein Hund")
    assert (made[4]["de"], made[4]["de_score"], made[4]["de_error"]) == (None, None, None)
    assert (made[24]["de"], made[24]["de_score"]) == ("", None)


def test_parquet_becomes_the_same_and_keeps_its_columns(
    texts: list[str], expected: list[str], tmp_path: Path
) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    before = arrow.table(
        {
            "when": arrow.array(range(len(texts)), arrow.timestamp("ms")),
            "text": arrow.array([None, *texts[1:]], arrow.string()).dictionary_encode(),
            "blob": [b"\xff" * at for at in range(len(texts))],
        }
    )
    parquet.write_table(before, tmp_path / "in.parquet", row_group_size=9)
    run(tmp_path / "in.parquet", tmp_path / "out", columns=["text"], count=2)
    after = arrow.concat_tables([parquet.read_table(one) for one in parts(tmp_path / "out")])
    assert after.select(before.column_names).to_pylist() == before.to_pylist()
    assert after["text_translated"].to_pylist() == [None, *expected[1:]]
    assert after["text_translated_error"].null_count == len(texts)


def test_a_megabyte_is_translated_like_any_text(tmp_path: Path) -> None:
    texts = [f"A dog.{' ' * 1_100_000}Two men.", "A dog."]
    (tmp_path / "in.txt").write_text("\n".join(texts), encoding="utf-8")
    manifest = run(tmp_path / "in.txt", tmp_path / "out")
    assert text_out(tmp_path / "out") == translated(texts)
    assert manifest.total("failed") == 0


def _killed(source: Path, target: Path, after: int) -> None:
    words = ["--part-rows", "2", "--beam", "1", "--threads", "1"]
    command = [sys.executable, "-m", "uwaga", "batch", str(source), str(target), *words]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while process.poll() is None and len(parts(target)) < after:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.mark.slow
def test_a_job_that_is_killed_goes_on_and_ends_with_the_same_bytes(tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text("\n".join(sentences(120)) + "\n", encoding="utf-8")
    run(source, tmp_path / "whole", part_rows=2, count=1)
    for after in (1, 9, 20):
        _killed(source, tmp_path / "out", after)
    assert 20 <= len(parts(tmp_path / "out")) < 60
    assert all(one.read_bytes() for one in parts(tmp_path / "out"))
    command = ["batch", str(source), str(tmp_path / "out"), "--part-rows", "2", "--beam", "1"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "rows/s after the first part" in done.output
    assert bytes_out(tmp_path / "out") == bytes_out(tmp_path / "whole")
    again = CliRunner().invoke(app, command)
    assert "120 rows in 60 parts" in again.output


def test_missing_parts_are_written_again_and_changed_ones_refused(tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text("\n".join(sentences(30)) + "\n", encoding="utf-8")
    run(source, tmp_path / "out", part_rows=5)
    before = bytes_out(tmp_path / "out")
    (tmp_path / "out/part-00001.txt").unlink()
    changed = tmp_path / "out/part-00004.txt"
    for content in ("half", before[changed.name].decode().upper()):
        changed.write_text(content, encoding="utf-8")
        with pytest.raises(DataError, match=r"part-00004\.txt: changed since"):
            run(source, tmp_path / "out", part_rows=5)
    changed.unlink()
    watch = Watch()
    assert run(source, tmp_path / "out", part_rows=5, watch=watch).finished
    assert bytes_out(tmp_path / "out") == before
    assert (watch.before, watch.rows) == (20, 10)


def test_blocks_of_a_worker_that_is_killed_are_done_again(tmp_path: Path, monkeypatch) -> None:
    source = tmp_path / "in.txt"
    source.write_text("\n".join(sentences(60)) + "\n", encoding="utf-8")
    run(source, tmp_path / "whole", part_rows=3)
    begun = []
    begin = ProcessWorker.begin
    monkeypatch.setattr(ProcessWorker, "begin", lambda self: (begun.append(self.pid), begin(self))[1])
    victims = iter([9, 30])
    next_ = [next(victims)]

    def kill(rows: int) -> None:
        if rows >= next_[0]:
            next_[0] = next(victims, 1000)
            os.kill(begun[-1], signal.SIGKILL)

    run(source, tmp_path / "out", part_rows=3, count=2, watch=Watch(kill))
    assert len(begun) >= 3
    assert bytes_out(tmp_path / "out") == bytes_out(tmp_path / "whole")


class _Lost(LocalWorker):
    def __init__(self) -> None:
        super().__init__(GREEDY, lambda count: None)

    def begin(self) -> WorkerFingerprint:
        return worker_fingerprint(GREEDY)

    def translate(self, task: Task):
        raise WorkerLostError("killed")


def test_a_block_that_ends_every_worker_is_named() -> None:
    pool = WorkerPool(_Lost, 2, worker_fingerprint(GREEDY))
    pool.put(Task(7, "row", [71, 80], ["a", "b"], []))
    with pytest.raises(DataError, match="5 workers were lost on the rows 71 to 80 of part 7"):
        pool.take()
    pool.close()


@pytest.mark.parametrize(
    ("change", "why"), [("uwaga", "has uwaga 0.0.9"), ("models", "has a different model")]
)
def test_a_worker_that_differs_is_refused(change: str, why: str) -> None:
    own = worker_fingerprint(GREEDY)
    other = own._replace(location="node b", **{change: "0.0.9" if change == "uwaga" else ("f" * 64,)})

    class Other(_Lost):
        def begin(self) -> WorkerFingerprint:
            return other

    pool = WorkerPool(Other, 1, own)
    with pytest.raises(ModelError, match=f"node b {why}"):
        pool.take()
    pool.close()


def refused(*words: object) -> str:
    """What the command says, in one line, when it refuses."""
    done = CliRunner().invoke(app, ["batch", *map(str, words)])
    assert done.exit_code == 1, done.output
    [line] = done.output.strip().splitlines()
    return line


def test_what_cannot_be_is_refused_in_a_line(tmp_path: Path) -> None:
    lines = tmp_path / "rows.jsonl"
    lines.write_text('{"id": 1, "text": "A dog.", "de": ""}\n', encoding="utf-8")
    out, lake = tmp_path / "out", tmp_path / "lake"
    lake.mkdir()
    (lake / "a.bin").touch()
    assert "no such file" in refused(tmp_path / "missing.txt", out)
    assert "unknown format" in refused(lake, out)
    assert "no column 'txt'; its columns: id, text, de" in refused(lines, out, "--column", "txt")
    assert "already has a column de" in refused(lines, out, "--column", "text=de")
    assert "choose which to translate with --column" in refused(lines, out)
    assert "one is inside the other" in refused(lake, lake / "out")
    assert "one is inside the other" in refused(lines, tmp_path)
    assert "OUT is the folder" in refused(lines, lake / "a.bin", "--column", "text")
    assert "it holds a.bin but no manifest.json" in refused(lines, lake, "--column", "text")
    assert "give NAME" in refused(lines, out, "--column", "text=")
    (lake / "c.txt").touch()
    (lake / "d.jsonl").touch()
    assert "holds files of jsonl and text" in refused(lake, out)
    text = tmp_path / "a.txt"
    text.write_text("A dog.\n", encoding="utf-8")
    assert "plain text has no columns" in refused(text, out, "--score")
    assert not out.exists()


def test_a_job_that_ended_before_its_first_part_binds_nobody(tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text("A dog.\n\n", encoding="utf-8")
    assert "beam must be" in refused(source, tmp_path / "out", "--beam", 0)
    run(source, tmp_path / "out")
    assert text_out(tmp_path / "out") == [*translated(["A dog."]), ""]


def test_rows_without_anything_to_translate_need_no_worker(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text('{"text": null}\n{"text": ""}\n' * 9, encoding="utf-8")
    manifest = run(source, tmp_path / "out", columns=["text=de"])
    assert [row["de"] for row in json_out(tmp_path / "out")] == [None, ""] * 9
    assert (manifest.total("rows"), manifest.total("empty")) == (18, 18)


def test_a_folder_of_another_job_is_refused_by_name(tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text("A dog.\n", encoding="utf-8")
    run(source, tmp_path / "out")
    before = bytes_out(tmp_path / "out")
    words = ("--beam", 1, "--part-rows", 10)
    message = refused(source, tmp_path / "out", "--beam", 2)
    assert "started with settings.beam = 1, and is now asked for with 2" in message
    source.write_text("Two dogs.\n", encoding="utf-8")
    assert f"{tmp_path / 'out'}: was started with input" in refused(source, tmp_path / "out", *words)
    (tmp_path / "out/manifest.json").write_text('{"kind": "distil"}', encoding="utf-8")
    assert "manifest.json: " in refused(source, tmp_path / "out", *words)
    assert bytes_out(tmp_path / "out") == before


def test_a_full_disk_leaves_no_half_part(tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    lines = [*sentences(8), *(" ".join(sentences(10)) for _ in range(8))]  # the second part is a large one
    source.write_text("\n".join(lines) + "\n", encoding="utf-8")
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
        "from uwaga.cli.main import main; main(sys.argv[1:])"
    )
    command = ["batch", str(source), str(tmp_path / "out"), "--part-rows", "8", "--beam", "1"]
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "cannot be written" in done.stderr
    assert not [one for one in (tmp_path / "out").iterdir() if one.name.endswith(".part")]
    assert list(bytes_out(tmp_path / "out")) == ["part-00000.txt"]
    run(source, tmp_path / "whole", part_rows=8)
    whole = bytes_out(tmp_path / "whole")
    assert all(whole[name] == content for name, content in bytes_out(tmp_path / "out").items())
    assert CliRunner().invoke(app, command).exit_code == 0
    assert bytes_out(tmp_path / "out") == whole


def test_an_input_that_changes_on_the_way_is_noticed(tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text("\n".join(sentences(12)) + "\n", encoding="utf-8")

    def grow(rows: int) -> None:
        if rows == 12:
            source.write_text("Another.\n", encoding="utf-8")

    with pytest.raises(DataError, match="changed while it was read"):
        run(source, tmp_path / "out", part_rows=4, watch=Watch(grow))


@pytest.mark.parametrize("count", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_a_file_that_is_mended_is_gone_on_with(count: int | None, tmp_path: Path) -> None:
    lake, lines = tmp_path / "lake", sentences(40)
    lake.mkdir()
    for at, name in enumerate("abcd"):
        (lake / f"{name}.txt").write_text("\n".join(lines[at * 10 : at * 10 + 10]), encoding="utf-8")
    run(lake, tmp_path / "whole", part_rows=3)
    whole, good = bytes_out(tmp_path / "whole"), (lake / "b.txt").read_bytes()
    spoilt = good.replace(lines[18].encode(), b"\xff" + b" A dog." * 300)
    (lake / "b.txt").write_bytes(spoilt)
    with pytest.raises(DataError, match=r"b\.txt: line 9 is not UTF-8 .* same command to resume"):
        run(lake, tmp_path / "out", part_rows=3, count=count)
    made = bytes_out(tmp_path / "out")
    assert made == dict(list(whole.items())[:6])  # all blocks before the damage
    with pytest.raises(DataError, match=r"b\.txt: line 9"):
        run(lake, tmp_path / "out", part_rows=3, count=count)
    (lake / "b.txt").write_bytes(good)
    other = (lake / "c.txt").read_bytes()
    (lake / "c.txt").write_bytes(other + b"\nMore.")
    with pytest.raises(SettingsError, match="started with input"):
        run(lake, tmp_path / "out", part_rows=3, count=count)
    assert bytes_out(tmp_path / "out") == made
    (lake / "c.txt").write_bytes(other)
    watch = Watch()
    assert run(lake, tmp_path / "out", part_rows=3, count=count, watch=watch).finished
    assert (watch.before, watch.rows) == (10, 30)
    assert bytes_out(tmp_path / "out") == whole


def test_a_mended_file_may_have_fewer_rows(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    (lake / "a.txt").write_text("A dog.\n" * 4, encoding="utf-8")
    (lake / "b.txt").write_bytes(b"Two men.\n" * 8 + b"\xff\n")
    with pytest.raises(DataError, match=r"b\.txt: line 9"):
        run(lake, tmp_path / "out", part_rows=2)
    assert len(parts(tmp_path / "out")) == 6
    (lake / "b.txt").write_text("Two men.\n" * 3, encoding="utf-8")
    manifest = run(lake, tmp_path / "out", part_rows=2)
    assert [one.name for one in parts(tmp_path / "out")] == list(manifest.parts)
    assert text_out(tmp_path / "out") == translated(["A dog."] * 4 + ["Two men."] * 3)


def test_a_damaged_file_may_be_taken_out_of_a_job(tmp_path: Path) -> None:
    lake, lines = tmp_path / "lake", sentences(12)
    lake.mkdir()
    for at, name in enumerate("abc"):
        (lake / f"{name}.txt").write_text("\n".join(lines[at * 4 : at * 4 + 4]), encoding="utf-8")
    (lake / "b.txt").write_bytes(b"A dog.\nTwo men.\n\xff\n")
    with pytest.raises(DataError, match=r"b\.txt: line 3 .* remove the file"):
        run(lake, tmp_path / "out", part_rows=2)
    (lake / "b.txt").unlink()
    watch = Watch()
    assert run(lake, tmp_path / "out", part_rows=2, watch=watch).finished
    assert (watch.before, watch.rows) == (4, 4)
    assert text_out(tmp_path / "out") == translated([*lines[:4], *lines[8:]])


def test_bad_lines_and_files_are_skipped_and_reported(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("uwaga.jobs.table_formats.LONGEST_ROW", 200)
    lake, lines = tmp_path / "lake", sentences(3)
    lake.mkdir()
    rows = [json.dumps({"text": text}).encode() for text in lines]
    (lake / "a.jsonl").write_bytes(b"\n".join([b"{", rows[0], b"[1]", b"\xff", b"0" * 999, rows[1], b""]))
    empty = json.dumps({"text": "", "more": "." * 99}).encode() + b"\n"
    (lake / "b.jsonl.gz").write_bytes(gzip.compress(empty * 5000, 0)[:-999])
    (lake / "c.jsonl").write_bytes(rows[2])
    with pytest.raises(DataError, match=r"a\.jsonl: line 1 is not JSON"):
        run(lake, tmp_path / "out", columns=["text=de"])
    command = ["batch", str(lake), str(tmp_path / "out"), "-c", "text=de", "--on-error", "skip"]
    command += ["--beam", "1", "--threads", "1", "--part-rows", "500", "--model", "bundled"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    made, expected = json_out(tmp_path / "out"), translated(lines)
    texts = [None, expected[0], None, None, None, expected[1], *[""] * (len(made) - 7), expected[2]]
    assert [row["de"] for row in made] == texts and 3000 < len(made) < 5000
    reasons = {0: "not JSON", 2: "not a JSON object", 3: "not UTF-8", 4: "longer than"}
    for row, reason in reasons.items():
        assert reason in made[row]["de_error"] and f"a.jsonl: line {row + 1} " in done.output
    assert "4 failed, 1 damaged file" in done.output and "skipped from there on" in done.output
    [skipped] = json.loads((tmp_path / "out/manifest.json").read_text())["skipped"]
    assert skipped["name"] == "b.jsonl.gz" and f"after line {len(made) - 7} " in skipped["reason"]
    whole = bytes_out(tmp_path / "out")
    for name in list(whole)[4:]:
        (tmp_path / "out" / name).unlink()
    assert run(lake, tmp_path / "out", columns=["text=de"], part_rows=500, skip=True).skipped
    assert bytes_out(tmp_path / "out") == whole


def test_one_process_at_a_time_writes(tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text("A dog.\n", encoding="utf-8")
    from uwaga.errors import RunInUseError

    def second(rows: int) -> None:
        with pytest.raises(RunInUseError, match="writes parts here"):
            run(source, tmp_path / "out")

    run(source, tmp_path / "out", watch=Watch(second))


def test_column_names_are_checked() -> None:
    with pytest.raises(SettingsError, match="two new columns would be named x"):
        Columns((TextColumn("a", "x"), TextColumn("b", "x"))).names()


def test_ray_is_imported_by_nobody_else() -> None:
    code = (
        "import sys, uwaga, uwaga.cli.batch, uwaga.jobs.workers, uwaga.jobs.table\n"
        "uwaga.load().translate('A dog.')\nassert 'ray' not in sys.modules and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
