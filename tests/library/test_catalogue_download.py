"""Downloads over a real connection are atomic, resumable, and limited in size and time."""

import gzip
import hashlib
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from marian_students import write_student
from model_server import FAST_LIMITS, ModelServer, closed_port, model_files, serve_catalogue, serve_models
from waiting import eventually, in_threads

import uwaga
from uwaga import library as catalogue
from uwaga.errors import CatalogueError, UwagaError
from uwaga.library import Limits
from uwaga.library.installed import downloaded_models, read_origin

LIMITS = Limits(**FAST_LIMITS)
NAME = "firefox-en-pt-tiny"
FILES = model_files("en-pt")
MODEL = "model.enpt.intgemm.alphas.bin"
WEIGHTS_PATH = f"/models/en-pt/tiny_x/exported/{MODEL}.gz"


@pytest.fixture
def server():
    with serve_models() as mirror:
        yield mirror


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def fetch(home: Path, server: ModelServer, model: str = "en-pt", **options: object) -> Path:
    return catalogue.download(
        model, mirror=server.url, limits=LIMITS, environment={"UWAGA_HOME": str(home)}, **options
    )


def is_complete(folder: Path, files: dict[str, bytes] = FILES) -> bool:
    return all((folder / name).read_bytes() == content for name, content in files.items())


def listed_models(home: Path) -> list[str]:
    """Return the names of installed model folders, without internal ones that begin with a dot."""
    return sorted(path.name for path in (home / "models").iterdir() if not path.name.startswith("."))


def partial_size(home: Path) -> int:
    return sum(path.stat().st_size for path in (home / "models/.incomplete").rglob("*.part"))


def test_download_writes_the_installation_record_and_the_licence(home, server):
    serve_catalogue(server, {("en-pt", "tiny"): FILES})
    progress: list[tuple[int, int | None]] = []
    folder = fetch(home, server, progress=lambda received, total: progress.append((received, total)))
    assert folder == home / "models" / NAME and is_complete(folder)
    origin = read_origin(folder)
    assert (origin.source, origin.architecture, origin.licence) == ("firefox", "tiny", "MPL-2.0")
    assert (origin.source_languages, origin.target_languages) == (("en",), ("pt",))
    assert origin.metrics["flores200-plus bleu"] == 45.0 and origin.parameters == 16907062
    for name, content in FILES.items():
        assert origin.files[name].sha256 == hashlib.sha256(content).hexdigest()
        assert origin.files[name].location.endswith(f"{name}.gz")
    assert "mozilla.org/MPL/2.0" in (folder / "card.md").read_text()
    assert (
        progress[-1][0]
        == progress[-1][1]
        == sum(len(server.paths[path].body) for path, _ in server.requests[1:])
    )
    assert sorted(path.name for path in folder.iterdir()) == sorted([*FILES, "card.md", "origin.json"])
    assert listed_models(home) == [NAME] and not list((home / "models/.incomplete").iterdir())


def test_only_the_requested_model_is_downloaded(home, server):
    serve_catalogue(server, {("en-pt", "tiny"): FILES, ("en-de", "tiny"): model_files("en-de")})
    fetch(home, server)
    requested = [path for path, _ in server.requests]
    assert requested[0] == "/models.json" and len(requested) == 4
    assert all("/en-pt/" in path for path in requested[1:])
    before = len(server.requests)
    assert fetch(home, server) == fetch(home, server, NAME)  # installed: no request
    assert len(server.requests) == before


def test_best_model_is_downloaded_by_default(home, server):
    serve_catalogue(server, {("en-pt", "tiny"): FILES, ("en-pt", "base"): model_files("en-pt", 300_000)})
    assert fetch(home, server, architecture="tiny").name == NAME
    assert fetch(home, server, architecture="base").name == "firefox-en-pt-base"
    catalogue.remove("firefox-en-pt-base", {"UWAGA_HOME": str(home)})
    catalogue.remove(NAME, {"UWAGA_HOME": str(home)})
    assert fetch(home, server).name == "firefox-en-pt-base"
    with pytest.raises(CatalogueError, match=r"no architecture 'huge'; available: base, tiny"):
        fetch(home, server, architecture="huge")


