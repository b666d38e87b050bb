"""A catalogue's server on loopback, which can be told to answer badly, and the catalogues that it serves."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import http.server
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.utils import formatdate

FAST = {"timeout": 1.0, "window": 0.5, "slowest": 10_000.0, "attempts": 3, "pause": 0.01}
"""Limits for a server that is near."""


@dataclass
class Behaviour:
    """How a path is answered.

    ``cut``: the bodies of the next requests end after so many bytes. ``drip``: so many bytes and a pause
    of so many seconds, over and over. ``endless``: the body never ends. ``ranges``: whether parts are
    given. ``silent``: seconds before anything is said. ``wrong_extent``: what is said of a part.
    """

    body: bytes = b""
    status: int = 200
    cut: list[int] = field(default_factory=list)
    drip: tuple[int, float] | None = None
    endless: bool = False
    ranges: bool = True
    tag: str | None = None
    lengthless: bool = False
    silent: float = 0.0
    wrong_extent: str | None = None
    headers: dict[str, str] = field(default_factory=dict)


class ModelServer:
    """Serves ``paths`` and remembers ``requests``: their paths and ranges."""

    def __init__(self) -> None:
        self.paths: dict[str, Behaviour] = {}
        self.requests: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.closing = threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                with contextlib.suppress(OSError):
                    outer.answer(self)
                self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def put(self, path: str, body: bytes | object, **how: object) -> Behaviour:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
        self.paths["/" + path] = Behaviour(content, **({"tag": tag} | how))
        return self.paths["/" + path]

    def answer(self, request: http.server.BaseHTTPRequestHandler) -> None:
        asked = request.headers.get("Range", "")
        self.requests.append((request.path, asked))
        self.headers.append(dict(request.headers))
        how = self.paths.get(request.path)
        if how is None:
            request.send_error(404)
            return
        self.closing.wait(how.silent)
        body, status, extra = how.body, how.status, dict(how.headers)
        begin = re.fullmatch(r"bytes=(\d+)-", asked)
        condition = request.headers.get("If-Range")
        if begin and how.ranges and condition in (None, how.tag) and status == 200:
            start = int(begin[1])
            if start >= len(body):
                status, extra["Content-Range"] = 416, f"bytes */{len(body)}"
                body = b""
            else:
                status = 206
                extra["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
                if how.wrong_extent is not None:
                    extra["Content-Range"] = how.wrong_extent
                body = body[start:]
        request.send_response(status)
        if how.tag:
            request.send_header("ETag", how.tag)
        for name, value in extra.items():
            request.send_header(name, value)
        if not how.lengthless and "Content-Length" not in extra:
            request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        self.send(request, how, body)

    def send(self, request: http.server.BaseHTTPRequestHandler, how: Behaviour, body: bytes) -> None:
        if how.cut:
            body = body[: how.cut.pop(0)]
        if how.drip is None and not how.endless:
            request.wfile.write(body)
        size, pause = how.drip or (1 << 16, 0.0)
        at = 0
        while (how.drip or how.endless) and not self.closing.is_set():
            block = body[at : at + size] or (b"x" * size if how.endless else b"")
            if not block:
                return
            request.wfile.write(block)
            at += size
            time.sleep(pause)


@contextlib.contextmanager
def serving() -> Iterator[ModelServer]:
    """A server that runs inside."""
    found = ModelServer()
    thread = threading.Thread(target=found.server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield found
    finally:
        found.closing.set()
        found.server.shutdown()
        found.server.server_close()
        thread.join()


def closed_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def contents(pair: str, size: int = 200_000) -> dict[str, bytes]:
    """The files of a made-up Firefox model by name; random bytes, so that packing does not shrink them."""
    joined = pair.replace("-", "")
    stream = hashlib.shake_256(pair.encode()).digest(size + 6000)
    return {
        f"model.{joined}.intgemm.alphas.bin": stream[:size],
        f"lex.50.50.{joined}.s2t.bin": stream[size : size + 4000],
        f"vocab.{joined}.spm": stream[size + 4000 :],
    }


Models = dict[tuple[str, str], dict[str, bytes]]


def storage(server: ModelServer, models: Models, **changed: object) -> dict[str, object]:
    """Serve models as Firefox's storage does; gives the catalogue, to be changed and served again."""
    listed: dict[str, list[object]] = {}
    for (pair, architecture), files in models.items():
        source, target = pair.split("-")
        entries: dict[str, object] = {}
        for name, content in files.items():
            path = f"models/{pair}/{architecture}_x/exported/{name}.gz"
            server.put(path, gzip.compress(content, mtime=0))
            kind = {"m": "model", "l": "lexicalShortlist", "v": "vocab", "s": "srcVocab", "t": "trgVocab"}
            entries[kind[name[0]]] = {"path": path} | (
                {"uncompressedSize": len(content), "uncompressedHash": hashlib.sha256(content).hexdigest()}
                if name.startswith("model")
                else {}
            )
        better = {"tiny": 0.0, "base-memory": 1.0, "base": 2.0}[architecture]
        listed.setdefault(pair, []).append(
            {
                "architecture": architecture,
                "releaseStatus": "Release",
                "sourceLanguage": source,
                "targetLanguage": target,
                "files": entries,
                "modelStatistics": {"parameters": 16907062},
                "metrics": {
                    "flores200-plus": {"bleu": 45.0 + better, "chrf": 65.0 + better, "comet22": 0.88}
                },
            }
        )
    catalogue: dict[str, object] = {
        "generated": formatdate(0),
        "baseUrl": "https://storage.invalid/bucket",
        "models": listed,
    }
    server.put("models.json", catalogue | changed)
    return catalogue
