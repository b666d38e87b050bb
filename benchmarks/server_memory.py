"""Measure the memory of a server under requests designed to fill it: at the start, at the peak, a minute
later.

python benchmarks/server_memory.py [ATTACK ...]

Each attack has a separate server with the bundled model. The bars are at most 200 MiB above the memory at the
start, and 50 MiB above it after a minute, unless glossaries stay ready for translation.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from io import BytesIO
from pathlib import Path

import httpx
from peers.machine import machine, show_machine

MEBIBYTE = 1 << 20
PEAK, LATER = 200, 50
"""Bars in MiB above the memory at the start: for the peak, and a minute later."""


class Server:
    """A server in a child process, whose memory is watched from its start.

    Args:
        folder: the folder for its settings and state.
        settings: the settings of ``uwaga serve``, written as JSON, which is YAML.
    """

    def __init__(self, folder: Path, settings: dict[str, object]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            self.port = int(listening.getsockname()[1])
        file = folder / "server.yaml"
        file.write_text(json.dumps({"port": self.port, "log_level": "error", **settings}), encoding="utf-8")
        command = [sys.executable, "-P", "-m", "uwaga", "serve", "--settings", str(file)]
        self.process = subprocess.Popen(command)
        self.url, self.peak, self._ended = f"http://127.0.0.1:{self.port}", 0, threading.Event()
        while not self._is_ready():
            time.sleep(0.2)
        httpx.post(f"{self.url}/translate", json={"q": "A dog.", "source": "en", "target": "de"}, timeout=60)
        self._watcher = threading.Thread(target=self._watch)
        self._watcher.start()

    def resident(self) -> int:
        """Return the memory of the server in bytes."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * 4096

    def stop(self) -> None:
        """Stop the server."""
        self._ended.set()
        self._watcher.join()
        self.process.terminate()
        try:
            self.process.wait(40)
        except subprocess.TimeoutExpired:
            print("  SIGTERM was not heeded within its grace")
            self.process.kill()

    def _is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/health").status_code == 200
        except httpx.TransportError:
            return False

    def _watch(self) -> None:
        while not self._ended.wait(0.02):
            self.peak = max(self.peak, self.resident())


def unfinished(server: Server, count: int, head: str, beginning: bytes, size: int) -> None:
    """Send requests with bodies that never end, and keep them open for ten seconds."""
    lines = f"POST {head}\r\nhost: localhost\r\ncontent-length: {size}\r\n\r\n".encode()
    body = beginning + b"a" * (size - len(beginning) - 10)
    with ExitStack() as clients:
        for _ in range(count):
            client = clients.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=10))
            try:
                client.sendall(lines + body)
            except OSError:
                continue  # refused before it was sent
        time.sleep(10)


def unfinished_json(server: Server) -> None:
    """Send 300 unfinished bodies of 2 MiB."""
    head = "/translate HTTP/1.1\r\ncontent-type: application/json"
    unfinished(server, 300, head, b'{"q": "', 2 * MEBIBYTE)


def unfinished_fields(server: Server) -> None:
    """Send 60 form fields of 15 MiB."""
    head = "/translate HTTP/1.1\r\ncontent-type: multipart/form-data; boundary=x"
    field = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\n'
    unfinished(server, 60, head, field, 15 * MEBIBYTE)


def unfinished_files(server: Server) -> None:
    """Send 20 files of 30 MiB, which the server stores on disk."""
    head = "/translate_file HTTP/1.1\r\ncontent-type: multipart/form-data; boundary=x"
    field = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
    unfinished(server, 20, head, field, 30 * MEBIBYTE)


def long_codes(server: Server) -> None:
    """Send 30 requests with a source language of 5,000,000 characters, as a form and as JSON."""
    for number in range(30):
        form = {"q": "A dog.", "source": "中" * 600_000 + str(number), "target": "de"}
        parts = {**form, "source": "中" * 5_000_000 + str(number)}
        for content in (
            {"data": form},
            {"json": form},
            {"files": {name: (None, text) for name, text in parts.items()}},
        ):
            with suppress(httpx.TransportError):  # too long a wait, or closed while it was sent
                httpx.post(f"{server.url}/translate", timeout=20, **content)


