"""Reading of all corpus formats and compressions from disk and URLs, with damage and interruptions."""

import bz2
import gzip
import http.server
import io
import json
import lzma
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar
from xml.sax.saxutils import escape

import fsspec
import pyarrow
import pyarrow.parquet
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from uwaga.data.corpus import Pair, read_corpus
from uwaga.data.report import CorpusReport
from uwaga.data.sources import find_sources
from uwaga.data.tmx import nearest_variants
from uwaga.errors import DataError
from uwaga.files import store
from uwaga.files.store import identify, is_url, open_stream
from uwaga.settings import CorpusSettings

COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda raw: raw,
    ".gz": gzip.compress,
    ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
}
PAIRS = [(f"The dog no. {i} <&> runs.", f"Der Hund Nr. {i} läuft.") for i in range(2500)]


def corpus(*files: str | Path, **values: object) -> CorpusSettings:
    values = {"languages": ("en", "de"), **values}
    return CorpusSettings(files=tuple(map(str, files)), **values)  # type: ignore[arg-type]


def read(*files: str | Path, **values: object) -> list[Pair]:
    return list(read_corpus(corpus(*files, **values)))


def texts(pairs: list[Pair]) -> list[tuple[str, str]]:
    return [(pair.source, pair.references[0]) for pair in pairs]


def tsv(pairs: list[tuple[str, str]]) -> bytes:
    return "".join(f"{source}\t{target}\n" for source, target in pairs).encode()


def jsonl(pairs: list[tuple[str, str]]) -> bytes:
    return "".join(
        json.dumps({"en": source, "de": target, "n": 1}) + "\n" for source, target in pairs
    ).encode()


def tmx(pairs: list[tuple[str, str]]) -> bytes:
    units = "".join(
        f'<tu><tuv xml:lang="de-DE"><seg>{escape(target)}</seg></tuv>\n'
        f'<tuv xml:lang="EN"><prop>x</prop><seg>{escape(source)}</seg></tuv></tu>\n'
        for source, target in pairs
    )
    header = '<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4"><header/><body>'
    return (header + units + "</body></tmx>\n").encode()


def parquet(pairs: list[tuple[str, str]], **options: object) -> bytes:
    rows = [
        {"id": i, "translation": {"en": source, "de": target}} for i, (source, target) in enumerate(pairs)
    ]
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), buffer, row_group_size=300, **options)
    return buffer.getvalue()


WRITERS = {".tsv": tsv, ".jsonl": jsonl, ".tmx": tmx}


@pytest.fixture
def memory() -> Iterator[fsspec.AbstractFileSystem]:
    system = fsspec.filesystem("memory")
    yield system
    system.store.clear()
    system.pseudo_dirs[:] = [""]


@pytest.fixture
def short_retry_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "PAUSE", 0.001)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("ending", list(COMPRESSORS))
@pytest.mark.parametrize("kind", list(WRITERS))
def test_corpora_of_each_format_and_compression_are_read_from_disk_and_url(tmp_path, memory, kind, ending):
    content = COMPRESSORS[ending](WRITERS[kind](PAIRS))
    path = tmp_path / f"c{kind}{ending}"
    path.write_bytes(content)
    memory.pipe(f"/b/c{kind}{ending}", content)
    for file in (path, path.as_uri(), f"memory://b/c{kind}{ending}"):
        pairs = read(file)
        assert texts(pairs) == PAIRS
        assert [pair.line for pair in pairs] == list(range(1, len(PAIRS) + 1))


