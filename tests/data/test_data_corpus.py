"""Reading of corpora: formats, compression, invalid lines, damaged files and memory use."""

import gzip
import lzma
import os
import sys
import threading
import tomllib
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from uwaga.data.corpus import Pair, PairReader, read_corpus
from uwaga.data.report import CorpusReport
from uwaga.errors import DataError, MissingExtraError
from uwaga.files.lines import open_bytes, read_lines
from uwaga.settings import CorpusSettings, DataSettings

COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda raw: raw,
    ".gz": gzip.compress,
    ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,
    ".xz": lzma.compress,
}


def data_settings(**values: object) -> DataSettings:
    return DataSettings(train=[Path("x")], dev=[Path("x")], **values)  # type: ignore[arg-type]


def read_pairs(paths: list[Path], values: DataSettings, report: CorpusReport) -> PairReader:
    files = tuple(map(str, paths))
    corpus = CorpusSettings(files=files, languages=values.languages, bad_lines=values.bad_lines)
    return read_corpus(corpus, report)


def read(paths: list[Path], **values: object) -> tuple[list[Pair], CorpusReport]:
    report = CorpusReport()
    return list(read_pairs(paths, data_settings(**values), report)), report


def write(path: Path, raw: bytes | str) -> Path:
    raw = raw.encode() if isinstance(raw, str) else raw
    path.write_bytes(COMPRESSORS[path.suffix if path.suffix in COMPRESSORS else ""](raw))
    return path


@pytest.mark.parametrize("ending", list(COMPRESSORS))
def test_tsv_text_and_moses_corpora_are_read_with_each_compression(tmp_path: Path, ending: str) -> None:
    tsv = write(tmp_path / f"c.tsv{ending}", "a b\tA\tB\t\nc\tC\r\n\u2028d\x85\tD")
    expected = [Pair("a b", ("A", "B"), 1), Pair("c", ("C",), 2), Pair("\u2028d\x85", ("D",), 3)]
    assert read([tsv]) == (expected, CorpusReport(str(tsv), read=3, kept=3))
    source = write(tmp_path / f"c.en{ending}", "a\tb\nc\n")
    target = write(tmp_path / f"c.de{ending}", "A\nC\n")
    expected = [Pair("a\tb", ("A",), 1), Pair("c", ("C",), 2)]
    assert read([source, target])[0] == expected
    assert read([tmp_path / "c"], languages=("en", "de"))[0] == expected
    assert read([tmp_path / "c"], languages=("de", "en"))[0][1] == Pair("C", ("c",), 2)


def test_moses_prefix_may_contain_dots(tmp_path: Path) -> None:
    write(tmp_path / "train.lc.norm.en", "a\n")
    write(tmp_path / "train.lc.norm.de.gz", "b\n")
    assert read([tmp_path / "train.lc.norm"], languages=("en", "de"))[0] == [Pair("a", ("b",), 1)]


def test_byte_order_mark_is_removed(tmp_path: Path) -> None:
    assert read([write(tmp_path / "a", "\ufeffa\tb\n")])[0] == [Pair("a", ("b",), 1)]


