"""Downloads over a real connection: whole or not at all, resumed, bounded in size and in time."""

from __future__ import annotations

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
from model_server import FAST, ModelServer, closed_port, contents, serving, storage
from waiting import eventually

import uwaga
from uwaga import library as catalogue
from uwaga.errors import CatalogueError, UwagaError
from uwaga.library import Limits
from uwaga.library.installed import downloaded_models, read_origin

LIMITS = Limits(**FAST)
NAME = "firefox-en-pt-tiny"
FILES = contents("en-pt")
MODEL = "model.enpt.intgemm.alphas.bin"
SENT = f"/models/en-pt/tiny_x/exported/{MODEL}.gz"


@pytest.fixture
def server():
    with serving() as found:
        yield found


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def fetch(home: Path, server: ModelServer, model: str = "en-pt", **options: object) -> Path:
    return catalogue.download(
        model, mirror=server.url, limits=LIMITS, environment={"UWAGA_HOME": str(home)}, **options
    )


def whole(folder: Path, files: dict[str, bytes] = FILES) -> bool:
    return all((folder / name).read_bytes() == content for name, content in files.items())


def visible(home: Path) -> list[str]:
    """What a listing of the folder of models shows; what is hidden there is in work or uwaga's own."""
    return sorted(one.name for one in (home / "models").iterdir() if not one.name.startswith("."))


def kept(home: Path) -> int:
    return sum(one.stat().st_size for one in (home / "models/.incomplete").rglob("*.part"))


def test_a_model_is_installed_with_its_record_and_its_licence(home, server):
    storage(server, {("en-pt", "tiny"): FILES})
    seen: list[tuple[int, int | None]] = []
    folder = fetch(home, server, progress=lambda now, total: seen.append((now, total)))
    assert folder == home / "models" / NAME and whole(folder)
    origin = read_origin(folder)
    assert (origin.source, origin.architecture, origin.licence) == ("firefox", "tiny", "MPL-2.0")
    assert (origin.source_languages, origin.target_languages) == (("en",), ("pt",))
    assert origin.metrics["flores200-plus bleu"] == 45.0 and origin.parameters == 16907062
    for name, content in FILES.items():
        assert origin.files[name].sha256 == hashlib.sha256(content).hexdigest()
        assert origin.files[name].location.endswith(f"{name}.gz")
    assert "mozilla.org/MPL/2.0" in (folder / "card.md").read_text()
    assert seen[-1][0] == seen[-1][1] == sum(len(server.paths[path].body) for path, _ in server.requests[1:])
    assert sorted(one.name for one in folder.iterdir()) == sorted([*FILES, "card.md", "origin.json"])
    assert visible(home) == [NAME] and not list((home / "models/.incomplete").iterdir())


def test_nothing_is_fetched_but_the_catalogue_and_what_was_asked_for(home, server):
    storage(server, {("en-pt", "tiny"): FILES, ("en-de", "tiny"): contents("en-de")})
    fetch(home, server)
    asked = [path for path, _ in server.requests]
    assert asked[0] == "/models.json" and len(asked) == 4
    assert all("/en-pt/" in path for path in asked[1:])
    before = len(server.requests)
    assert fetch(home, server) == fetch(home, server, NAME)  # installed: nobody is asked
    assert len(server.requests) == before


def test_the_best_model_of_a_pair_is_chosen_unless_another_is_named(home, server):
    storage(server, {("en-pt", "tiny"): FILES, ("en-pt", "base"): contents("en-pt", 300_000)})
    assert fetch(home, server, architecture="tiny").name == NAME
    assert fetch(home, server, architecture="base").name == "firefox-en-pt-base"
    catalogue.remove("firefox-en-pt-base", {"UWAGA_HOME": str(home)})
    catalogue.remove(NAME, {"UWAGA_HOME": str(home)})
    assert fetch(home, server).name == "firefox-en-pt-base"
    with pytest.raises(CatalogueError, match=r"no architecture 'huge'; there is base, tiny"):
        fetch(home, server, architecture="huge")