def test_parquet_columns_are_selected_or_rejected(tmp_path: Path, memory) -> None:
    content = parquet(PAIRS)
    memory.pipe("/p.parquet", content)
    (tmp_path / "p.parquet").write_bytes(content)
    for file in ("memory://p.parquet", tmp_path / "p.parquet"):
        assert texts(read(file)) == PAIRS
        assert texts(read(file, columns=["translation.de", "translation.en"])) == [(b, a) for a, b in PAIRS]
    table = pyarrow.table({"source": ["a", None], "target": ["b", "c"]})
    pyarrow.parquet.write_table(table, tmp_path / "q.parquet")
    assert texts(read(tmp_path / "q.parquet")) == [("a", "b")]
    with pytest.raises(DataError, match=r"no column x; the columns are source, target: select two of them"):
        read(tmp_path / "q.parquet", columns=["source", "x"])
    with pytest.raises(DataError, match="the column id holds int64, not text"):
        read(tmp_path / "p.parquet", columns=["id", "translation.de"])
    (tmp_path / "cut.parquet").write_bytes(content[:-9])
    with pytest.raises(DataError, match=r"cut\.parquet: not a complete Parquet file"):
        read(tmp_path / "cut.parquet")
    repeated = pyarrow.Table.from_arrays([pyarrow.array(["a"])] * 3, names=["source", "target", "target"])
    pyarrow.parquet.write_table(repeated, tmp_path / "twice.parquet")
    with pytest.raises(DataError, match="two columns are named target"):
        read(tmp_path / "twice.parquet")
    (tmp_path / "bent.parquet").write_bytes(content[:99] + bytes(5000) + content[5099:])
    with pytest.raises(DataError, match=r"bent\.parquet: not a complete Parquet file"):
        read(tmp_path / "bent.parquet")


