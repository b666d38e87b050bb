"""Table formats: blocks are read from any starting row, content is unchanged, damage is reported."""

import gzip
import io
import json
import os
import tracemalloc
from itertools import repeat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uwaga.errors import DataError
from uwaga_corpora.jobs import translation
from uwaga_corpora.jobs.table_formats import TABLE_FORMATS, BlockLimit, Columns, SourceFile, TextColumn
from uwaga_corpora.jobs.translation import TranslatedText

TEXT = Columns((TextColumn("line", "translation"),))
ROWS = Columns((TextColumn("text", "de"),), score=True)


def blocks(sizes: list[int], rows: int, size: int) -> list[list[int]]:
    limit, full_blocks, block = BlockLimit(repeat(rows), size), [], []
    for row_size in sizes:
        block.append(row_size)
        if limit.ends_after(row_size):
            full_blocks.append(block)
            block = []
    return [*full_blocks, block] if block else full_blocks


@given(st.lists(st.integers(0, 50), max_size=60), st.integers(1, 9), st.integers(1, 120))
def test_blocks_end_at_the_first_row_that_fills_them(sizes: list[int], rows: int, size: int) -> None:
    block_sizes = blocks(sizes, rows, size)
    assert [row_size for block in block_sizes for row_size in block] == sizes
    for block in block_sizes:
        assert len(block) <= rows
        assert sum(block[:-1]) < size
    assert all(len(block) == rows or sum(block) >= size for block in block_sizes[:-1])


@given(st.lists(st.integers(0, 50), max_size=60), st.integers(1, 9), st.integers(1, 120), st.data())
def test_blocks_are_the_same_whichever_block_is_read_first(sizes, rows, size, data) -> None:
    block_sizes = blocks(sizes, rows, size)
    start = data.draw(st.integers(0, len(block_sizes)))
    assert (
        blocks([row_size for block in block_sizes[start:] for row_size in block], rows, size)
        == block_sizes[start:]
    )


def write_rows(folder: Path, kind: str, texts: list[str | None]) -> SourceFile:
    path = folder / "rows"
    if kind == "text":
        path.write_bytes("".join(f"{text or ''}\n" for text in texts).encode())
    elif kind == "jsonl":
        path.write_bytes(
            "".join(
                json.dumps({"id": row_id, "text": text}) + "\n" for row_id, text in enumerate(texts)
            ).encode()
        )
    else:
        arrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        table = arrow.table({"id": range(len(texts)), "text": arrow.array(texts, arrow.string())})
        parquet.write_table(table, path, row_group_size=7)
    return SourceFile("rows", path.stat().st_size, lambda: path.open("rb"))


@pytest.mark.parametrize("kind", ["text", "jsonl", "parquet"])
def test_rows_can_be_read_from_any_block(kind: str, tmp_path: Path) -> None:
    texts: list[str | None] = [f"{'word ' * (i * 7 % 23)}{i}" for i in range(40)]
    texts[5] = None if kind != "text" else ""
    file, columns = write_rows(tmp_path, kind, texts), TEXT if kind == "text" else ROWS
    reader = TABLE_FORMATS[kind]()
    all_blocks = list(reader.read(file, columns, 0, BlockLimit(repeat(6), 250)))
    assert [text for rows in all_blocks for text in rows.texts[0]] == texts
    assert len({rows.count for rows in all_blocks}) > 1  # some end by their bytes
    cells = [[TranslatedText("x", 0.5)] * rows.count for rows in all_blocks]
    shares = [rows.share for rows in all_blocks]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0, abs=0.2)
    for index, block in enumerate(all_blocks):
        remaining = list(reader.read(file, columns, block.first, BlockLimit(repeat(6), 250)))
        assert [(rows.first, rows.count) for rows in remaining] == [
            (rows.first, rows.count) for rows in all_blocks[index:]
        ]
        assert reader.write(remaining[0], columns, [cells[index]]) == reader.write(
            block, columns, [cells[index]]
        )


class CountingFile(io.FileIO):
    """A file that counts the bytes read from it."""

    count = 0

    def readinto(self, buffer) -> int:
        size = super().readinto(buffer)
        CountingFile.count += size
        return size


