"""Rows are cut into blocks by what they hold themselves, so that reading may begin at any of them."""

from __future__ import annotations

import gzip
import io
import json
import os
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uwaga.errors import DataError
from uwaga.jobs import translation
from uwaga.jobs.table_formats import FORMATS, BlockLimit, Columns, SourceFile, TextColumn
from uwaga.jobs.translation import TranslatedText

TEXT = Columns((TextColumn("line", "translation"),))
ROWS = Columns((TextColumn("text", "de"),), score=True)


def blocks(sizes: list[int], rows: int, size: int) -> list[list[int]]:
    limit, found, open_ = BlockLimit(rows, size), [], []
    for one in sizes:
        open_.append(one)
        if limit.ends_after(one):
            found.append(open_)
            open_ = []
    return [*found, open_] if open_ else found


@given(st.lists(st.integers(0, 50), max_size=60), st.integers(1, 9), st.integers(1, 120))
def test_blocks_part_the_rows_and_each_ends_as_soon_as_it_is_full(
    sizes: list[int], rows: int, size: int
) -> None:
    found = blocks(sizes, rows, size)
    assert [one for block in found for one in block] == sizes
    for block in found:
        assert len(block) <= rows
        assert sum(block[:-1]) < size
    assert all(len(block) == rows or sum(block) >= size for block in found[:-1])


@given(st.lists(st.integers(0, 50), max_size=60), st.integers(1, 9), st.integers(1, 120), st.data())
def test_from_any_block_on_the_blocks_are_the_same(sizes: list[int], rows: int, size: int, data) -> None:
    found = blocks(sizes, rows, size)
    at = data.draw(st.integers(0, len(found)))
    assert blocks([one for block in found[at:] for one in block], rows, size) == found[at:]


def written(folder: Path, kind: str, texts: list[str | None]) -> SourceFile:
    path = folder / "rows"
    if kind == "text":
        path.write_bytes("".join(f"{text or ''}\n" for text in texts).encode())
    elif kind == "jsonl":
        path.write_bytes(
            "".join(json.dumps({"id": at, "text": text}) + "\n" for at, text in enumerate(texts)).encode()
        )
    else:
        arrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        table = arrow.table({"id": range(len(texts)), "text": arrow.array(texts, arrow.string())})
        parquet.write_table(table, path, row_group_size=7)
    return SourceFile("rows", path.stat().st_size, lambda: path.open("rb"))


@pytest.mark.parametrize("kind", ["text", "jsonl", "parquet"])
def test_a_file_read_from_any_block_on_gives_the_same_blocks(kind: str, tmp_path: Path) -> None:
    texts: list[str | None] = [f"{'word ' * (at * 7 % 23)}{at}" for at in range(40)]
    texts[5] = None if kind != "text" else ""
    file, columns = written(tmp_path, kind, texts), TEXT if kind == "text" else ROWS
    reader = FORMATS[kind]()
    whole = list(reader.read(file, columns, 0, BlockLimit(6, 250)))
    assert [text for rows in whole for text in rows.texts[0]] == texts
    assert len({rows.count for rows in whole}) > 1  # some end by their bytes
    cells = [[TranslatedText("x", 0.5)] * rows.count for rows in whole]
    shares = [rows.share for rows in whole]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0, abs=0.2)
    for at, begin in enumerate(whole):
        rest = list(reader.read(file, columns, begin.first, BlockLimit(6, 250)))
        assert [(one.first, one.count) for one in rest] == [(one.first, one.count) for one in whole[at:]]
        assert reader.write(rest[0], columns, [cells[at]]) == reader.write(begin, columns, [cells[at]])


class Counting(io.FileIO):
    """A file that counts the bytes that are read of it."""

    count = 0

    def readinto(self, buffer) -> int:
        size = super().readinto(buffer)
        Counting.count += size
        return size