def test_tsv_and_json_columns_are_selected_or_rejected(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("id\tde\ten\n1\tHund\tdog\n2\tKatze\n\n3\tBaum\ttree\n")
    assert read(path, columns=["en", "de"]) == [Pair("dog", ("Hund",), 2), Pair("tree", ("Baum",), 5)]
    assert texts(read(path, columns=[3, 2]))[1] == ("dog", "Hund")
    with pytest.raises(DataError, match=r"no column fr; the columns are id, de, en"):
        read(path, columns=["en", "fr"])
    rows = tmp_path / "a.jsonl"
    rows.write_text(
        '{"s": "dog", "t": {"de": "Hund"}}\n[1]\nx\n'
        '{"s": 1, "t": {"de": "b"}}\n{"s": "\\ud800", "t": {"de": "b"}}\n'
    )
    report = CorpusReport()
    pairs = list(read_corpus(corpus(rows, columns=["s", "t.de"]), report))
    assert pairs == [Pair("dog", ("Hund",), 1)]
    assert report.faults == {"not a JSON object": 2, "missing column": 1, "bad UTF-8": 1}
    with pytest.raises(DataError, match=r"no column en, de; the columns are s, t, t\.de"):
        read(rows)
    with pytest.raises(DataError, match="its columns have names, s, t"):
        read(rows, columns=[1, 2])
    with pytest.raises(DataError, match="line 2: not a JSON object"):
        read(rows, columns=["s", "t.de"], bad_lines="stop")


def test_several_files_form_one_corpus(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.tsv").write_bytes(tsv(PAIRS[number * 5 : number * 5 + 5]))
    assert texts(read(*(tmp_path / f"{number}.tsv" for number in range(3)))) == PAIRS[:15]
    assert find_sources(corpus("memory://a.en", "memory://a.de")).format == "text"
    with pytest.raises(DataError, match="suffixes of the files indicate different formats"):
        read(tmp_path / "0.tsv", tmp_path / "1.tsv", "c.tmx")
    with pytest.raises(DataError, match="give two aligned files, not 3"):
        read(*(tmp_path / f"{number}.tsv" for number in range(3)), format="text")


def test_text_and_moses_urls_are_read(memory) -> None:
    memory.pipe("/c.en", b"a\nb\n")
    memory.pipe("/c.de", b"A\nB\n")
    for pairs in (read("memory://c.en", "memory://c.de"), read("memory://c", format="moses")):
        assert texts(pairs) == [("a", "A"), ("b", "B")]
    memory.pipe("/c.de", b"A\n")
    with pytest.raises(DataError, match=r"not aligned: memory://c\.en has 2 lines, memory://c\.de has 1"):
        read("memory://c.en", "memory://c.de")


def test_tmx_markup_is_removed_and_language_variants_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.tmx"
    path.write_text(
        '<tmx version="1.4"><body>'
        '<tu><tuv xml:lang="en-GB"><seg>Press <bpt i="1">&lt;b&gt;</bpt><hi>now</hi>'
        '<ept i="1">x</ept>!\n</seg></tuv>'
        '<tuv lang="de"><seg>Jetzt</seg></tuv><tuv lang="de-AT"><seg>Sofort</seg></tuv></tu>'
        '<tu><tuv xml:lang="en"><seg>alone</seg></tuv><tuv xml:lang="fr"><seg>seul</seg></tuv></tu>'
        "</body></tmx>"
    )
    report = CorpusReport()
    pairs = list(read_corpus(corpus(path), report))
    assert pairs == [Pair("Press now!", ("Jetzt", "Sofort"), 1)]
    assert report.faults == {"missing language": 1}
    with pytest.raises(
        DataError, match="no unit has both en and pl; the languages of the file are de, de-AT, en, en-GB, fr"
    ):
        read(path, languages=("en", "pl"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'<!DOCTYPE tmx [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><tmx><body/></tmx>',
         "declares the entity 'a'"),
        (b'<!DOCTYPE tmx [<!ENTITY x SYSTEM "file:///etc/passwd">]><tmx/>', "declares the entity 'x'"),
        (b'<!DOCTYPE tmx [<!ENTITY % x SYSTEM "http://h/x"> %x;]><tmx/>', "declares the entity 'x'"),
        (b"<html></html>", "not a TMX file: its root is <html>"),
        (b"<tmx>" + b"<a>" * 1000, "257 nested elements"),
        (b"<tmx><tuv a='" + b"x" * (5 << 20), "a tag or comment of more than 4 MiB"),
        (b"<tmx><!--" + b"x" * (5 << 20), "a tag or comment of more than 4 MiB"),
        (b"<tmx><body><tu>", "not a complete TMX file: no element found"),
        (b"<tmx><body><tu></body></tmx>", "mismatched tag"),
        (b"<tmx><body/></tmx>", "no usable sentence pair"),
        (b"", "not a complete TMX file"),
    ],
)  # fmt: skip
def test_invalid_tmx_is_rejected(tmp_path, monkeypatch, content, message) -> None:
    monkeypatch.setattr("uwaga.data.tmx.MAX_MARKUP_BYTES", 4 << 20)
    (tmp_path / "a.tmx").write_bytes(content)
    with pytest.raises(DataError, match=message):
        read(tmp_path / "a.tmx")


def test_memory_use_for_a_long_tmx_segment_is_limited(tmp_path: Path) -> None:
    import tracemalloc

    long_text = "x" * (1 << 23)
    path = tmp_path / "a.tmx"
    path.write_bytes(tmx([("a", long_text), ("b", "c")]))
    tracemalloc.start()
    try:
        assert texts(read(path)) == [("b", "c")]
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_memory_use_for_a_long_tmx_unit_is_limited(tmp_path: Path) -> None:
    import tracemalloc

    variant = b'<tuv xml:lang="en"><seg>' + b"x" * (1 << 19) + b"</seg></tuv>"
    path = tmp_path / "a.tmx"
    path.write_bytes(b"<tmx><body><tu>" + variant * 64 + b"</tu></body></tmx>")
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="no unit has both"):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()


def test_lines_with_lone_surrogates_are_counted_as_invalid(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lone_surrogate = '{"en": "a", "de": "\\ud800"}\n'
    path.write_text(
        lone_surrogate + '{"en": "\\ud83d\\ude00", "de": "b"}\n' + lone_surrogate.replace("d800", "dfff")
    )
    report = CorpusReport()
    assert [pair.source for pair in read_corpus(corpus(path), report)] == ["\U0001f600"]
    assert report.faults == {"bad UTF-8": 2}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("ending", list(COMPRESSORS)[1:])
@pytest.mark.parametrize("kind", list(WRITERS))
def test_truncated_corpus_files_are_rejected(tmp_path: Path, kind: str, ending: str) -> None:
    content = COMPRESSORS[ending](WRITERS[kind](PAIRS))
    path = tmp_path / f"c{kind}{ending}"
    for cut in (20, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:cut])
        with pytest.raises(DataError, match="truncated or damaged"):
            read(path)