@pytest.mark.parametrize("answer", [False, True])
def test_declining_the_licence_prevents_the_download(home, server, answer):
    serve_catalogue(server, {("en-pt", "tiny"): FILES})
    with pytest.raises(CatalogueError, match="licence was not accepted"):
        fetch(home, server, confirm=lambda entry: answer and entry.licence != "MPL-2.0")
    assert [path for path, _ in server.requests] == ["/models.json"]
    assert not (home / "models").exists()


def test_interrupted_transfer_resumes_within_the_same_call(home, server):
    serve_catalogue(server, {("en-pt", "tiny"): FILES})
    server.paths[WEIGHTS_PATH].cut = [60_000, 70_000]
    assert is_complete(fetch(home, server))
    ranges = [header for path, header in server.requests if path == WEIGHTS_PATH]
    assert ranges[0] == "" and len(ranges) == 3
    offsets = [int(header.removeprefix("bytes=").removesuffix("-")) for header in ranges[1:]]
    assert 0 < offsets[0] <= 60_000 < offsets[1] <= 130_000


def test_failed_download_resumes_in_the_next_call(home, server):
    serve_catalogue(server, {("en-pt", "tiny"): FILES})
    server.paths[WEIGHTS_PATH].cut = [30_000] * 3
    with pytest.raises(
        CatalogueError, match=r"ended after .* bytes were received and kept; repeat the download"
    ):
        fetch(home, server)
    assert listed_models(home) == [] and partial_size(home) >= 90_000
    server.requests.clear()
    assert is_complete(fetch(home, server))
    ranges = [header for path, header in server.requests if path == WEIGHTS_PATH]
    assert ranges == ["bytes=90000-"]


def test_download_restarts_on_a_server_without_range_support(home, server):
    serve_catalogue(server, {("en-pt", "tiny"): FILES})
    server.paths[WEIGHTS_PATH].cut = [60_000]
    server.paths[WEIGHTS_PATH].ranges = False
    assert is_complete(fetch(home, server))


@pytest.mark.parametrize("content_range", ["bytes 0-9/10", "bytes 5-1/7", "bytes */9", "", "x"])
def test_wrong_content_range_header_restarts_the_download(home, server, content_range):
    serve_catalogue(server, {("en-pt", "tiny"): FILES})
    server.paths[WEIGHTS_PATH].cut = [30_000]
    server.paths[WEIGHTS_PATH].wrong_extent = content_range
    assert is_complete(fetch(home, server))


def test_changed_file_is_downloaded_again(home, server):
    serve_catalogue(server, {("en-pt", "tiny"): FILES})
    server.paths[WEIGHTS_PATH].cut = [30_000] * 3
    with pytest.raises(CatalogueError):
        fetch(home, server)
    newer = FILES | {MODEL: bytes(reversed(FILES[MODEL]))}
    serve_catalogue(server, {("en-pt", "tiny"): newer})  # another ETag: If-Range returns the full file
    assert is_complete(fetch(home, server), newer)


def test_file_mixed_from_two_versions_is_downloaded_again(home, server):
    serve_catalogue(server, {("en-pt", "tiny"): FILES})
    server.paths[WEIGHTS_PATH].cut = [30_000] * 3
    with pytest.raises(CatalogueError):
        fetch(home, server)
    newer = FILES | {MODEL: bytes(reversed(FILES[MODEL]))}
    tag = server.paths[WEIGHTS_PATH].tag
    serve_catalogue(server, {("en-pt", "tiny"): newer})
    server.paths[WEIGHTS_PATH].tag = tag  # wrongly the same ETag for other bytes
    assert is_complete(fetch(home, server), newer)


def test_download_with_a_wrong_hash_is_discarded(home, server):
    serve_catalogue(server, {("en-pt", "tiny"): FILES})
    server.put(WEIGHTS_PATH[1:], gzip.compress(bytes(len(FILES[MODEL]))))
    with pytest.raises(
        CatalogueError, match=rf"{MODEL}: has the SHA-256 [0-9a-f]+, but the catalogue states"
    ):
        fetch(home, server)
    assert listed_models(home) == []
    assert not list((home / "models/.incomplete").rglob(f"{MODEL}*"))


def test_unpacking_of_a_decompression_bomb_is_aborted(home, server):
    serve_catalogue(server, {("en-pt", "tiny"): FILES})
    server.put(WEIGHTS_PATH[1:], gzip.compress(bytes(200 * len(FILES[MODEL]))))
    with pytest.raises(CatalogueError, match=rf"{MODEL}: unpacks to more than the 200000 bytes"):
        fetch(home, server)
    assert listed_models(home) == []


