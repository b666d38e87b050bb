"""Jobs over tables write each input row once, even after kills, full disks and damaged files."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from itertools import islice, pairwise
from pathlib import Path

import pytest
from command_line import run_uwaga
from table_jobs import (
    GREEDY,
    ProgressHook,
    json_rows,
    part_bytes,
    parts,
    run,
    sentences,
    text_rows,
    translate_texts,
)

from uwaga.errors import DataError, ModelError, SettingsError
from uwaga.translator import Translator
from uwaga_corpora.jobs.engine import FIRST_PART_ROWS, part_sizes
from uwaga_corpora.jobs.table_formats import Columns, TextColumn
from uwaga_corpora.jobs.translation import Task, WorkerFingerprint, WorkerLostError, worker_fingerprint
from uwaga_corpora.jobs.workers import LocalWorker, ProcessWorker, WorkerPool

EDGE_CASES = ["", "   ", "One. Two! Three? " * 3, "Open {file} now."]


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return [*sentences(24), *EDGE_CASES]


@pytest.fixture(scope="module")
def expected(texts: list[str]) -> list[str]:
    return translate_texts(texts)


def test_text_files_are_translated_line_by_line(texts, expected, tmp_path) -> None:
    folder = tmp_path / "in"
    (folder / "b").mkdir(parents=True)
    (folder / "a.txt.gz").write_bytes(gzip.compress("\n".join(texts[:13]).encode()))
    (folder / "b" / "c.txt").write_text("\r\n".join(texts[13:]) + "\r\n", encoding="utf-8")
    (folder / "_SUCCESS").touch()
    manifest = run(folder, tmp_path / "out")
    assert text_rows(tmp_path / "out") == expected
    assert [path.name for path in parts(tmp_path / "out")] == [f"part-0000{n}.txt" for n in range(4)]
    assert manifest.finished
    assert [record.rows for record in manifest.parts.values()] == [10, 3, 10, 5]
    assert sorted(path.name for path in (tmp_path / "out").iterdir())[0] == "manifest.json"


def test_json_lines_output_contains_scores_and_alignment(texts, expected, tmp_path) -> None:
    rows = [{"id": row_id, "text": text, "title": None} for row_id, text in enumerate(texts)]
    rows[3] = {"id": 3, "text": 17, "title": "A dog."}
    rows[4] = {"id": 4}
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    run(source, tmp_path / "out", columns=["text=de", "title"], score=True, alignment=True)
    rows_out = json_rows(tmp_path / "out")
    assert [
        {key: row_out[key] for key in row_in} for row_out, row_in in zip(rows_out, rows, strict=True)
    ] == rows
    for index, row in enumerate(rows_out):
        if index not in (3, 4, 24):
            assert row["de"] == expected[index]
            assert row["de_error"] is None
            assert isinstance(row["de_score"], float)
            assert row["de_alignment"].count("-") >= 1 or not row["de"].strip()
    assert (rows_out[3]["de"], rows_out[3]["de_error"]) == (None, "text holds 17, not text")
    assert rows_out[3]["title_translated"].startswith("Ein Hund")
    assert (rows_out[4]["de"], rows_out[4]["de_score"], rows_out[4]["de_error"]) == (None, None, None)
    assert (rows_out[24]["de"], rows_out[24]["de_score"]) == ("", None)


def test_parquet_output_keeps_the_input_columns(texts, expected, tmp_path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    before = arrow.table(
        {
            "when": arrow.array(range(len(texts)), arrow.timestamp("ms")),
            "text": arrow.array([None, *texts[1:]], arrow.string()).dictionary_encode(),
            "blob": [b"\xff" * length for length in range(len(texts))],
        }
    )
    parquet.write_table(before, tmp_path / "in.parquet", row_group_size=9)
    run(tmp_path / "in.parquet", tmp_path / "out", columns=["text"], count=2)
    after = arrow.concat_tables([parquet.read_table(path) for path in parts(tmp_path / "out")])
    assert after.select(before.column_names).to_pylist() == before.to_pylist()
    assert after["text_translated"].to_pylist() == [None, *expected[1:]]
    assert after["text_translated_error"].null_count == len(texts)


def test_one_megabyte_text_is_translated(tmp_path: Path) -> None:
    texts = [f"A dog.{' ' * 1_100_000}Two men.", "A dog."]
    (tmp_path / "in.txt").write_text("\n".join(texts), encoding="utf-8")
    manifest = run(tmp_path / "in.txt", tmp_path / "out")
    assert text_rows(tmp_path / "out") == translate_texts(texts)
    assert manifest.total("failed") == 0


def _run_and_kill(source: Path, target: Path, after: int) -> None:
    words = ["--part-rows", "2", "--beam", "1", "--threads", "1"]
    command = [sys.executable, "-m", "uwaga", "batch", str(source), str(target), *words]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while process.poll() is None and len(parts(target)) < after:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.mark.slow
def test_resumed_job_has_the_output_of_an_uninterrupted_one(tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text("\n".join(sentences(120)) + "\n", encoding="utf-8")
    run(source, tmp_path / "whole", part_rows=2, count=1)
    for after in (1, 9, 20):
        _run_and_kill(source, tmp_path / "out", after)
    assert 20 <= len(parts(tmp_path / "out")) < 60
    assert all(path.read_bytes() for path in parts(tmp_path / "out"))
    command = ["batch", str(source), str(tmp_path / "out"), "--part-rows", "2", "--beam", "1"]
    result = run_uwaga(*command)
    assert "rows/s after the first part" in result.output
    assert part_bytes(tmp_path / "out") == part_bytes(tmp_path / "whole")
    rerun = run_uwaga(*command)
    assert "120 rows in 60 parts" in rerun.output


def test_missing_output_parts_are_rewritten_and_changed_ones_rejected(tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text("\n".join(sentences(30)) + "\n", encoding="utf-8")
    run(source, tmp_path / "out", part_rows=5)
    before = part_bytes(tmp_path / "out")
    (tmp_path / "out/part-00001.txt").unlink()
    changed = tmp_path / "out/part-00004.txt"
    for content in ("half", before[changed.name].decode().upper()):
        changed.write_text(content, encoding="utf-8")
        with pytest.raises(DataError, match=r"part-00004\.txt: the part changed since"):
            run(source, tmp_path / "out", part_rows=5)
    changed.unlink()
    watch = ProgressHook()
    assert run(source, tmp_path / "out", part_rows=5, watch=watch).finished
    assert part_bytes(tmp_path / "out") == before
    assert (watch.before, watch.rows) == (20, 10)


@pytest.mark.slow
def test_blocks_of_a_killed_worker_are_translated_again(tmp_path: Path, monkeypatch) -> None:
    source = tmp_path / "in.txt"
    source.write_text("\n".join(sentences(60)) + "\n", encoding="utf-8")
    run(source, tmp_path / "whole", part_rows=3)
    pids = []
    load = ProcessWorker.load
    monkeypatch.setattr(ProcessWorker, "load", lambda self: (pids.append(self.pid), load(self))[1])
    kill_after = iter([9, 30])
    next_kill = [next(kill_after)]

    def kill(rows: int) -> None:
        if rows >= next_kill[0]:
            next_kill[0] = next(kill_after, 1000)
            os.kill(pids[-1], signal.SIGKILL)

    run(source, tmp_path / "out", part_rows=3, count=2, watch=ProgressHook(kill))
    assert len(pids) >= 3
    assert part_bytes(tmp_path / "out") == part_bytes(tmp_path / "whole")


class _LostWorker(LocalWorker):
    def __init__(self) -> None:
        super().__init__(GREEDY, lambda count: None)

    def load(self) -> WorkerFingerprint:
        return worker_fingerprint(GREEDY)

    def translate(self, task: Task):
        raise WorkerLostError("killed")


def test_block_that_crashes_all_workers_is_reported() -> None:
    pool = WorkerPool(_LostWorker, 2, worker_fingerprint(GREEDY))
    pool.put(Task(7, "row", [71, 80], ["a", "b"], []))
    with pytest.raises(DataError, match="5 workers were lost on rows 71 to 80 of part 7"):
        pool.get_result()
    pool.close()


@pytest.mark.parametrize(
    ("change", "message"), [("uwaga", "has uwaga 0.0.9"), ("models", "has a different model")]
)
def test_worker_with_a_different_model_or_version_is_rejected(change: str, message: str) -> None:
    fingerprint = worker_fingerprint(GREEDY)
    other = fingerprint._replace(location="node b", **{change: "0.0.9" if change == "uwaga" else ("f" * 64,)})

    class OtherWorker(_LostWorker):
        def load(self) -> WorkerFingerprint:
            return other

    pool = WorkerPool(OtherWorker, 1, fingerprint)
    with pytest.raises(ModelError, match=f"node b {message}"):
        pool.get_result()
    pool.close()


def error_of(*words: object) -> str:
    """Run a command that must fail, and return its one-line error."""
    result = run_uwaga("batch", *words, code=1)
    [line] = result.output.strip().splitlines()
    return line


def test_invalid_arguments_give_one_line_errors(tmp_path: Path) -> None:
    lines = tmp_path / "rows.jsonl"
    lines.write_text('{"id": 1, "text": "A dog.", "de": ""}\n', encoding="utf-8")
    out, folder = tmp_path / "out", tmp_path / "lake"
    folder.mkdir()
    (folder / "a.bin").touch()
    assert "no such file" in error_of(tmp_path / "missing.txt", out)
    assert "unknown format" in error_of(folder, out)
    assert "no column 'txt'; its columns: id, text, de" in error_of(lines, out, "--column", "txt")
    assert "already has a column de" in error_of(lines, out, "--column", "text=de")
    assert "choose which to translate with --column" in error_of(lines, out)
    assert "one is inside the other" in error_of(folder, folder / "out")
    assert "one is inside the other" in error_of(lines, tmp_path)
    assert "OUT must be a folder" in error_of(lines, folder / "a.bin", "--column", "text")
    assert "it holds a.bin but no manifest.json" in error_of(lines, folder, "--column", "text")
    assert "give NAME" in error_of(lines, out, "--column", "text=")
    (folder / "c.txt").touch()
    (folder / "d.jsonl").touch()
    assert "contains files of the formats jsonl and text" in error_of(folder, out)
    text = tmp_path / "a.txt"
    text.write_text("A dog.\n", encoding="utf-8")
    assert "plain text has no columns" in error_of(text, out, "--score")
    assert not out.exists()


def test_job_that_has_written_no_parts_may_be_replaced(tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text("A dog.\n\n", encoding="utf-8")
    assert "beam must be" in error_of(source, tmp_path / "out", "--beam", 0)
    run(source, tmp_path / "out")
    assert text_rows(tmp_path / "out") == [*translate_texts(["A dog."]), ""]


def test_empty_texts_have_empty_translations_and_are_counted(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text('{"text": null}\n{"text": ""}\n' * 9, encoding="utf-8")
    manifest = run(source, tmp_path / "out", columns=["text=de"])
    assert [row["de"] for row in json_rows(tmp_path / "out")] == [None, ""] * 9
    assert (manifest.total("rows"), manifest.total("empty")) == (18, 18)


def test_folder_of_another_job_is_rejected(tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text("A dog.\n", encoding="utf-8")
    run(source, tmp_path / "out")
    before = part_bytes(tmp_path / "out")
    words = ("--beam", 1, "--part-rows", 10)
    message = error_of(source, tmp_path / "out", "--beam", 2)
    assert "started with settings.beam = 1, but is now requested with 2" in message
    source.write_text("Two dogs.\n", encoding="utf-8")
    assert f"{tmp_path / 'out'}: the job was started with input" in error_of(source, tmp_path / "out", *words)
    (tmp_path / "out/manifest.json").write_text('{"kind": "distil"}', encoding="utf-8")
    assert "manifest.json: " in error_of(source, tmp_path / "out", *words)
    assert part_bytes(tmp_path / "out") == before


@pytest.mark.slow
def test_full_disk_leaves_only_complete_parts(tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    lines = [*sentences(8), *(" ".join(sentences(10)) for _ in range(8))]  # the second part is a large one
    source.write_text("\n".join(lines) + "\n", encoding="utf-8")
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
        "from uwaga.cli.main import main; main(sys.argv[1:])"
    )
    command = ["batch", str(source), str(tmp_path / "out"), "--part-rows", "8", "--beam", "1"]
    result = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True)
    assert result.returncode == 1, result.stderr
    assert "cannot be written" in result.stderr
    assert not [path for path in (tmp_path / "out").iterdir() if path.name.endswith(".part")]
    assert list(part_bytes(tmp_path / "out")) == ["part-00000.txt"]
    run(source, tmp_path / "whole", part_rows=8)
    expected = part_bytes(tmp_path / "whole")
    assert all(expected[name] == content for name, content in part_bytes(tmp_path / "out").items())
    run_uwaga(*command)
    assert part_bytes(tmp_path / "out") == expected


def test_input_changed_while_reading_is_detected(tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text("\n".join(sentences(12)) + "\n", encoding="utf-8")

    def grow(rows: int) -> None:
        if rows == 12:
            source.write_text("Another.\n", encoding="utf-8")

    with pytest.raises(DataError, match="changed while it was read"):
        run(source, tmp_path / "out", part_rows=4, watch=ProgressHook(grow))


@pytest.mark.parametrize("count", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_job_resumes_after_a_damaged_file_is_repaired(count: int | None, tmp_path: Path) -> None:
    folder, lines = tmp_path / "lake", sentences(40)
    folder.mkdir()
    for index, name in enumerate("abcd"):
        (folder / f"{name}.txt").write_text("\n".join(lines[index * 10 : index * 10 + 10]), encoding="utf-8")
    run(folder, tmp_path / "whole", part_rows=3)
    expected, repaired = part_bytes(tmp_path / "whole"), (folder / "b.txt").read_bytes()
    damaged = repaired.replace(lines[18].encode(), b"\xff" + b" A dog." * 300)
    (folder / "b.txt").write_bytes(damaged)
    with pytest.raises(DataError, match=r"b\.txt: line 9 is not UTF-8 .* same command to resume"):
        run(folder, tmp_path / "out", part_rows=3, count=count)
    parts_before_damage = part_bytes(tmp_path / "out")
    assert parts_before_damage == dict(list(expected.items())[:6])  # all blocks before the damage
    with pytest.raises(DataError, match=r"b\.txt: line 9"):
        run(folder, tmp_path / "out", part_rows=3, count=count)
    (folder / "b.txt").write_bytes(repaired)
    other = (folder / "c.txt").read_bytes()
    (folder / "c.txt").write_bytes(other + b"\nMore.")
    with pytest.raises(SettingsError, match="started with input"):
        run(folder, tmp_path / "out", part_rows=3, count=count)
    assert part_bytes(tmp_path / "out") == parts_before_damage
    (folder / "c.txt").write_bytes(other)
    watch = ProgressHook()
    assert run(folder, tmp_path / "out", part_rows=3, count=count, watch=watch).finished
    assert (watch.before, watch.rows) == (10, 30)
    assert part_bytes(tmp_path / "out") == expected


def test_job_resumes_after_a_repaired_file_has_fewer_rows(tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    folder.mkdir()
    (folder / "a.txt").write_text("A dog.\n" * 4, encoding="utf-8")
    (folder / "b.txt").write_bytes(b"Two men.\n" * 8 + b"\xff\n")
    with pytest.raises(DataError, match=r"b\.txt: line 9"):
        run(folder, tmp_path / "out", part_rows=2)
    assert len(parts(tmp_path / "out")) == 6
    (folder / "b.txt").write_text("Two men.\n" * 3, encoding="utf-8")
    manifest = run(folder, tmp_path / "out", part_rows=2)
    assert [path.name for path in parts(tmp_path / "out")] == list(manifest.parts)
    assert text_rows(tmp_path / "out") == translate_texts(["A dog."] * 4 + ["Two men."] * 3)


def test_job_resumes_after_a_damaged_file_is_removed(tmp_path: Path) -> None:
    folder, lines = tmp_path / "lake", sentences(12)
    folder.mkdir()
    for index, name in enumerate("abc"):
        (folder / f"{name}.txt").write_text("\n".join(lines[index * 4 : index * 4 + 4]), encoding="utf-8")
    (folder / "b.txt").write_bytes(b"A dog.\nTwo men.\n\xff\n")
    with pytest.raises(DataError, match=r"b\.txt: line 3 .* remove the file"):
        run(folder, tmp_path / "out", part_rows=2)
    (folder / "b.txt").unlink()
    watch = ProgressHook()
    assert run(folder, tmp_path / "out", part_rows=2, watch=watch).finished
    assert (watch.before, watch.rows) == (4, 4)
    assert text_rows(tmp_path / "out") == translate_texts([*lines[:4], *lines[8:]])


def test_skipped_lines_and_files_are_reported(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("uwaga_corpora.jobs.table_formats.MAX_ROW_BYTES", 200)
    folder, lines = tmp_path / "lake", sentences(3)
    folder.mkdir()
    rows = [json.dumps({"text": text}).encode() for text in lines]
    (folder / "a.jsonl").write_bytes(b"\n".join([b"{", rows[0], b"[1]", b"\xff", b"0" * 999, rows[1], b""]))
    empty = json.dumps({"text": "", "more": "." * 99}).encode() + b"\n"
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(empty * 5000, 0)[:-999])
    (folder / "c.jsonl").write_bytes(rows[2])
    with pytest.raises(DataError, match=r"a\.jsonl: line 1 is not JSON"):
        run(folder, tmp_path / "out", columns=["text=de"])
    command = ["batch", str(folder), str(tmp_path / "out"), "-c", "text=de", "--on-error", "skip"]
    command += ["--beam", "1", "--threads", "1", "--part-rows", "500", "--model", "bundled"]
    result = run_uwaga(*command)
    rows_out, expected = json_rows(tmp_path / "out"), translate_texts(lines)
    texts = [None, expected[0], None, None, None, expected[1], *[""] * (len(rows_out) - 7), expected[2]]
    assert [row["de"] for row in rows_out] == texts and 3000 < len(rows_out) < 5000
    reasons = {0: "not JSON", 2: "not a JSON object", 3: "not UTF-8", 4: "longer than"}
    for row, reason in reasons.items():
        assert reason in rows_out[row]["de_error"] and f"a.jsonl: line {row + 1} " in result.output
    assert "4 failed, 1 damaged file" in result.output and "the rest of a file was skipped" in result.output
    [skipped] = json.loads((tmp_path / "out/manifest.json").read_text())["skipped"]
    assert skipped["name"] == "b.jsonl.gz" and f"after line {len(rows_out) - 7} " in skipped["reason"]
    all_parts = part_bytes(tmp_path / "out")
    for name in list(all_parts)[4:]:
        (tmp_path / "out" / name).unlink()
    assert run(folder, tmp_path / "out", columns=["text=de"], part_rows=500, skip=True).skipped
    assert part_bytes(tmp_path / "out") == all_parts


def test_concurrent_run_of_the_same_job_is_rejected(tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text("A dog.\n", encoding="utf-8")
    from uwaga.errors import RunInUseError

    def run_again(rows: int) -> None:
        with pytest.raises(RunInUseError, match="writing parts here"):
            run(source, tmp_path / "out")

    run(source, tmp_path / "out", watch=ProgressHook(run_again))


def test_duplicate_column_names_are_rejected() -> None:
    with pytest.raises(SettingsError, match="two new columns would be named x"):
        Columns((TextColumn("a", "x"), TextColumn("b", "x"))).names()


@pytest.mark.slow
def test_ray_and_torch_are_not_imported() -> None:
    code = (
        "import sys, uwaga, uwaga_corpora.cli.batch, uwaga_corpora.jobs.workers, uwaga_corpora.jobs.table\n"
        "uwaga.load().translate('A dog.')\nassert 'ray' not in sys.modules and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_part_size_grows_from_a_small_first_part():
    sizes = list(islice(part_sizes(0, 10_000), 8))
    assert sizes[0] == FIRST_PART_ROWS <= 500 and sizes[-1] == 10_000
    assert all(right == min(2 * left, 10_000) for left, right in pairwise(sizes))
    assert list(islice(part_sizes(3, 10_000), 3)) == sizes[3:6]
    assert next(part_sizes(10**9, 7)) == 7


def test_job_with_growing_parts_resumes_at_the_next_part(texts, expected, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("uwaga_corpora.jobs.engine.FIRST_PART_ROWS", 2)
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.txt").write_text("\n".join(texts[:13]))
    (folder / "b.txt").write_text("\n".join(texts[13:]))
    manifest = run(folder, tmp_path / "out")
    assert text_rows(tmp_path / "out") == expected
    assert [part.rows for part in manifest.parts.values()] == [2, 4, 7, 10, 5]
    for kept in range(len(manifest.parts)):
        record = manifest.model_copy(
            update={"finished": False, "parts": dict(list(manifest.parts.items())[:kept])}
        )
        (tmp_path / "out" / "manifest.json").write_text(record.model_dump_json())
        before = part_bytes(tmp_path / "out")
        for path in parts(tmp_path / "out")[kept:]:
            path.unlink()
        assert run(folder, tmp_path / "out").parts == manifest.parts
        assert part_bytes(tmp_path / "out") == before


def test_rows_with_truncated_translations_are_reported(texts: list[str], tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("\n".join(texts))
    options = ["--beam", "1", "--max-length", "4", "--workers", "1", "--part-rows", "10"]
    result = run_uwaga("batch", tmp_path / "in.txt", tmp_path / "out", *options)
    translations = Translator.load(threads=1).translate(texts, beam=1, max_length=4)
    cut = [number for number, translation in enumerate(translations, start=1) if translation.truncated]
    assert len(cut) > 20
    listed = ", ".join(map(str, cut[:20]))
    assert f"{len(cut)} cut at the length limit (rows {listed}, …; manifest.json lists them)" in result.output
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert [row for part in manifest["parts"].values() for row in part["cut_rows"]] == cut