LINE = st.text(st.characters(blacklist_categories=["Cs", "Cc"]), min_size=1, max_size=30).filter(str.strip)


@given(st.lists(st.tuples(LINE, LINE), min_size=1, max_size=8))
def test_written_jsonl_parquet_and_tmx_corpora_are_read_back(tmp_path_factory, pairs) -> None:
    folder = tmp_path_factory.mktemp("formats")
    for name, content in (("a.jsonl", jsonl(pairs)), ("a.parquet", parquet(pairs)), ("a.tmx", tmx(pairs))):
        (folder / name).write_bytes(content)
        expected = pairs
        if name == "a.tmx":
            expected = [(" ".join(source.split()), " ".join(target.split())) for source, target in pairs]
        assert texts(read(folder / name)) == expected


class FaultyFile(io.BytesIO):
    """A file of an object store whose reads fail at given positions."""

    def __init__(self, content: bytes, faults: list[int], fault: Exception | None) -> None:
        super().__init__(content)
        self.faults, self.fault = faults, fault

    def read(self, size: int | None = -1) -> bytes:
        if self.faults and self.tell() >= self.faults[0]:
            self.faults.pop(0)
            if self.fault is None:
                return b""  # as if the object ended here
            raise self.fault
        return super().read(min(size or 0, 4096) if size and size > 0 else size)


class FaultyStore(fsspec.AbstractFileSystem):
    """An object store in memory whose reads fail at the byte positions in ``faults``."""

    protocol = "shaky"
    cachable = False
    content = b""
    faults: ClassVar[list[int]] = []
    fault: Exception | None = None
    etag = "1"
    opened = 0

    def info(self, path: str, **_: object) -> dict[str, object]:
        return {"name": path, "size": len(FaultyStore.content), "type": "file", "ETag": FaultyStore.etag}

    def open(self, path: str, mode: str = "rb", **_: object) -> FaultyFile:
        FaultyStore.opened += 1
        return FaultyFile(FaultyStore.content, FaultyStore.faults, FaultyStore.fault)


@pytest.fixture
def faulty_store(short_retry_delays: None) -> type[FaultyStore]:
    fsspec.register_implementation("shaky", FaultyStore, clobber=True)
    FaultyStore.etag, FaultyStore.opened = "1", 0
    return FaultyStore


@pytest.mark.parametrize("fault", [OSError("connection reset"), RuntimeError("aiohttp's own"), None])
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_interrupted_read_resumes(faulty_store, ending: str, fault) -> None:
    faulty_store.content, faulty_store.fault = COMPRESSORS[ending](tsv(PAIRS)), fault
    faulty_store.faults = [0, 5000, 5000, 9000]
    assert texts(read(f"shaky://c.tsv{ending}")) == PAIRS
    assert faulty_store.opened == 5


def test_persistent_read_failure_is_reported_with_its_byte_position(faulty_store) -> None:
    faulty_store.content = tsv(PAIRS)
    faulty_store.fault = OSError("connection reset")
    faulty_store.faults = [8192] * store.MAX_ATTEMPTS
    with pytest.raises(
        DataError, match=r"shaky://c\.tsv: reading failed 6 times at byte 8192 of \d+: connection reset"
    ):
        read("shaky://c.tsv")
    faulty_store.fault, faulty_store.faults = None, [8192] * store.MAX_ATTEMPTS
    with pytest.raises(DataError, match="it ended at byte 8192"):
        read("shaky://c.tsv")


def test_object_changed_while_reading_is_rejected(faulty_store, monkeypatch) -> None:
    faulty_store.content, faulty_store.fault, faulty_store.faults = tsv(PAIRS), OSError("reset"), [8192]
    reader = read_corpus(corpus("shaky://c.tsv"))
    next(reader)
    faulty_store.etag = "2"
    with pytest.raises(DataError, match="the object changed while it was being read"):
        list(reader)