DEEPL = {"authorization": "DeepL-Auth-Key any"}


def store_glossaries(server: Server) -> list[str]:
    """Store 25 glossaries of 8 MiB, and return their ids."""
    line = "the name of part {0:06} of the machine\tBezeichnung von Teil {0:06}\n"
    entries = "".join(map(line.format, range(8 * MEBIBYTE // len(line.format(0)))))
    ids = []
    for number in range(25):
        form = {"name": f"terms {number}", "source_lang": "en", "target_lang": "de", "entries_format": "tsv"}
        parts = {name: (None, text) for name, text in {**form, "entries": entries}.items()}
        answer = httpx.post(f"{server.url}/v2/glossaries", files=parts, headers=DEEPL, timeout=120)
        ids.append(answer.raise_for_status().json()["glossary_id"])
    return ids


def glossaries(server: Server) -> None:
    """Store and list 25 glossaries of 8 MiB."""
    store_glossaries(server)
    for path in ("/v1/glossaries", "/v2/glossaries", "/v3/glossaries"):
        started = time.monotonic()
        response = httpx.get(f"{server.url}{path}", headers=DEEPL, timeout=120)
        seconds = time.monotonic() - started
        print(f"  GET {path}: {response.status_code}, {len(response.content)} bytes in {seconds:.2f} s")


def used_glossaries(server: Server) -> None:
    """Translate with 25 glossaries of 8 MiB.

    Glossaries that are ready for translation stay in memory, up to 128 MiB.
    """
    for glossary_id in store_glossaries(server):
        form = {"text": "A dog.", "source_lang": "EN", "target_lang": "DE", "glossary_id": glossary_id}
        httpx.post(f"{server.url}/v2/translate", data=form, headers=DEEPL, timeout=120)


def docx(server: Server) -> None:
    """Send a document of 82 KB with a paragraph of 1.4 million runs."""
    runs = "<w:r><w:t>1</w:t></w:r>" * (32 * MEBIBYTE // 24)
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    text = f'<w:document xmlns:w="{space}"><w:body><w:p>{runs}</w:p></w:body></w:document>'
    content = BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("word/document.xml", text)
    form = {"source": "en", "target": "de"}
    file = {"file": ("large.docx", content.getvalue())}
    answer = httpx.post(f"{server.url}/v1/documents", data=form, files=file, timeout=60)
    state, deadline = answer.json(), time.monotonic() + 180
    while state.get("state") not in ("done", "failed") and time.monotonic() < deadline:
        time.sleep(0.5)
        state = httpx.get(f"{server.url}/v1/documents/{state['id']}", timeout=60).json()
    print(f"  {len(content.getvalue())} bytes: {state}")


ATTACKS: dict[str, Callable[[Server], None]] = {
    attack.__name__: attack
    for attack in (
        unfinished_json,
        unfinished_fields,
        unfinished_files,
        long_codes,
        glossaries,
        used_glossaries,
        docx,
    )
}


def main() -> None:
    """Run the attacks and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help=", ".join(ATTACKS))
    attacks = parser.parse_args().attacks or list(ATTACKS)
    show_machine(machine())
    for name in attacks:
        with tempfile.TemporaryDirectory() as folder:
            server = Server(Path(folder), {"state": f"{folder}/state", "limits": {"document_hours": 1}})
            start = server.resident()
            try:
                ATTACKS[name](server)
                time.sleep(60)
                later, health = server.resident(), httpx.get(f"{server.url}/health", timeout=5).status_code
            finally:
                server.stop()
            peak, after = (server.peak - start) / MEBIBYTE, (later - start) / MEBIBYTE
            verdict = "kept" if peak <= PEAK and after <= LATER and health == 200 else "missed"
            print(
                f"{name}: start {start / MEBIBYTE:.0f} MiB, peak +{peak:.0f}, later +{after:.0f}: {verdict}"
            )


if __name__ == "__main__":
    main()