@pytest.mark.parametrize("no_answer", [False, True])
def test_a_no_to_the_licence_fetches_nothing(home, server, no_answer):
    storage(server, {("en-pt", "tiny"): FILES})
    with pytest.raises(CatalogueError, match="licence was not accepted"):
        fetch(home, server, confirm=lambda entry: no_answer and entry.licence != "MPL-2.0")
    assert [path for path, _ in server.requests] == ["/models.json"]
    assert not (home / "models").exists()


def test_what_breaks_off_is_gone_on_with_in_one_call(home, server):
    storage(server, {("en-pt", "tiny"): FILES})
    server.paths[SENT].cut = [60_000, 70_000]
    assert whole(fetch(home, server))
    ranges = [asked for path, asked in server.requests if path == SENT]
    assert ranges[0] == "" and len(ranges) == 3
    begun = [int(one.removeprefix("bytes=").removesuffix("-")) for one in ranges[1:]]
    assert 0 < begun[0] <= 60_000 < begun[1] <= 130_000


def test_what_breaks_off_again_and_again_is_kept_and_gone_on_with_by_the_next_call(home, server):
    storage(server, {("en-pt", "tiny"): FILES})
    server.paths[SENT].cut = [30_000] * 3
    with pytest.raises(CatalogueError, match=r"ended after .* bytes have come and are kept: run it again"):
        fetch(home, server)
    assert visible(home) == [] and kept(home) >= 90_000
    server.requests.clear()
    assert whole(fetch(home, server))
    asked = [asked for path, asked in server.requests if path == SENT]
    assert asked == ["bytes=90000-"]


def test_a_server_without_ranges_starts_again(home, server):
    storage(server, {("en-pt", "tiny"): FILES})
    server.paths[SENT].cut = [60_000]
    server.paths[SENT].ranges = False
    assert whole(fetch(home, server))


@pytest.mark.parametrize("extent", ["bytes 0-9/10", "bytes 5-1/7", "bytes */9", "", "x"])
def test_a_server_that_gives_another_part_is_asked_for_all(home, server, extent):
    storage(server, {("en-pt", "tiny"): FILES})
    server.paths[SENT].cut = [30_000]
    server.paths[SENT].wrong_extent = extent
    assert whole(fetch(home, server))


def test_a_file_that_changed_in_between_is_fetched_whole(home, server):
    storage(server, {("en-pt", "tiny"): FILES})
    server.paths[SENT].cut = [30_000] * 3
    with pytest.raises(CatalogueError):
        fetch(home, server)
    newer = FILES | {MODEL: bytes(reversed(FILES[MODEL]))}
    storage(server, {("en-pt", "tiny"): newer})  # another ETag: If-Range gives all of it
    assert whole(fetch(home, server), newer)


def test_a_server_that_joins_two_versions_is_found_out_and_asked_once_more(home, server):
    storage(server, {("en-pt", "tiny"): FILES})
    server.paths[SENT].cut = [30_000] * 3
    with pytest.raises(CatalogueError):
        fetch(home, server)
    newer = FILES | {MODEL: bytes(reversed(FILES[MODEL]))}
    tag = server.paths[SENT].tag
    storage(server, {("en-pt", "tiny"): newer})
    server.paths[SENT].tag = tag  # it lies: the same ETag for other bytes
    assert whole(fetch(home, server), newer)


def test_wrong_bytes_are_refused_and_not_kept(home, server):
    storage(server, {("en-pt", "tiny"): FILES})
    server.put(SENT[1:], gzip.compress(bytes(len(FILES[MODEL]))))
    with pytest.raises(CatalogueError, match=rf"{MODEL}: its SHA-256 is [0-9a-f]+, the catalogue says"):
        fetch(home, server)
    assert visible(home) == []
    assert not list((home / "models/.incomplete").rglob(f"{MODEL}*"))


def test_a_bomb_is_stopped_at_the_size_that_the_catalogue_states(home, server):
    storage(server, {("en-pt", "tiny"): FILES})
    server.put(SENT[1:], gzip.compress(bytes(200 * len(FILES[MODEL]))))
    with pytest.raises(CatalogueError, match=rf"{MODEL}: unpacks to more than the 200000 bytes"):
        fetch(home, server)
    assert visible(home) == []