def test_missing_or_invalid_remote_objects_are_rejected(memory, short_retry_delays, tmp_path) -> None:
    with pytest.raises(DataError, match=r"memory://nowhere\.tsv: no such object"):
        read("memory://nowhere.tsv")
    with pytest.raises(DataError, match="Protocol not known"):
        read("nonsense://a.tsv")
    memory.pipe("/d/a.tsv", b"a\tb\n")
    with pytest.raises(DataError, match="a folder, not a file"):
        read("memory://d", format="tsv")


def test_object_identifier_changes_with_the_content(memory, tmp_path: Path) -> None:
    memory.pipe("/a", b"one")
    before = identify("memory://a")
    assert before == identify("memory://a") and before["size"] == 3
    memory.pipe("/a", b"two")
    assert identify("memory://a") != before
    (tmp_path / "a").write_bytes(b"x")
    assert identify(tmp_path / "a")["name"] == str(tmp_path / "a")
    assert is_url("s3://b/k") and is_url("simplecache::s3://b/k")
    assert not is_url("/a/b") and not is_url("a:b//c") and not is_url(Path("s3://b"))


class FaultyHandler(http.server.BaseHTTPRequestHandler):
    """Closes the connection in the middle of each of the first ``dropped_connections`` responses."""

    content = tsv(PAIRS)
    ranges = True
    dropped_connections = 0

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._send(body=False)

    def do_GET(self) -> None:
        self._send(body=True)

    def _send(self, body: bool) -> None:
        start, stop = 0, len(self.content)
        requested_range = self.headers.get("Range") if FaultyHandler.ranges else None
        if requested_range:
            first, _, last = requested_range.removeprefix("bytes=").partition("-")
            start, stop = int(first), min(stop, int(last) + 1) if last else stop
        self.send_response(206 if requested_range else 200)
        if requested_range:
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(self.content)}")
        self.send_header("Accept-Ranges", "bytes" if FaultyHandler.ranges else "none")
        self.send_header("Content-Length", str(stop - start))
        self.send_header("ETag", '"v1"')
        self.end_headers()
        if not body:
            return
        part = self.content[start:stop]
        if FaultyHandler.dropped_connections and len(part) > 10_000:
            FaultyHandler.dropped_connections -= 1
            self.wfile.write(part[:7000])
            self.close_connection = True
            return
        self.wfile.write(part)


@pytest.fixture
def server(short_retry_delays: None) -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), FaultyHandler) as server_:
        threading.Thread(target=server_.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server_.server_port}"
        server_.shutdown()


@pytest.mark.parametrize("ranges", [True, False])
def test_reading_resumes_after_closed_connections(server: str, ranges: bool) -> None:
    FaultyHandler.ranges, FaultyHandler.dropped_connections = ranges, 3
    assert texts(read(f"{server}/c.tsv")) == PAIRS
    assert FaultyHandler.dropped_connections == 0
    FaultyHandler.dropped_connections = 99
    with pytest.raises(DataError, match=r"c\.tsv: reading failed 6 times at byte \d+ of"):
        read(f"{server}/c.tsv")
    FaultyHandler.dropped_connections = 0
    with open_stream(f"{server}/c.tsv") as file:
        assert file.read() == FaultyHandler.content


def test_unreachable_server_is_reported(short_retry_delays: None) -> None:
    with pytest.raises(DataError, match=r"http://127\.0\.0\.1:9/c\.tsv: (.* failed or|no such object)"):
        read("http://127.0.0.1:9/c.tsv")


VARIANTS = [("en", "E"), ("pt-PT", "P"), ("pt-BR", "B"), ("zh-CN", "S"), ("zh-TW", "T"), ("sr-Latn", "L")]


@pytest.mark.parametrize(
    ("requested", "texts"),
    [
        *(("pt-BR", "B"), ("pt_PT", "P"), ("pt", "PB"), ("pt-AO", "PB"), ("por_Latn", "PB"), ("en-GB", "E")),
        *(("zh", "S"), ("zh_Hant", "T"), ("zho_Hans", "S"), ("zh-HK", "T"), ("sr", "L"), ("sr-Cyrl", "")),
    ],
)
def test_closest_variants_of_a_language_are_chosen(requested: str, texts: str) -> None:
    assert "".join(nearest_variants(VARIANTS, requested)) == texts