def test_reading_a_parquet_block_does_not_read_the_whole_file(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    texts = [os.urandom(100_000).hex() for _ in range(100)]
    path = tmp_path / "rows"
    options = {"compression": None, "use_dictionary": False, "write_batch_size": 1}  # pages of a few rows
    parquet.write_table(arrow.table({"text": texts}), path, **options)
    size = path.stat().st_size
    file = SourceFile("rows", size, lambda: io.BufferedReader(CountingFile(str(path))))
    blocks = TABLE_FORMATS["parquet"]().read(file, ROWS, 0, BlockLimit(repeat(10_000), 500_000))
    CountingFile.count = 0
    first = next(iter(blocks))
    assert first.texts[0] == texts[: first.count]
    assert CountingFile.count < size / 2
    blocks.close()


@given(st.lists(st.integers(1, 60), max_size=40), st.integers(1, 7), st.integers(1, 100))
def test_text_windows_stay_within_limits_unless_they_contain_one_text(sizes, limit, characters) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(translation, "WINDOW_CHARACTERS", characters)
        windows = list(translation.windows(sizes, sizes, limit))
    assert [size for window in windows for size in window] == sizes
    assert all(len(window) == 1 or (len(window) <= limit and sum(window) <= characters) for window in windows)


def test_json_lines_keep_the_original_text(tmp_path: Path) -> None:
    lines = ['{"text": "a", "n": 1.50, "n": 2}', "", "{ }", '{"text":null ,"deep":{"a":[1,2]} } ']
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(lines) + "\r\n", encoding="utf-8")
    reader = TABLE_FORMATS["jsonl"]()
    file = SourceFile("rows", path.stat().st_size, lambda: path.open("rb"))
    [rows] = reader.read(file, ROWS, 0, BlockLimit(repeat(10), 1000))
    lines_out = (
        reader.write(
            rows,
            ROWS,
            [[TranslatedText("ä", -0.5), TranslatedText(None), TranslatedText(None), TranslatedText(None)]],
        )
        .decode()
        .split("\n")
    )
    assert lines_out[0] == '{"text": "a", "n": 1.50, "n": 2, "de": "ä", "de_score": -0.5, "de_error": null}'
    assert lines_out[1] == ""
    assert json.loads(lines_out[2]) == {"de": None, "de_score": None, "de_error": None}
    assert lines_out[3].startswith('{"text":null ,"deep":{"a":[1,2]}, "de": null')


def test_memory_for_a_long_json_row_is_limited(tmp_path: Path) -> None:
    path, size = tmp_path / "rows", 4_000_000
    path.write_text(json.dumps({"more": "x" * size, "text": "a"}) + "\n")
    file = SourceFile("rows", path.stat().st_size, lambda: path.open("rb"))
    reader = TABLE_FORMATS["jsonl"]()
    tracemalloc.start()
    for rows in reader.read(file, ROWS, 0, BlockLimit(repeat(10), size)):
        content = reader.write(rows, ROWS, [[TranslatedText("b", -0.5)]])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert json.loads(content)["de"] == "b" and peak < 3.5 * size


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        (b"a\xff\n", "text", "line 1 is not UTF-8 at byte 2"),
        (b'{"text": "a"}\n{"text": \n', "jsonl", "line 2 is not JSON"),
        (b"[1]\n", "jsonl", "line 1 is not a JSON object"),
        (gzip.compress(b"a line\n" * 999)[:-9], "text", "truncated or damaged"),
        (b"PAR1 and no more", "parquet", "not a Parquet file"),
    ],
    ids=["utf-8", "json", "object", "gzip", "parquet"],
)
def test_damaged_file_is_reported(content: bytes, kind: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_bytes(content)
    file = SourceFile("rows", len(content), lambda: path.open("rb"))
    with pytest.raises(DataError, match=message):
        list(
            TABLE_FORMATS[kind]().read(file, TEXT if kind == "text" else ROWS, 0, BlockLimit(repeat(5), 100))
        )