def test_download_of_an_endless_body_is_aborted(home, server):
    serve_catalogue(server, {("en-pt", "tiny"): FILES})
    server.paths[WEIGHTS_PATH].endless = server.paths[WEIGHTS_PATH].lengthless = True
    with pytest.raises(CatalogueError, match=r"sends more than the \d+ bytes"):
        fetch(home, server)
    assert listed_models(home) == []


def test_excessive_content_length_is_refused(home, server):
    serve_catalogue(server, {("en-pt", "tiny"): FILES})
    server.paths[WEIGHTS_PATH].headers["Content-Length"] = str(10**15)
    with pytest.raises(CatalogueError, match=r"has 1000000000000000 bytes, more than"):
        fetch(home, server)


def test_slow_download_is_aborted_and_its_partial_file_is_kept(home, server):
    serve_catalogue(server, {("en-pt", "tiny"): FILES})
    server.paths[WEIGHTS_PATH].throttle = (100, 0.05)
    started = time.monotonic()
    with pytest.raises(
        CatalogueError, match=r"bytes per second, less than .* received and kept; repeat the download"
    ):
        fetch(home, server)
    assert time.monotonic() - started < 10
    assert partial_size(home) > 0


@pytest.mark.parametrize("path", ["/models.json", WEIGHTS_PATH])
def test_request_to_a_silent_server_times_out(home, server, path):
    serve_catalogue(server, {("en-pt", "tiny"): FILES})
    server.paths[path].silent = 60
    limits = Limits(**FAST_LIMITS | {"timeout": 0.3, "attempts": 9, "patience": 0.3})
    server.requests.clear()
    with pytest.raises(CatalogueError, match=r"no answer within 0\.3 seconds"):
        catalogue.download("en-pt", mirror=server.url, limits=limits, environment={"UWAGA_HOME": str(home)})
    assert [path_ for path_, _ in server.requests].count(path) == 1


GREETING = b"HTTP/1.1 200 OK\r\n"
ENDLESS_RESPONSES = {
    "status": [b"H"],
    "headers": [GREETING, *[b"X: y\r\n"] * 90],
    "later": [b"HTTP/1.1 100 Continue\r\n\r\n"] * 9999,
    "trailers": [GREETING, b"Transfer-Encoding: chunked\r\n\r\n0\r\n", *[b"X: y\r\n"] * 9999],
    "length of a chunk": [GREETING, b"Transfer-Encoding: chunked\r\n\r\n", *[b"0"] * 9999],
}


@pytest.mark.parametrize("response", ENDLESS_RESPONSES)
def test_very_slow_response_times_out(response):
    """Each chunk arrives in time, but the response never ends, so an idle timeout would not suffice."""
    listener = socket.create_server(("127.0.0.1", 0))

    def trickle() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            try:
                for chunk in ENDLESS_RESPONSES[response]:
                    connection.sendall(chunk)
                    time.sleep(0.02)
                time.sleep(60)
            except OSError:
                connection.close()

    threading.Thread(target=trickle, daemon=True).start()
    limits = Limits(**FAST_LIMITS | {"timeout": 0.4, "attempts": 1})
    started = time.monotonic()
    with pytest.raises(CatalogueError, match=r"no answer|connection broke|nothing has arrived|ended"):
        catalogue.listing(mirror=f"http://127.0.0.1:{listener.getsockname()[1]}", limits=limits)
    listener.close()
    assert time.monotonic() - started < 5


def test_first_failure_cancels_all_other_downloads_of_the_call(home, server):
    serve_catalogue(server, {("en-pt", "tiny"): FILES})
    server.paths[WEIGHTS_PATH].throttle = (1000, 0.05)  # ten seconds, and fast enough
    server.paths["/models/en-pt/tiny_x/exported/vocab.enpt.spm.gz"].status = 403
    started = time.monotonic()
    with pytest.raises(CatalogueError, match=r"vocab\.enpt\.spm\.gz: the server answers 403 Forbidden"):
        fetch(home, server)
    assert time.monotonic() - started < 5


