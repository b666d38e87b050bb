"""Jobs that read from an object store which is slow and fails some requests."""

import threading
import time
from pathlib import Path

import pytest
from command_line import run_uwaga
from table_jobs import ProgressHook, part_bytes, run, sentences

import uwaga.files.store
from uwaga.errors import DataError
from uwaga.files.store import hide_credentials, open_store

pytest.importorskip("s3fs")
pytestmark = pytest.mark.slow
SECRET_KEY = "testing"


class FaultyStore:
    """WSGI middleware of an object store that fails each ``fail_every``-th request and delays reads."""

    def __init__(self, app) -> None:
        self.app = app
        self.fail_every = 0
        self.delay = 0.0
        self.requests = self.failed = 0
        self._lock = threading.Lock()

    def __call__(self, environ, start):
        with self._lock:
            self.requests += 1
            fails = bool(self.fail_every) and self.requests % self.fail_every == 0
            self.failed += fails
        if fails:
            start("503 Slow Down", [("Content-Type", "application/xml"), ("Content-Length", "0")])
            return [b""]
        if self.delay and environ["REQUEST_METHOD"] == "GET":
            time.sleep(self.delay)
        return self.app(environ, start)


@pytest.fixture(scope="module")
def faulty_store():
    """Yield an S3 server that fails and delays requests; environment variables name its address."""
    pytest.importorskip("moto.server")
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    store = FaultyStore(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, store, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    environment = {
        "AWS_ACCESS_KEY_ID": SECRET_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
        "AWS_MAX_ATTEMPTS": "1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        yield store
    server.shutdown()
    thread.join()


def upload(url: str, files: dict[str, bytes]) -> None:
    import s3fs

    system = s3fs.S3FileSystem()
    system.mkdirs(url.removeprefix("s3://").partition("/")[0], exist_ok=True)
    for name, content in files.items():
        system.pipe_file(f"{url}/{name}", content)


def test_slow_and_faulty_object_store_does_not_change_the_output(faulty_store, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(uwaga.files.store, "PAUSE", 0.01)
    lines = [f"{line}\n" for line in sentences(120)]
    files = {"a.txt": "".join(lines[:50]).encode(), "b/c.txt": "".join(lines[50:]).encode()}
    for name, content in files.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(content)
    upload("s3://table/in", files)
    run(tmp_path / "in", tmp_path / "whole", part_rows=9)
    faulty_store.fail_every, faulty_store.delay = 4, 0.05

    def stop(rows: int) -> None:
        if rows > 60:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("s3://table/in", "s3://table/out", part_rows=9, watch=ProgressHook(stop))
    watch = ProgressHook()
    manifest = run("s3://table/in", "s3://table/out", part_rows=9, watch=watch)
    assert watch.before >= 60
    assert faulty_store.failed > 10
    faulty_store.fail_every, faulty_store.delay = 0, 0.0
    store = open_store("s3://table/out")
    contents = {}
    for file in store.files():
        with store.open(file.name) as stream:
            contents[file.name] = stream.read()
    assert contents.pop("manifest.json").count(SECRET_KEY.encode()) == 0  # no keys in it
    assert contents == part_bytes(tmp_path / "whole")
    assert manifest.finished


def test_parquet_is_read_from_an_object_store(faulty_store, tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table({"text": sentences(30)})
    pyarrow.parquet.write_table(table, tmp_path / "in.parquet", row_group_size=8)
    upload("s3://table/one", {"in.parquet": (tmp_path / "in.parquet").read_bytes()})
    run(tmp_path / "in.parquet", tmp_path / "whole", columns=["text"], score=True)
    run("s3://table/one/in.parquet", tmp_path / "out", columns=["text"], score=True)
    assert part_bytes(tmp_path / "out") == part_bytes(tmp_path / "whole")


def test_object_store_errors_hide_credentials(faulty_store, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(uwaga.files.store, "PAUSE", 0.01)
    monkeypatch.setattr(uwaga.files.store, "MAX_ATTEMPTS", 2)
    result = run_uwaga("batch", "s3://nobucket/in", tmp_path / "out", code=1)
    [line] = result.output.strip().splitlines()
    assert "s3://nobucket/in: no such file" in line
    upload("s3://table/two", {"a.txt": b"A dog.\n"})
    faulty_store.fail_every = 1
    try:
        result = run_uwaga("batch", "s3://table/two", tmp_path / "out", code=1)
    finally:
        faulty_store.fail_every = 0
    [line] = result.output.strip().splitlines()
    assert "s3://table/two: the object store" in line
    assert SECRET_KEY not in line
    assert (
        "one is inside the other"
        in run_uwaga("batch", "s3://table/two", "s3://table/two/out", code=None).output
    )


def test_credentials_and_options_in_a_url_are_hidden() -> None:
    assert hide_credentials("s3://key:secret@bucket/a/?region=x") == "s3://bucket/a"
    with pytest.raises(DataError, match="no-such-kind://host/a"):
        open_store("no-such-kind://host/a")