def test_invalid_lines_are_counted(tmp_path: Path) -> None:
    lines = [
        b"a\tb", b"", b"\tb", b"a\t ", b"x", b"a\t\xff\xfe", b"a\tb\0c", b"a\tb" + b"c" * (1 << 21), b"e\tf",
    ]  # fmt: skip
    pairs, report = read([write(tmp_path / "bad.tsv", b"\n".join(lines * 6) + b"\n")])
    pair_groups = ((Pair("a", ("b",), 9 * i + 1), Pair("e", ("f",), 9 * i + 9)) for i in range(6))
    assert pairs == [pair for pair_group in pair_groups for pair in pair_group]
    assert (report.read, report.kept, report.skipped) == (54, 12, 42)
    assert report.faults == {
        "empty source": 12, "empty target": 6, "missing column": 6, "bad UTF-8": 6, "NUL character": 6,
        "line over 1 MiB": 6,
    }  # fmt: skip
    assert report.lines["bad UTF-8"] == [6, 15, 24, 33, 42]
    assert report.lines["empty source"] == [2, 3, 11, 12, 20]
    text = report.summary()
    assert "54 lines read, 12 pairs kept, 42 skipped" in text[0]
    assert "  bad UTF-8: 6 (line 6, 15, 24, 33, 42, ...)" in text


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b"", "empty source"), (b"a\t", "empty target"), (b"a", "missing column"), (b"\xe4\ta", "bad UTF-8"),
        (b"a\tb\0", "NUL character"), (b"a\t" + b"b" * (1 << 20), "line over 1 MiB"),
    ],
)  # fmt: skip
def test_invalid_line_error_names_the_file_and_the_line_number(tmp_path, line, fault) -> None:
    path = write(tmp_path / "bad.tsv", b"a\tb\n" * 300 + line + b"\na\tb\n")
    with pytest.raises(DataError, match=rf"bad\.tsv, line 301: {fault}"):
        read([path], bad_lines="stop")


@pytest.mark.parametrize("ending", list(COMPRESSORS))
def test_misaligned_files_are_rejected(tmp_path: Path, ending: str) -> None:
    long = write(tmp_path / f"long{ending}", "a\n" * 9_000)
    short = write(tmp_path / f"short{ending}", "a\n" * 8_998)
    for paths, counts in (([long, short], (9_000, 8_998)), ([short, long], (8_998, 9_000))):
        with pytest.raises(DataError, match="has {} lines.*has\n? ?{}".format(*counts)):
            read(paths)


def test_missing_files_and_prefixes_are_rejected(tmp_path: Path) -> None:
    existing = write(tmp_path / "there", "a\n")
    missing = tmp_path / "gone"
    for paths in ([missing, existing], [existing, missing]):
        with pytest.raises(DataError, match="gone: no such file"):
            read(paths)
    with pytest.raises(DataError, match=r"Moses prefix: there is no .*gone\.xx"):
        read([missing], languages=("xx", "yy"))
    write(tmp_path / "gone.xx", "a\n")
    with pytest.raises(DataError, match=r"gone\.yy"):
        read([missing], languages=("xx", "yy"))
    with pytest.raises(DataError):
        read([tmp_path])


@pytest.mark.parametrize("ending", list(COMPRESSORS))
def test_empty_corpora_are_rejected(tmp_path: Path, ending: str) -> None:
    for number, raw in enumerate((b"", b"\n\n", b"only one column\n")):
        with pytest.raises(DataError, match="no usable sentence pair"):
            read([write(tmp_path / f"{number}{ending}", raw)])
    empty = write(tmp_path / f"e{ending}", b"")
    with pytest.raises(DataError, match="no usable sentence pair"):
        read([empty, empty])


def test_binary_files_are_rejected(tmp_path: Path) -> None:
    import numpy as np

    noise = np.random.default_rng(1).bytes(5000)
    for number, raw in enumerate((noise, bytes(range(256)) * 9, b"\x7fELF\0\0\0\0" * 99)):
        with pytest.raises(DataError, match="binary"):
            read([write(tmp_path / str(number), raw)])
    with pytest.raises(DataError, match="UTF-16"):
        read([write(tmp_path / "wide", "a\tb\n".encode("utf-16"))])