def test_requests_are_repeated_after_temporary_errors(home, server):
    serve_catalogue(server, {("en-pt", "tiny"): FILES})
    server.paths[WEIGHTS_PATH].status = 503
    threading.Timer(0.02, lambda: setattr(server.paths[WEIGHTS_PATH], "status", 200)).start()
    limits = Limits(**FAST_LIMITS | {"pause": 0.1})
    environment = {"UWAGA_HOME": str(home)}
    assert is_complete(catalogue.download("en-pt", mirror=server.url, limits=limits, environment=environment))


def test_unreachable_server_error_explains_manual_installation(home, server):
    serve_catalogue(server, {("en-pt", "tiny"): FILES})
    nowhere = f"http://127.0.0.1:{closed_port()}"
    with pytest.raises(CatalogueError) as caught:
        catalogue.download("en-pt", mirror=nowhere, limits=LIMITS, environment={"UWAGA_HOME": str(home)})
    text = str(caught.value)
    assert "cannot be reached" in text and str(home / "models") in text and "UWAGA_FIREFOX_URL" in text
    server.paths[WEIGHTS_PATH].status = 502
    with pytest.raises(CatalogueError) as caught:
        fetch(home, server)
    text = str(caught.value)
    assert f"{server.url}{WEIGHTS_PATH}" in text and f"uwaga models download {NAME}" in text
    assert str(home / "models") in text


def test_redirects_are_followed_up_to_a_limit(home, server):
    serve_catalogue(server, {("en-pt", "tiny"): FILES})
    moved = server.paths[WEIGHTS_PATH]
    server.paths["/elsewhere"] = moved
    server.put(WEIGHTS_PATH[1:], b"", status=302, headers={"Location": "/elsewhere"})
    assert is_complete(fetch(home, server))
    server.put("models.json", b"", status=302, headers={"Location": "/models.json"})
    with pytest.raises(CatalogueError, match="more than 5 redirects"):
        catalogue.listing(mirror=server.url, limits=LIMITS)


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "ftp://127.0.0.1/x", "http://[", "javascript:1", ""]
)
def test_unsafe_redirects_are_refused(server, location):
    server.put("models.json", b"", status=302, headers={"Location": location})
    with pytest.raises(CatalogueError, match=r"the address must|not a valid address|more than 5 redirects"):
        catalogue.listing(mirror=server.url, limits=LIMITS)


def test_credentials_in_urls_are_sent_but_not_stored_or_displayed(home, server):
    serve_catalogue(server, {("en-pt", "tiny"): FILES})
    mirror = server.url.replace("http://", "http://someone:s%40cret@")
    environment = {"UWAGA_HOME": str(home), "UWAGA_FIREFOX_URL": mirror}
    folder = catalogue.download("en-pt", limits=LIMITS, environment=environment)
    assert {headers.get("Authorization") for headers in server.headers} == {"Basic c29tZW9uZTpzQGNyZXQ="}
    for path in folder.iterdir():
        assert b"cret" not in path.read_bytes() or path.name.startswith(("model", "lex", "vocab"))
    server.put("models.json", b"no", status=200)
    with pytest.raises(CatalogueError) as caught:
        catalogue.listing(limits=LIMITS, environment=environment)
    assert "cret" not in str(caught.value)


def test_update_replaces_a_changed_model(home, server):
    serve_catalogue(server, {("en-pt", "tiny"): FILES})
    folder = fetch(home, server)
    inode = (folder / "origin.json").stat().st_ino
    assert fetch(home, server, update=True) == folder
    assert (folder / "origin.json").stat().st_ino == inode
    newer = FILES | {MODEL: bytes(reversed(FILES[MODEL]))}
    serve_catalogue(server, {("en-pt", "tiny"): newer})
    assert is_complete(fetch(home, server), FILES)
    assert is_complete(fetch(home, server, update=True), newer)


@pytest.mark.parametrize("damage", ["missing", "short", "record"])
def test_damaged_model_is_downloaded_again(home, server, damage):
    serve_catalogue(server, {("en-pt", "tiny"): FILES})
    folder = fetch(home, server)
    if damage == "missing":
        (folder / MODEL).unlink()
    elif damage == "short":
        (folder / MODEL).write_bytes(b"x")
    else:
        (folder / "origin.json").write_text("{")
    if damage != "record":
        (model,) = downloaded_models({"UWAGA_HOME": str(home)})
        assert MODEL in model.problems[0] and f"uwaga models download {NAME}" in model.problems[0]
    assert is_complete(fetch(home, server))