def test_a_body_that_never_ends_is_stopped(home, server):
    storage(server, {("en-pt", "tiny"): FILES})
    server.paths[SENT].endless = server.paths[SENT].lengthless = True
    with pytest.raises(CatalogueError, match=r"sends more than the \d+ bytes"):
        fetch(home, server)
    assert visible(home) == []


def test_a_body_that_is_announced_too_large_is_not_begun(home, server):
    storage(server, {("en-pt", "tiny"): FILES})
    server.paths[SENT].headers["Content-Length"] = str(10**15)
    with pytest.raises(CatalogueError, match=r"has 1000000000000000 bytes, more than"):
        fetch(home, server)


def test_a_slow_server_is_given_up_and_what_came_is_kept(home, server):
    storage(server, {("en-pt", "tiny"): FILES})
    server.paths[SENT].drip = (100, 0.05)
    began = time.monotonic()
    with pytest.raises(CatalogueError, match=r"bytes a second, fewer than .* are kept: run it again"):
        fetch(home, server)
    assert time.monotonic() - began < 10
    assert kept(home) > 0


@pytest.mark.parametrize("path", ["/models.json", SENT])
def test_a_server_that_says_nothing_is_given_up(home, server, path):
    storage(server, {("en-pt", "tiny"): FILES})
    server.paths[path].silent = 60
    limits = Limits(**FAST | {"timeout": 0.3, "attempts": 9, "patience": 0.3})
    server.requests.clear()
    with pytest.raises(CatalogueError, match=r"no answer within 0\.3 seconds"):
        catalogue.download("en-pt", mirror=server.url, limits=limits, environment={"UWAGA_HOME": str(home)})
    assert [asked for asked, _ in server.requests].count(path) == 1


GREETING = b"HTTP/1.1 200 OK\r\n"
WITHOUT_END = {
    "status": [b"H"],
    "headers": [GREETING, *[b"X: y\r\n"] * 90],
    "later": [b"HTTP/1.1 100 Continue\r\n\r\n"] * 9999,
    "trailers": [GREETING, b"Transfer-Encoding: chunked\r\n\r\n0\r\n", *[b"X: y\r\n"] * 9999],
    "length of a chunk": [GREETING, b"Transfer-Encoding: chunked\r\n\r\n", *[b"0"] * 9999],
}


@pytest.mark.parametrize("what", WITHOUT_END)
def test_an_answer_that_trickles_without_end_is_given_up(what):
    """Each part comes in time, the answer never: a limit of silence alone would wait for ever."""
    listener = socket.create_server(("127.0.0.1", 0))

    def trickle() -> None:
        while True:
            try:
                one, _ = listener.accept()
            except OSError:
                return
            try:
                for part in WITHOUT_END[what]:
                    one.sendall(part)
                    time.sleep(0.02)
                time.sleep(60)
            except OSError:
                one.close()

    threading.Thread(target=trickle, daemon=True).start()
    limits = Limits(**FAST | {"timeout": 0.4, "attempts": 1})
    began = time.monotonic()
    with pytest.raises(CatalogueError, match=r"no answer|broke off|nothing has arrived|ended"):
        catalogue.listing(mirror=f"http://127.0.0.1:{listener.getsockname()[1]}", limits=limits)
    listener.close()
    assert time.monotonic() - began < 5


def test_the_first_failure_ends_the_other_downloads(home, server):
    storage(server, {("en-pt", "tiny"): FILES})
    server.paths[SENT].drip = (1000, 0.05)  # ten seconds, and fast enough
    server.paths["/models/en-pt/tiny_x/exported/vocab.enpt.spm.gz"].status = 403
    began = time.monotonic()
    with pytest.raises(CatalogueError, match=r"vocab\.enpt\.spm\.gz: the server answers 403 Forbidden"):
        fetch(home, server)
    assert time.monotonic() - began < 5


