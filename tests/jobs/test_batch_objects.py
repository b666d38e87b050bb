"""An object store on loopback that fails now and then, and is slow."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from urllib.parse import quote

import pytest
from table_jobs import Watch, bytes_out, run, sentences
from typer.testing import CliRunner

import uwaga.files.store
from uwaga.cli.main import app
from uwaga.errors import DataError
from uwaga.files.store import hidden, open_store

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.slow
KEYS = "testing:testing"


class Faults:
    """In front of an object store: every so-manieth request fails, and reads are slow."""

    def __init__(self, app) -> None:
        self.app = app
        self.every = 0
        self.slow = 0.0
        self.requests = self.failed = 0
        self._lock = threading.Lock()

    def __call__(self, environ, start):
        with self._lock:
            self.requests += 1
            fails = bool(self.every) and self.requests % self.every == 0
            self.failed += fails
        if fails:
            start("503 Slow Down", [("Content-Type", "application/xml"), ("Content-Length", "0")])
            return [b""]
        if self.slow and environ["REQUEST_METHOD"] == "GET":
            time.sleep(self.slow)
        return self.app(environ, start)


@pytest.fixture(scope="module")
def served():
    """The faults, and the URL of a bucket behind them."""
    pytest.importorskip("moto.server")
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    faults = Faults(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, faults, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    endpoint = quote(f"127.0.0.1:{server.server_port}", safe="")
    yield (
        faults,
        lambda path: (
            f"s3://{KEYS}@{path}?scheme=http&endpoint_override={endpoint}&region=us-east-1&allow_bucket_creation=true"
        ),
    )
    server.shutdown()
    thread.join()


def filled(url: str, files: dict[str, bytes]) -> None:
    from pyarrow import fs

    system, path = fs.FileSystem.from_uri(url)
    system.create_dir(path.partition("/")[0])
    for name, content in files.items():
        with system.open_output_stream(f"{path}/{name}") as file:
            file.write(content)


def test_an_object_store_that_fails_and_is_slow_gives_the_same_rows(
    served, tmp_path: Path, monkeypatch
) -> None:
    faults, url = served
    monkeypatch.setattr(uwaga.files.store, "PAUSE", 0.01)
    lines = [f"{line}\n" for line in sentences(120)]
    files = {"a.txt": "".join(lines[:50]).encode(), "b/c.txt": "".join(lines[50:]).encode()}
    for name, content in files.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(content)
    filled(url("lake/in"), files)
    run(tmp_path / "in", tmp_path / "whole", part_rows=9)
    faults.every, faults.slow = 3, 0.05

    def stop(rows: int) -> None:
        if rows > 60:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(url("lake/in"), url("lake/out"), part_rows=9, watch=Watch(stop))
    watch = Watch()
    manifest = run(url("lake/in"), url("lake/out"), part_rows=9, watch=watch)
    assert watch.before >= 60
    assert faults.failed > 10
    faults.every, faults.slow = 0, 0.0
    store = open_store(url("lake/out"))
    made = {}
    for one in store.files():
        with store.open(one.name) as file:
            made[one.name] = file.read()
    assert made.pop("manifest.json").count(b"testing") == 0  # no keys in it
    assert made == bytes_out(tmp_path / "whole")
    assert manifest.finished


def test_parquet_in_an_object_store(served, tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    _, url = served
    table = pyarrow.table({"text": sentences(30)})
    pyarrow.parquet.write_table(table, tmp_path / "in.parquet", row_group_size=8)
    filled(url("lake/one"), {"in.parquet": (tmp_path / "in.parquet").read_bytes()})
    run(tmp_path / "in.parquet", tmp_path / "whole", columns=["text"], score=True)
    run(url("lake/one/in.parquet"), tmp_path / "out", columns=["text"], score=True)
    assert bytes_out(tmp_path / "out") == bytes_out(tmp_path / "whole")


def test_a_store_that_refuses_is_said_in_a_line_without_its_keys(served, tmp_path: Path, monkeypatch) -> None:
    faults, url = served
    monkeypatch.setattr(uwaga.files.store, "PAUSE", 0.01)
    monkeypatch.setattr(uwaga.files.store, "ATTEMPTS", 2)
    done = CliRunner().invoke(app, ["batch", url("nobucket/in"), str(tmp_path / "out")])
    assert done.exit_code == 1
    [line] = done.output.strip().splitlines()
    assert "s3://nobucket/in: no such file" in line
    filled(url("lake/two"), {"a.txt": b"A dog.\n"})
    faults.every = 1
    try:
        done = CliRunner().invoke(app, ["batch", url("lake/two"), str(tmp_path / "out")])
    finally:
        faults.every = 0
    assert done.exit_code == 1
    [line] = done.output.strip().splitlines()
    assert "s3://lake/two: the object store refuses" in line
    assert "testing" not in line
    assert (
        "one is in the other"
        in CliRunner().invoke(app, ["batch", url("lake/two"), url("lake/two/out")]).output
    )


def test_keys_and_options_of_a_url_are_hidden() -> None:
    assert hidden("s3://key:secret@bucket/a/?region=x") == "s3://bucket/a"
    with pytest.raises(DataError, match="no-such-kind://host/a"):
        open_store("no-such-kind://host/a")