def test_unrelated_folder_is_not_replaced(home, server):
    serve_catalogue(server, {("en-pt", "tiny"): FILES})
    folder = home / "models" / NAME
    folder.mkdir(parents=True)
    (folder / "work.txt").write_text("mine")
    with pytest.raises(CatalogueError, match="not a downloaded model"):
        fetch(home, server)
    assert (folder / "work.txt").read_text() == "mine"


def test_full_disk_is_reported_before_the_download(home, server, monkeypatch):
    serve_catalogue(server, {("en-pt", "tiny"): FILES})
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr("uwaga.library.install.shutil.disk_usage", lambda path: usage)
    with pytest.raises(CatalogueError, match="UWAGA_HOME"):
        fetch(home, server)
    assert len(server.requests) == 1


def test_unwritable_model_folder_is_reported(tmp_path, server):
    serve_catalogue(server, {("en-pt", "tiny"): FILES})
    (tmp_path / "home").write_text("a file")
    with pytest.raises(CatalogueError, match=r"home.*cannot be written.*UWAGA_HOME"):
        fetch(tmp_path / "home", server)


def test_concurrent_threads_download_a_model_only_once(home, server):
    serve_catalogue(server, {("en-pt", "tiny"): FILES})
    messages = []
    server.paths[WEIGHTS_PATH].throttle = (20_000, 0.05)
    folders = in_threads(lambda _: fetch(home, server, on_wait=messages.append), range(3))
    assert len(folders) == 3 and is_complete(folders[0])
    assert len([path for path, _ in server.requests if path == WEIGHTS_PATH]) == 1
    assert messages and NAME in messages[0]