@pytest.mark.parametrize("ending", [".gz", ".zst", ".xz"])
def test_truncated_and_damaged_files_are_rejected(tmp_path: Path, ending: str) -> None:
    content = COMPRESSORS[ending]("".join(f"line {i * i}\tZeile {i**3}\n" for i in range(9000)).encode())
    path = tmp_path / f"cut{ending}"
    for cut in (20, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:cut])
        with pytest.raises(DataError, match=rf"cut\{ending}.*(truncated or damaged)"):
            read([path])
    path.write_bytes(content[: len(content) // 2] + bytes(64) + content[len(content) // 2 + 64 :])
    with pytest.raises(DataError, match="truncated or damaged"):
        read([path])


@pytest.mark.parametrize("ending", [".gz", ".zst", ".xz"])
def test_concatenated_compressed_streams_are_read(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"two{ending}"
    path.write_bytes(COMPRESSORS[ending](b"a\tb\nc") + COMPRESSORS[ending](b"\td\n"))
    assert read([path])[0] == [Pair("a", ("b",), 1), Pair("c", ("d",), 2)]


@pytest.mark.parametrize(
    "content", [b"", b"a", b"a" * 300_000, bytes(range(256)) * 2000, os.urandom(300_000)]
)
@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("sized", [False, True])
def test_complete_zstd_frames_are_read_and_truncated_ones_rejected(tmp_path, content, checksum, sized):
    frame = zstandard.ZstdCompressor(write_checksum=checksum, write_content_size=sized).compress(content)
    skippable = b"\x5f\x2a\x4d\x18" + (200_000).to_bytes(4, "little") + bytes(200_000)
    path = tmp_path / "frames.zst"
    path.write_bytes(frame + skippable + frame)
    with open_bytes(path) as file:
        assert file.read() == content * 2
    for cut in (1, 3, 5):
        path.write_bytes((frame + skippable + frame)[:-cut])
        with open_bytes(path) as file, pytest.raises(EOFError, match="end"):
            file.read()


def test_zstd_bomb_is_decompressed_in_blocks(tmp_path: Path) -> None:
    path = tmp_path / "bomb.zst"
    path.write_bytes(COMPRESSORS[".zst"](bytes(1 << 29)))
    with open_bytes(path) as file:
        tracemalloc.start()
        try:
            assert file.read(1 << 20) == bytes(1 << 20)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 1 << 28


def test_memory_use_is_limited_while_reading(tmp_path: Path) -> None:
    path = write(tmp_path / "large.tsv", ("some source sentence " * 30 + "\tein Zielsatz\n") * 10_000)  # 6 MB
    tracemalloc.start()
    try:
        count = sum(1 for _ in read_pairs([path], data_settings(), CorpusReport()))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 10_000
    assert peak < 2_000_000


LINE = st.text(st.characters(blacklist_characters="\n\r", blacklist_categories=["Cs"]), max_size=20)


@given(st.lists(LINE, max_size=12), st.sampled_from(list(COMPRESSORS)), st.booleans())
def test_reading_lines_returns_the_written_lines(tmp_path_factory, lines, ending, final) -> None:
    padding = ["text " * 400]  # so that no example looks like a binary file
    lines = padding + lines
    path = tmp_path_factory.mktemp("lines") / f"x{ending}"
    write(path, "\n".join(lines) + ("\n" if final or not lines[-1] else ""))
    assert [line.decode() for line in read_lines(path) if line is not None] == lines


def test_pipes_are_read_unless_their_data_is_compressed(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    lines = [f"line {number}".encode() for number in range(3000)]
    for content in (b"\n".join(lines), gzip.compress(b"text")):
        writer = threading.Thread(target=path.write_bytes, args=(content,), daemon=True)
        writer.start()
        if content.startswith(b"line"):
            assert list(read_lines(path)) == lines
        else:
            with pytest.raises(DataError, match="a pipe with compressed data cannot be read; decompress it"):
                next(read_lines(path))
        writer.join(timeout=10)


def test_missing_zstandard_error_names_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "corpus.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(b"a\n"))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(MissingExtraError) as raised:
        list(read_lines(path))
    assert str(raised.value) == f"{path}: reading zstd files needs zstandard: pip install 'uwaga[zstd]'"
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    [requirement] = project["project"]["optional-dependencies"]["zstd"]
    assert requirement.startswith("zstandard")