def test_passing_errors_are_tried_again(home, server):
    storage(server, {("en-pt", "tiny"): FILES})
    server.paths[SENT].status = 503
    threading.Timer(0.02, lambda: setattr(server.paths[SENT], "status", 200)).start()
    limits = Limits(**FAST | {"pause": 0.1})
    environment = {"UWAGA_HOME": str(home)}
    assert whole(catalogue.download("en-pt", mirror=server.url, limits=limits, environment=environment))


def test_without_a_network_it_is_said_what_to_copy_where(home, server):
    storage(server, {("en-pt", "tiny"): FILES})
    nowhere = f"http://127.0.0.1:{closed_port()}"
    with pytest.raises(CatalogueError) as caught:
        catalogue.download("en-pt", mirror=nowhere, limits=LIMITS, environment={"UWAGA_HOME": str(home)})
    text = str(caught.value)
    assert "cannot be reached" in text and str(home / "models") in text and "UWAGA_FIREFOX_URL" in text
    server.paths[SENT].status = 502
    with pytest.raises(CatalogueError) as caught:
        fetch(home, server)
    text = str(caught.value)
    assert f"{server.url}{SENT}" in text and f"uwaga models download {NAME}" in text
    assert str(home / "models") in text


def test_redirects_are_followed_and_counted(home, server):
    storage(server, {("en-pt", "tiny"): FILES})
    moved = server.paths[SENT]
    server.paths["/elsewhere"] = moved
    server.put(SENT[1:], b"", status=302, headers={"Location": "/elsewhere"})
    assert whole(fetch(home, server))
    server.put("models.json", b"", status=302, headers={"Location": "/models.json"})
    with pytest.raises(CatalogueError, match="more than 5 redirects"):
        catalogue.listing(mirror=server.url, limits=LIMITS)


@pytest.mark.parametrize("place", ["file:///etc/passwd", "ftp://127.0.0.1/x", "http://[", "javascript:1", ""])
def test_redirects_lead_nowhere_else(server, place):
    server.put("models.json", b"", status=302, headers={"Location": place})
    with pytest.raises(CatalogueError, match=r"refused|more than 5 redirects"):
        catalogue.listing(mirror=server.url, limits=LIMITS)


def test_credentials_are_sent_to_their_host_alone_and_stored_nowhere(home, server):
    storage(server, {("en-pt", "tiny"): FILES})
    mirror = server.url.replace("http://", "http://someone:s%40cret@")
    environment = {"UWAGA_HOME": str(home), "UWAGA_FIREFOX_URL": mirror}
    folder = catalogue.download("en-pt", limits=LIMITS, environment=environment)
    assert {one.get("Authorization") for one in server.headers} == {"Basic c29tZW9uZTpzQGNyZXQ="}
    for path in folder.iterdir():
        assert b"cret" not in path.read_bytes() or path.name.startswith(("model", "lex", "vocab"))
    server.put("models.json", b"no", status=200)
    with pytest.raises(CatalogueError) as caught:
        catalogue.listing(limits=LIMITS, environment=environment)
    assert "cret" not in str(caught.value)


def test_an_update_replaces_what_changed_and_nothing_else(home, server):
    storage(server, {("en-pt", "tiny"): FILES})
    folder = fetch(home, server)
    before = (folder / "origin.json").stat().st_ino
    assert fetch(home, server, update=True) == folder
    assert (folder / "origin.json").stat().st_ino == before
    newer = FILES | {MODEL: bytes(reversed(FILES[MODEL]))}
    storage(server, {("en-pt", "tiny"): newer})
    assert whole(fetch(home, server), FILES)
    assert whole(fetch(home, server, update=True), newer)


@pytest.mark.parametrize("damage", ["missing", "short", "record"])
def test_a_damaged_installation_is_downloaded_again(home, server, damage):
    storage(server, {("en-pt", "tiny"): FILES})
    folder = fetch(home, server)
    if damage == "missing":
        (folder / MODEL).unlink()
    elif damage == "short":
        (folder / MODEL).write_bytes(b"x")
    else:
        (folder / "origin.json").write_text("{")
    if damage != "record":
        (found,) = downloaded_models({"UWAGA_HOME": str(home)})
        assert MODEL in found.problems[0] and f"uwaga models download {NAME}" in found.problems[0]
    assert whole(fetch(home, server))