def start_download(home: Path, server: ModelServer) -> subprocess.Popen[str]:
    words = ["models", "download", "en-pt", "--yes", "--mirror", server.url]
    environment = os.environ | {"UWAGA_HOME": str(home), "no_proxy": "*"}
    return subprocess.Popen(
        [sys.executable, "-m", "uwaga", *words], env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_concurrent_processes_download_a_model_only_once(home, server):
    serve_catalogue(server, {("en-pt", "tiny"): FILES})
    drop = len(server.paths[WEIGHTS_PATH].body) // 20
    server.paths[WEIGHTS_PATH].throttle = (drop, 0.3)  # long enough for another process to start
    first = start_download(home, server)
    eventually(lambda: any(path == WEIGHTS_PATH for path, _ in server.requests))
    second = start_download(home, server)
    outputs = [process.communicate(timeout=60) for process in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0], outputs
    assert outputs[0][0] == outputs[1][0] and is_complete(Path(outputs[0][0].strip()))
    assert "waiting for it" in outputs[1][1]
    assert len([path for path, _ in server.requests if path == WEIGHTS_PATH]) == 1


@pytest.mark.sampled(3)
@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_terminated_download_resumes_in_the_next_process(home, server, signal_number):
    serve_catalogue(server, {("en-pt", "tiny"): FILES})
    server.paths[WEIGHTS_PATH].throttle = (20_000, 0.3)
    process = start_download(home, server)
    eventually(lambda: (home / "models/.incomplete").exists() and partial_size(home) > 40_000)
    process.send_signal(signal_number)
    out, errors = process.communicate(timeout=30)
    assert process.returncode == {signal.SIGKILL: -9, signal.SIGINT: 130, signal.SIGTERM: 143}[signal_number]
    assert "Traceback" not in errors and out == ""
    assert listed_models(home) == []
    server.paths[WEIGHTS_PATH].throttle = None
    server.requests.clear()
    assert is_complete(fetch(home, server))
    (range_header,) = [range_header for path, range_header in server.requests if path == WEIGHTS_PATH]
    assert range_header.startswith("bytes=") and range_header != "bytes=0-"
    assert listed_models(home) == [NAME] and not list((home / "models/.incomplete").iterdir())


def test_temporary_files_of_a_killed_installation_are_removed(home, server):
    serve_catalogue(server, {("en-pt", "tiny"): FILES})
    leftover = home / "models" / f".{NAME}.0123abcd.part"
    leftover.mkdir(parents=True)
    (leftover / MODEL).write_bytes(b"half")
    folder = fetch(home, server)
    assert not leftover.exists()
    catalogue.remove(NAME, {"UWAGA_HOME": str(home)})
    assert not folder.exists() and listed_models(home) == []


@pytest.mark.parametrize(
    "record", ["", "[]", "{", '{"location": 1}', '{"validator": "\\r\\nX: y"}', "[" * 9999]
)
def test_corrupted_records_of_a_partial_download_restart_it(home, server, record):
    serve_catalogue(server, {("en-pt", "tiny"): FILES})
    parts = home / "models/.incomplete" / NAME
    parts.mkdir(parents=True)
    (parts / f"{MODEL}.part").write_bytes(b"nonsense")
    (parts / f"{MODEL}.part.json").write_text(record)
    assert is_complete(fetch(home, server))


def test_planted_symbolic_link_is_not_followed(home, server, tmp_path):
    serve_catalogue(server, {("en-pt", "tiny"): FILES})
    victim = tmp_path / "victim"
    victim.write_text("precious")
    parts = home / "models/.incomplete" / NAME
    parts.mkdir(parents=True)
    (parts / f"{MODEL}.part").symlink_to(victim)
    assert is_complete(fetch(home, server))
    assert victim.read_text() == "precious"


def test_installation_record_describes_the_model(home, server):
    serve_catalogue(server, {("en-pt", "tiny"): FILES})
    folder = fetch(home, server)
    values = json.loads((folder / "origin.json").read_text())
    assert values["format"] == 1 and set(values["files"]) == set(FILES)
    models = catalogue.find_installed("en", "pt", {"UWAGA_HOME": str(home), "XDG_DATA_HOME": str(home)})
    assert [model.name for model in models if model.kind == "catalogue"] == [NAME]
    assert catalogue.path(NAME, {"UWAGA_HOME": str(home)}) == folder
    with pytest.raises(UwagaError, match="no installed model"):
        catalogue.path("firefox-en-pt-huge", {"UWAGA_HOME": str(home)})


@pytest.fixture
def tls_certificate(server, tmp_path):
    """Make the server use TLS, and return the path of the certificate to trust."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    words = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*words.split(), *names], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.server.socket = context.wrap_socket(server.server.socket, server_side=True)
    server.url = server.url.replace("http:", "https:")
    return certificate


def test_https_requires_a_trusted_certificate(home, server, tls_certificate, monkeypatch):
    serve_catalogue(server, {("en-pt", "tiny"): FILES})
    with pytest.raises(CatalogueError, match="its certificate is not trusted"):
        fetch(home, server)
    monkeypatch.setenv("SSL_CERT_FILE", str(tls_certificate))
    server.paths[WEIGHTS_PATH].cut = [60_000]
    assert is_complete(fetch(home, server))
    plain = server.url.replace("https:", "http:")
    server.put("models.json", b"", status=307, headers={"Location": f"{plain}/models.json"})
    with pytest.raises(CatalogueError, match="not encrypted; the redirect is refused"):
        catalogue.listing(mirror=server.url, limits=LIMITS)


def test_proxy_from_environment_variables_is_used(home, server, monkeypatch):
    serve_catalogue(server, {("en-pt", "tiny"): FILES})
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    server.paths = {f"http://models.invalid{path}": response for path, response in server.paths.items()}
    environment = {"UWAGA_HOME": str(home)}
    mirror = "http://models.invalid"
    assert is_complete(catalogue.download("en-pt", mirror=mirror, limits=LIMITS, environment=environment))


@pytest.mark.parametrize("shared", [True, False], ids=["one vocabulary", "two vocabularies"])
def test_downloaded_model_translates(home, server, tmp_path, monkeypatch, shared):
    write_student(tmp_path / "student", shared=shared)
    files = {path.name: path.read_bytes() for path in (tmp_path / "student").iterdir()}
    serve_catalogue(server, {("en-de", "tiny"): files})
    monkeypatch.setenv("UWAGA_HOME", str(home))
    assert is_complete(fetch(home, server, "en-de"), files)
    texts = ["twenty one", "three hundred and five"]
    direct = uwaga.load(tmp_path / "student", threads=1).translate(texts)
    assert uwaga.load("firefox-en-de-tiny", threads=1).translate(texts) == direct
    (model,) = [
        installed_model
        for installed_model in catalogue.installed_models(describe_all=True)
        if installed_model.kind == "catalogue"
    ]
    assert model.description.format == "Marian" and model.problems == ()
    assert model.description.languages == model.languages == (("en",), ("de",))