def test_of_a_row_group_of_long_texts_no_more_is_read_than_a_block_needs(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    texts = [os.urandom(100_000).hex() for _ in range(100)]
    path = tmp_path / "rows"
    how = {"compression": None, "use_dictionary": False, "write_batch_size": 1}  # pages of a few rows
    parquet.write_table(arrow.table({"text": texts}), path, **how)
    size = path.stat().st_size
    file = SourceFile("rows", size, lambda: io.BufferedReader(Counting(str(path))))
    blocks = FORMATS["parquet"]().read(file, ROWS, 0, BlockLimit(10_000, 500_000))
    Counting.count = 0
    first = next(iter(blocks))
    assert first.texts[0] == texts[: first.count]
    assert Counting.count < size / 2
    blocks.close()


@given(st.lists(st.integers(1, 60), max_size=40), st.integers(1, 7), st.integers(1, 100))
def test_windows_part_the_texts_and_are_small_unless_a_text_is_not(
    sizes: list[int], most: int, letters: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(translation, "WINDOW_CHARACTERS", letters)
        found = list(translation.windows(sizes, sizes, most))
    assert [size for window in found for size in window] == sizes
    assert all(len(one) == 1 or (len(one) <= most and sum(one) <= letters) for one in found)


def test_a_line_of_json_keeps_what_it_held_as_it_was_written(tmp_path: Path) -> None:
    lines = ['{"text": "a", "n": 1.50, "n": 2}', "", "{ }", '{"text":null ,"deep":{"a":[1,2]} } ']
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(lines) + "\r\n", encoding="utf-8")
    reader = FORMATS["jsonl"]()
    file = SourceFile("rows", path.stat().st_size, lambda: path.open("rb"))
    [rows] = reader.read(file, ROWS, 0, BlockLimit(10, 1000))
    made = (
        reader.write(
            rows,
            ROWS,
            [[TranslatedText("ä", -0.5), TranslatedText(None), TranslatedText(None), TranslatedText(None)]],
        )
        .decode()
        .split("\n")
    )
    assert made[0] == '{"text": "a", "n": 1.50, "n": 2, "de": "ä", "de_score": -0.5, "de_error": null}'
    assert made[1] == ""
    assert json.loads(made[2]) == {"de": None, "de_score": None, "de_error": None}
    assert made[3].startswith('{"text":null ,"deep":{"a":[1,2]}, "de": null')


def test_a_long_row_of_json_is_copied_few_times(tmp_path: Path) -> None:
    path, size = tmp_path / "rows", 4_000_000
    path.write_text(json.dumps({"more": "x" * size, "text": "a"}) + "\n")
    file = SourceFile("rows", path.stat().st_size, lambda: path.open("rb"))
    reader = FORMATS["jsonl"]()
    tracemalloc.start()
    for rows in reader.read(file, ROWS, 0, BlockLimit(10, size)):
        made = reader.write(rows, ROWS, [[TranslatedText("b", -0.5)]])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert json.loads(made)["de"] == "b" and peak < 3.5 * size


@pytest.mark.parametrize(
    ("content", "kind", "why"),
    [
        (b"a\xff\n", "text", "line 1 is not UTF-8 at byte 2"),
        (b'{"text": "a"}\n{"text": \n', "jsonl", "line 2 is not JSON"),
        (b"[1]\n", "jsonl", "line 1 is not a JSON object"),
        (gzip.compress(b"a line\n" * 999)[:-9], "text", "truncated or damaged"),
        (b"PAR1 and no more", "parquet", "not a Parquet file"),
    ],
    ids=["utf-8", "json", "object", "gzip", "parquet"],
)
def test_damage_is_named(content: bytes, kind: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_bytes(content)
    file = SourceFile("rows", len(content), lambda: path.open("rb"))
    with pytest.raises(DataError, match=why):
        list(FORMATS[kind]().read(file, TEXT if kind == "text" else ROWS, 0, BlockLimit(5, 100)))