def test_a_folder_that_is_no_download_is_not_replaced(home, server):
    storage(server, {("en-pt", "tiny"): FILES})
    mine = home / "models" / NAME
    mine.mkdir(parents=True)
    (mine / "work.txt").write_text("mine")
    with pytest.raises(CatalogueError, match="not a downloaded model"):
        fetch(home, server)
    assert (mine / "work.txt").read_text() == "mine"


def test_a_disk_without_room_is_said_before_anything_is_fetched(home, server, monkeypatch):
    storage(server, {("en-pt", "tiny"): FILES})
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr("uwaga.library.install.shutil.disk_usage", lambda place: usage)
    with pytest.raises(CatalogueError, match="UWAGA_HOME"):
        fetch(home, server)
    assert len(server.requests) == 1


def test_a_home_that_cannot_be_written_is_named(tmp_path, server):
    storage(server, {("en-pt", "tiny"): FILES})
    (tmp_path / "home").write_text("a file")
    with pytest.raises(CatalogueError, match=r"home.*cannot be written.*UWAGA_HOME"):
        fetch(tmp_path / "home", server)


def test_threads_of_one_process_fetch_a_model_once(home, server):
    storage(server, {("en-pt", "tiny"): FILES})
    found, told = [], []

    def run() -> None:
        found.append(fetch(home, server, waiting=told.append))

    server.paths[SENT].drip = (20_000, 0.05)
    threads = [threading.Thread(target=run) for _ in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(30)
    assert len(found) == 3 and whole(found[0])
    assert len([path for path, _ in server.requests if path == SENT]) == 1
    assert told and NAME in told[0]


def start(home: Path, server: ModelServer) -> subprocess.Popen[str]:
    words = ["models", "download", "en-pt", "--yes", "--mirror", server.url]
    environment = os.environ | {"UWAGA_HOME": str(home), "no_proxy": "*"}
    return subprocess.Popen(
        [sys.executable, "-m", "uwaga", *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_processes_bring_a_model_once(home, server):
    storage(server, {("en-pt", "tiny"): FILES})
    drop = len(server.paths[SENT].body) // 20
    server.paths[SENT].drip = (drop, 0.3)  # long enough for another process to start meanwhile
    first = start(home, server)
    eventually(lambda: any(path == SENT for path, _ in server.requests))
    second = start(home, server)
    ended = [one.communicate(timeout=60) for one in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0], ended
    assert ended[0][0] == ended[1][0] and whole(Path(ended[0][0].strip()))
    assert "waiting for it" in ended[1][1]
    assert len([path for path, _ in server.requests if path == SENT]) == 1


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_download_that_is_ended_leaves_nothing_half_installed_and_is_gone_on_with(home, server, how):
    storage(server, {("en-pt", "tiny"): FILES})
    server.paths[SENT].drip = (20_000, 0.3)
    process = start(home, server)
    eventually(lambda: (home / "models/.incomplete").exists() and kept(home) > 40_000)
    process.send_signal(how)
    out, errors = process.communicate(timeout=30)
    assert process.returncode == {signal.SIGKILL: -9, signal.SIGINT: 130, signal.SIGTERM: 143}[how]
    assert "Traceback" not in errors and out == ""
    assert visible(home) == []
    server.paths[SENT].drip = None
    server.requests.clear()
    assert whole(fetch(home, server))
    (asked,) = [asked for path, asked in server.requests if path == SENT]
    assert asked.startswith("bytes=") and asked != "bytes=0-"
    assert visible(home) == [NAME] and not list((home / "models/.incomplete").iterdir())


def test_what_a_killed_installation_has_left_is_removed_by_the_next(home, server):
    storage(server, {("en-pt", "tiny"): FILES})
    left = home / "models" / f".{NAME}.0123abcd.part"
    left.mkdir(parents=True)
    (left / MODEL).write_bytes(b"half")
    folder = fetch(home, server)
    assert not left.exists()
    catalogue.remove(NAME, {"UWAGA_HOME": str(home)})
    assert not folder.exists() and visible(home) == []


@pytest.mark.parametrize(
    "note", ["", "[]", "{", '{"location": 1}', '{"validator": "\\r\\nX: y"}', "[" * 9999]
)
def test_notes_of_downloads_that_somebody_changed_are_begun_again(home, server, note):
    storage(server, {("en-pt", "tiny"): FILES})
    parts = home / "models/.incomplete" / NAME
    parts.mkdir(parents=True)
    (parts / f"{MODEL}.part").write_bytes(b"nonsense")
    (parts / f"{MODEL}.part.json").write_text(note)
    assert whole(fetch(home, server))


def test_a_planted_link_is_not_written_through(home, server, tmp_path):
    storage(server, {("en-pt", "tiny"): FILES})
    victim = tmp_path / "victim"
    victim.write_text("precious")
    parts = home / "models/.incomplete" / NAME
    parts.mkdir(parents=True)
    (parts / f"{MODEL}.part").symlink_to(victim)
    assert whole(fetch(home, server))
    assert victim.read_text() == "precious"


def test_json_of_a_record_is_what_is_installed(home, server):
    storage(server, {("en-pt", "tiny"): FILES})
    folder = fetch(home, server)
    values = json.loads((folder / "origin.json").read_text())
    assert values["format"] == 1 and set(values["files"]) == set(FILES)
    found = catalogue.find_installed("en", "pt", {"UWAGA_HOME": str(home), "XDG_DATA_HOME": str(home)})
    assert [one.name for one in found if one.kind == "catalogue"] == [NAME]
    assert catalogue.path(NAME, {"UWAGA_HOME": str(home)}) == folder
    with pytest.raises(UwagaError, match="no installed model"):
        catalogue.path("firefox-en-pt-huge", {"UWAGA_HOME": str(home)})


@pytest.fixture
def encrypted(server, tmp_path):
    """The server behind TLS, and the certificate that makes it trusted."""
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


def test_https_is_trusted_by_its_certificate_alone_and_not_left_for_http(
    home, server, encrypted, monkeypatch
):
    storage(server, {("en-pt", "tiny"): FILES})
    with pytest.raises(CatalogueError, match="its certificate is not trusted"):
        fetch(home, server)
    monkeypatch.setenv("SSL_CERT_FILE", str(encrypted))
    server.paths[SENT].cut = [60_000]
    assert whole(fetch(home, server))
    plain = server.url.replace("https:", "http:")
    server.put("models.json", b"", status=307, headers={"Location": f"{plain}/models.json"})
    with pytest.raises(CatalogueError, match="not encrypted; refused"):
        catalogue.listing(mirror=server.url, limits=LIMITS)


def test_a_proxy_of_the_environment_is_asked(home, server, monkeypatch):
    storage(server, {("en-pt", "tiny"): FILES})
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    server.paths = {f"http://models.invalid{path}": how for path, how in server.paths.items()}
    environment = {"UWAGA_HOME": str(home)}
    mirror = "http://models.invalid"
    assert whole(catalogue.download("en-pt", mirror=mirror, limits=LIMITS, environment=environment))


@pytest.mark.parametrize("shared", [True, False], ids=["one vocabulary", "two vocabularies"])
def test_what_was_downloaded_loads_by_its_name_and_translates_as_its_files_do(
    home, server, tmp_path, monkeypatch, shared
):
    write_student(tmp_path / "student", shared=shared)
    files = {path.name: path.read_bytes() for path in (tmp_path / "student").iterdir()}
    storage(server, {("en-de", "tiny"): files})
    monkeypatch.setenv("UWAGA_HOME", str(home))
    assert whole(fetch(home, server, "en-de"), files)
    texts = ["twenty one", "three hundred and five"]
    direct = uwaga.load(tmp_path / "student", threads=1).translate(texts)
    assert uwaga.load("firefox-en-de-tiny", threads=1).translate(texts) == direct
    (found,) = [one for one in catalogue.installed_models(described=True) if one.kind == "catalogue"]
    assert found.description.format == "Marian" and found.problems == ()
    assert found.description.languages == found.languages == (("en",), ("de",))
